"""What is read of /proc, and above all what is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakeproc import FakeProc

from kvdoctor.target.process import LIMITS, Proc, parse_stat


@pytest.mark.parametrize(
    "name",
    ["maps", "smaps", "smaps_rollup", "numa_maps", "map_files", "pagemap", "mem", "clear_refs", "stack"],
)
def test_a_file_that_walks_the_memory_map_is_never_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not on the list"):
        Proc(FakeProc(tmp_path).root).read("self", name)


def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not on the list"):
        Proc(FakeProc(tmp_path).root).read("self", "../self/stat")


def test_a_name_with_parentheses_and_spaces_is_no_trap() -> None:
    found = parse_stat(b"42 (a) b ( c)) S 7 0 0 0 0 4194304 0 0 0 0 11 22 0 0 20 0 3 0 777 0 0\n")
    assert found is not None
    assert (found.pid, found.comm, found.ppid, found.cpu_ticks, found.threads, found.start_ticks) == (
        42,
        "a) b ( c)",
        7,
        33,
        3,
        777,
    )


@pytest.mark.parametrize(
    "raw", [b"", b"42", b"42 (x) S", b"x (y) S 1 " + b"0 " * 30, b"42 (x) S " + b"z " * 30]
)
def test_half_a_stat_is_nobody(raw: bytes) -> None:
    assert parse_stat(raw) is None


def test_a_process_that_is_gone_reads_as_nothing(tmp_path: Path) -> None:
    proc = Proc(FakeProc(tmp_path).root)
    assert proc.stat(77) is None
    assert proc.ids(77) is None
    assert proc.argv(77) == ()
    assert list(proc.open_files(77)) == []
    assert list(proc.thread_names(77)) == []
    assert proc.namespace(77, "net") is None
    assert not proc.may_look(77)


def test_a_reused_pid_is_another_process(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.process(10, ["a"], start=500)
    proc = Proc(fake.root)
    assert proc.is_same(10, 500)
    fake.stat(10, 10, start=501)
    assert not proc.is_same(10, 500)
    fake.stat(10, 10, start=500, state="Z")
    assert not proc.is_same(10, 500)


def test_a_command_line_has_a_limit(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.process(10, [], raw=b"a\0" * LIMITS["cmdline"])
    assert len(Proc(fake.root).argv(10)) == LIMITS["cmdline"] // 2


def test_a_padded_title_loses_its_padding(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.process(10, [], raw=b"VLLM::EngineCore      \0\0\0\0")
    assert Proc(fake.root).argv(10) == ("VLLM::EngineCore",)


def test_the_innermost_pid_comes_last(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.process(4242, ["a"], ns_pids=(7,))
    ids = Proc(fake.root).ids(4242)
    assert ids is not None
    assert ids.ns_pids == (4242, 7)
