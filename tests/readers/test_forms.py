"""The forms of a row: two sides in one, a part of a whole, a value that names its sides, a unit in a name or a note."""

from __future__ import annotations

import pytest

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.readers.changes import changes
from kvdoctor.readers.figures import figures, unit_kind
from kvdoctor.readers.forms import of_whole, parts
from kvdoctor.readers.rows import facts, normal, quantity_of


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("200 milliseconds", [(0.2, "seconds")]),
        ("12 tokens per second", [(12.0, "tokens/s")]),
        ("12 tokens/sec", [(12.0, "tokens/s")]),
        ("4.1 reqs/s", [(4.1, "req/s")]),
        ("9.4 Gb/s", [(1.175e9, "bytes/s")]),
        ("9.4 GB/s", [(9.4e9, "bytes/s")]),
        ("3956 ms / 13 runs", [(3.956, "seconds"), (13.0, "")]),
        ("11 to 99 %", [(pytest.approx(0.11), "ratio"), (0.99, "ratio")]),
    ],
)
def test_units_are_read_as_people_write_them(text, read):
    assert [(f.value, f.kind) for f in figures(text)] == read


@pytest.mark.parametrize(
    ("text", "below", "above"),
    [("less than 3 s", True, False), ("> 3 s", False, True), ("3 s", False, False)],
)
def test_bounds_are_kept_as_bounds(text, below, above):
    (found,) = figures(text)
    assert (found.below, found.above) == (below, above)


def test_what_is_no_unit_has_no_kind():
    assert (unit_kind("ms"), unit_kind("runs")) == ("seconds", "")


@pytest.mark.parametrize(
    ("name", "value", "note", "told"),
    [
        ("ITL, eager vs graphs", "9 vs 3 ms", "", [("ITL, eager", "9 ms"), ("ITL, graphs", "3 ms")]),
        ("TTFT", "4 s with, 1 s without", "", [("TTFT, with", "4 s"), ("TTFT, without", "1 s")]),
        (
            "decode",
            "TP1: 42 tok/s, TP2: 27 tok/s",
            "",
            [("decode, TP1", "42 tok/s"), ("decode, TP2", "27 tok/s")],
        ),
        (
            "TTFT at 1k / 8k prompt",
            "1 s / 9 s",
            "",
            [("TTFT at 1k prompt", "1 s"), ("TTFT at 8k prompt", "9 s")],
        ),
        (
            "cold prefill",
            "4 s / 9 s",
            "on / off",
            [("cold prefill, on", "4 s"), ("cold prefill, off", "9 s")],
        ),
        ("decode, 1 x 32K / 2 x 32K", "9 / 3", "", [("decode, 1 x 32K", "9"), ("decode, 2 x 32K", "3")]),
        ("TTFT (ms)", "350", "", [("TTFT (ms)", "350 ms")]),
        ("ttft_ms", "350", "", [("ttft_ms", "350 ms")]),
        ("TTFT", "350", "ms", [("TTFT", "350 ms")]),
        ("TTFT", "350", "of one run", [("TTFT", "350")]),
        ("rate", "126 (min 125, max 127, stdev 0.4)", "", [("rate", "126 (min 125, max 127, stdev 0.4)")]),
        (
            "during the stall",
            "2-3 reqs, 0.1-0.6 tok/s",
            "",
            [("during the stall", "2-3 reqs, 0.1-0.6 tok/s")],
        ),
    ],
)
def test_a_row_is_split_where_it_tells_several_figures(name, value, note, told):
    assert parts(name, value, note) == told


def test_a_line_of_a_log_is_split_though_it_tells_other_things_too():
    line = (
        "#running-req: 2, token usage: 0.10, cuda graph: True, gen throughput (token/s): 20.2, #queue-req: 0"
    )
    assert [name for name, _ in parts("line", line, "")] == [
        "line, #running-req",
        "line, token usage",
        "line, gen throughput (token/s)",
        "line, #queue-req",
    ]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("time in Python per step", "9 ms of 18 ms", [(lm.HOST_SHARE, 0.5)]),
        ("HBM throughput", "2 TB/s of 4 TB/s", [(lm.REACHED, 2e12), (lm.REACHABLE, 4e12)]),
        ("KV transfer rate", "1 of 40 GB/s", [(lm.TRANSFER_RATE, 1e9), (lm.LINK_RATED, 40e9)]),
        ("slot reuse", "0 of 900 tokens", [(lm.BATCH_CACHED, 0.0), (lm.PROMPT_TOKENS, 900.0)]),
        ("KV blocks in use", "98 of 100", [(m.KV_CACHE_USAGE, 0.98)]),
        ("memory available", "28.59 of 44.32 GiB", []),
        ("time in Python per step", "9 ms", []),
        ("time in Python per step", "9 ms of 0 ms", []),
    ],
)
def test_a_part_of_a_whole_is_a_share(name, value, told):
    assert list(of_whole(name, value, "profile")) == told


