"""Two situations in one saved text are told apart, and nothing else is."""

from __future__ import annotations

import pytest

from kvdoctor.readers import read
from kvdoctor.readers.situations import situations

BEFORE = "vllm:num_requests_running 1\nvllm:generation_tokens_total 50\n"
AFTER = "vllm:num_requests_running 2\nvllm:generation_tokens_total 90\n"


def test_a_text_is_parted_where_a_comment_stands_between_the_same_series():
    assert situations(f"# before\n{BEFORE}# after\n{AFTER}".encode()) == [
        f"# before\n{BEFORE}".encode(),
        f"# after\n{AFTER}".encode(),
    ]


@pytest.mark.parametrize(
    "text",
    [
        f"# source: a server\n# kind: real\n{BEFORE}",
        f"{BEFORE}# the rest\nanother_series 3\n",
        f"# HELP a b\n{BEFORE}# TYPE c gauge\n{AFTER}",
        "",
    ],
)
def test_a_text_of_one_situation_stays_whole(text):
    assert situations(text.encode()) == [text.encode()]


def test_two_scrapes_of_one_process_in_one_file_are_two_readings(tmp_path):
    path = tmp_path / "both.prom"
    path.write_text(f"# first scrape\n{BEFORE}# second scrape\n{AFTER}")
    (source,) = read([str(path)]).sources
    assert len(source.at) == 2


def test_two_processes_in_one_file_are_two_sources(tmp_path):
    path = tmp_path / "both.prom"
    path.write_text(f"# with\n{AFTER}# without\n{BEFORE}")
    assert len(read([str(path)]).sources) == 2
