"""Logs as files: parts, replicas, ranks and situations told apart, and texts that are no log refused."""

from __future__ import annotations

import gzip
import io
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loglines import FORMS, source, stats, values

from kvdoctor import metrics as m
from kvdoctor.diagnose import diagnose
from kvdoctor.engines.logline import ENGINE
from kvdoctor.errors import KvdoctorError
from kvdoctor.readers import read
from kvdoctor.readers.log import is_log
from kvdoctor.readers.logs import LINES
from kvdoctor.timeline import Timeline


def test_rotated_parts_are_one_log_in_whatever_order_they_are_named(tmp_path):
    (tmp_path / "vllm.log").write_text(stats(40, run=3))
    (tmp_path / "vllm.log.1").write_text(stats(20, run=2))
    with gzip.open(tmp_path / "vllm.log.2.gz", "wt") as file:
        file.write(stats(0, run=1))
    (found,) = read([str(tmp_path / n) for n in ("vllm.log", "vllm.log.2.gz", "vllm.log.1")]).sources
    assert values(found, m.RUNNING) == [1.0, 2.0, 3.0]
    assert list(found.at) == [0.0, 20.0, 40.0]


def test_two_replicas_are_two_sources(tmp_path):
    (tmp_path / "pod-a.log").write_text(stats(0))
    (tmp_path / "pod-b.log").write_text(stats(0))
    assert len(read([str(tmp_path / "pod-a.log"), str(tmp_path / "pod-b.log")]).sources) == 2


def test_processes_that_are_interleaved_are_told_apart_by_what_stands_in_front(tmp_path):
    path = tmp_path / "pods.log"
    path.write_text("".join(f"[pod/vllm-{n}/main] {stats(s, run=n)}" for s in (0, 10) for n in (1, 2)))
    found = {s.name: values(s, m.RUNNING) for s in read([str(path)]).sources}
    assert found == {"pods vllm-1": [1.0, 1.0], "pods vllm-2": [2.0, 2.0]}


def test_ranks_are_summed_where_they_share_a_log(tmp_path):
    text = "".join(stats(s, run=r + 1, rank=f"00{r}") for s in (0, 10) for r in (0, 1))
    found = source(tmp_path, text)
    line = Timeline(found, ENGINE, 0, len(found.at) - 1)
    assert line.ranks == ("0", "1")
    assert line.gauge(m.RUNNING).last == 3.0


def test_two_situations_in_one_file_are_two_sources(tmp_path):
    path = tmp_path / "both.log"
    path.write_text(f"# before\n{stats(0, run=1)}# after\n{stats(40, run=2)}")
    assert [s.name for s in read([str(path)]).sources] == ["both before", "both after"]


def test_stdin_is_read(monkeypatch):
    class Pipe:
        buffer = io.BufferedReader(io.BytesIO(stats(0).encode()))

    monkeypatch.setattr(sys, "stdin", Pipe)
    (found,) = read(["-"]).sources
    assert found.name == "stdin"


def test_a_text_that_no_engine_wrote_is_refused_by_its_beginning(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("dear diary\ntoday was slow\n")
    with pytest.raises(KvdoctorError, match="begins with: dear diary"):
        read([str(path)])


def test_a_log_whose_lines_begin_with_a_time_in_brackets_is_not_called_json(tmp_path):
    path = tmp_path / "notes.log"
    path.write_text("[2025-03-01 10:00:00] a word\n[2025-03-01 10:00:01] another\n")
    with pytest.raises(KvdoctorError, match="begins with: \\[2025-03-01"):
        read([str(path)])


@pytest.mark.parametrize(
    ("head", "log"),
    [
        (b"# HELP a b\n# TYPE a gauge\na 1\n", False),
        (b'vllm:num_requests_running{engine="0"} 1.0\n', False),
        (b"#@ 1.0 2\na 1\n", False),
        (b"\0\0\0", False),
        (b"<html>", False),
        (b'{"a": 1}', False),
        (b'{"log":"x","stream":"stdout"}', True),
        (b"INFO hello\nWARNING there\n", True),
        (b"", False),
    ],
)
def test_a_log_is_told_from_metrics_by_its_beginning(head, log):
    assert is_log(head) is log


HOSTILE = st.lists(
    st.sampled_from(
        [f[1].encode() for f in FORMS]
        + [line.needle for line in LINES]
        + [
            b"\n",
            b"\r\n",
            b"\0",
            b"\xff\xfe",
            b"# before\n",
            b"9" * 400,
            b"1e999",
            b"-",
            b"%",
            b"{",
            b'"log":',
        ]
    )
    | st.binary(max_size=60),
    max_size=30,
).map(b"".join)


@settings(max_examples=300, deadline=None)
@given(HOSTILE)
def test_hostile_text_is_read_or_refused_and_never_breaks(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("hostile") / "x.log"
    path.write_bytes(b"INFO start\n" + text)
    try:
        found = diagnose(read([str(path)]))
    except KvdoctorError:
        return
    assert found.confidence.value != "high" or found.primary is None
