"""Lines that a terminal broke are one again, and others keep what is theirs."""

from __future__ import annotations

import pytest
from loglines import source, stats, values

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.readers.logs.wrapped import unwrapped


def _broken(line: str, at: int) -> str:
    return f"{line[:at]}\n{line[at:]}"


@pytest.mark.parametrize("word", ["generation throughput", "Running", " GPU KV", "usage"])
def test_a_line_that_a_terminal_broke_is_one(tmp_path, word):
    one, two = stats(27, run=7, wait=40, usage=98.5), stats(37, run=8)
    found = source(tmp_path, _broken(one, one.index(word) + 3) + "POST /v1 200 OK\n" + two)
    assert values(found, m.RUNNING) == [7.0, 8.0]
    assert values(found, m.WAITING) == [40.0, 0.0]
    assert values(found, m.KV_CACHE_USAGE) == pytest.approx([0.985, 0.05])
    assert next(list(c.value) for c in found.columns if c.name == lm.LINE) == [1.0, 4.0]


@pytest.mark.parametrize("end", [b"\n", b""])
def test_broken_lines_are_looked_for_in_time_that_grows_with_the_text(end):
    one = b"Avg prompt throughput: generation throughput: KV cache usage: "
    for text in (one * 20_000 + end, (one + b"\n") * 20_000, (one * 10 + b"\n\n") * 2_000):
        assert unwrapped(text) == text


def test_a_line_that_is_short_by_itself_takes_nothing_from_the_next(tmp_path):
    short = "Avg prompt throughput: 5.0 tokens/s, Avg generation throughput: 6.0 tokens/s\n"
    found = source(tmp_path, short + stats(37, run=8, made=9.0))
    assert values(found, lm.GENERATION_RATE) == [6.0, 9.0]
    assert values(found, m.RUNNING) == [8.0]