@pytest.mark.parametrize(
    ("name", "unit", "quantity"),
    [
        ("requests sent a second", "req/s", lm.OFFERED),
        ("requests sent at once", "", lm.CONCURRENCY),
        ("anything else", "req/s", lm.SERVED),
        ("input tokens per second", "tokens/s", lm.PROMPT_RATE),
        ("two nodes", "tokens/s", lm.GENERATION_RATE),
        ("max running requests", "", lm.MAX_RUNNING),
        ("gpu mem util", "", None),
        ("share of ttft in queue", "ratio", lm.QUEUE_SHARE),
        ("load average", "seconds", None),
        ("froze during the other's prefill", "seconds", lm.STALL_BESIDE),
        ("kv blocks loaded before prefill", "seconds", lm.LOAD_TIME),
        ("expected prefix hit rate", "ratio", lm.EXPECTED_HIT_RATE),
        ("network throughput", "bytes/s", None),
        ("kv transfers to the cpu", "ratio", lm.MOVE_SHARE),
        ("kv transfer", "ratio", lm.NETWORK_SHARE),
    ],
)
def test_words_stand_for_quantities(name, unit, quantity):
    assert quantity_of(name, unit) is quantity


def test_what_was_set_up_was_not_timed():
    assert quantity_of("load", "seconds", "workload") is None
    assert quantity_of("load", "seconds", "log") is lm.LOAD_TIME


@pytest.mark.parametrize(
    ("kind", "name", "value", "told"),
    [
        ("log", "warning", "Sequence group 4 is preempted by recompute", {m.PREEMPTIONS: 1.0}),
        ("log", "free KV blocks", "0", {m.KV_CACHE_USAGE: 1.0}),
        ("log", "free KV blocks", "12", {}),
        ("log", "kv cache", "out of free pages", {lm.NO_SPACE: 1.0}),
        ("log", "kv cache", "never out of pages", {}),
        ("log", "message", "request waits: no available KV blocks", {lm.NO_SPACE: 1.0}),
        ("log", "out of KV cache: no free blocks", "0", {}),
        ("metric", "prefix_cache_hits_total", "frozen", {lm.HITS: 0.0}),
        ("config", "cache_prompt", "not sent", {lm.CACHING: 0.0}),
        ("config", "UCX_TLS", "tcp,cuda_copy", {lm.TCP: 1.0}),
        ("config", "UCX_TLS", "tcp,rc,cuda_copy", {}),
        ("workload", "shared prefix", "none", {}),
        ("workload", "byte-identical prompt", "re-sent", {lm.REPEATED: 1.0}),
        ("workload", "tool definitions", "reordered on every request", {lm.VOLATILE: 1.0}),
    ],
)
def test_words_of_a_row_are_facts(kind, name, value, told):
    assert dict(facts(kind, normal(name), value)) == told


def test_a_change_is_told_with_the_setting_that_was_changed():
    rows = [
        ("flag", "--threads before", "30"),
        ("flag", "--threads after", "18"),
        ("benchmark", "decode rate before", "0.5 tok/s"),
        ("benchmark", "decode rate after", "3 tok/s"),
    ]
    (change,) = changes(rows)
    assert (change.factor, change.what) == (6.0, "after threads")


def test_an_arrow_tells_both_sides_of_a_change():
    (change,) = changes([("flag", "--threads", "30 -> 18"), ("benchmark", "TTFT", "9 s -> 3 s")])
    assert (change.factor, change.what) == (3.0, "threads")


def test_a_course_without_a_change_is_none():
    assert not list(changes([("benchmark", "TTFT", "9 s -> 3 s"), ("flag", "--threads", "30")]))


@pytest.mark.parametrize(
    "value", ["none", "No", "never", "not seen", "nothing", "zero", "ruled out", "n/a", "-"]
)
@pytest.mark.parametrize(
    "name", ["preemptions, OOM, NCCL errors", "full prompt re-processing", "no free blocks"]
)
def test_a_value_that_denies_what_a_name_says_is_no_fact(name, value):
    assert list(facts("log", normal(name), value)) == []
    assert list(facts("log", normal(name), "seen often")) != []
