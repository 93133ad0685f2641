"""The client's view of a window, and a ledger held against it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.truth import Check, Request, compare, load, truth

BUSY = (
    Request(100.0, (101.0, 101.5, 102.5), queue=0.4, prefill=0.5, error=None),
    Request(100.5, (102.5, 103.5), queue=1.2, prefill=0.7, error=None),
    Request(101.0, (), queue=None, prefill=None, error="HTTP 503"),
    Request(103.0, (109.0, 109.5), queue=5.0, prefill=0.9, error=None),
)


def diagnosis(parts: list[dict[str, Any]], *, seconds: float = 1.5) -> dict[str, Any]:
    """A diagnosis of [100, 104], in which BUSY has a TTFT of 1.5 s and a queue of 0.8 s."""
    return {
        "window": {"start": 100.0, "seconds": 4.0},
        "ledger": {"ttft": {"seconds": seconds, "parts": parts}},
    }


def part(name: str, seconds: float, parent: str | None = None) -> dict[str, Any]:
    return {"name": name, "seconds": seconds, "parent": parent, "basis": "measured"}


def named(checks: tuple[Check, ...], name: str) -> Check:
    return next(found for found in checks if found.name == name)


def test_ttft_is_of_the_requests_whose_first_token_fell_in_the_window() -> None:
    found = truth(BUSY, 100.0, 104.0)
    assert found.first_tokens == 2
    assert found.ttft is not None
    assert found.ttft["mean"] == 1.5


def test_a_gap_belongs_to_the_window_of_its_later_token() -> None:
    found = truth(BUSY, 102.0, 104.0)
    assert found.gaps == 2
    assert found.itl is not None
    assert found.itl["mean"] == 1.0


def test_failed_requests_are_counted_and_give_no_times() -> None:
    assert truth(BUSY, 100.0, 104.0).errors == 1
    assert truth(BUSY, 102.0, 104.0).errors == 0


def test_unanswered_requests_are_integrated_over_the_window_only() -> None:
    # 1.0 s of the first, 2.0 s of the second, and of the last the one second before the window ends
    assert truth(BUSY, 100.0, 104.0).waiting_for_first == 1.0


def test_an_empty_window_has_no_mean() -> None:
    found = truth(BUSY, 200.0, 210.0)
    assert (found.ttft, found.itl, found.queue) == (None, None, None)


@pytest.mark.parametrize(
    ("told", "ok"),
    [(1.5, True), (1.4201, True), (1.4199, False), (1.5799, True), (1.5801, False)],
)
def test_a_mean_may_differ_by_a_twentieth_and_five_milliseconds(told: float, ok: bool) -> None:
    checks = compare(diagnosis([part("queue", told)], seconds=told), BUSY)
    assert named(checks, "ttft mean").ok is ok


@pytest.mark.parametrize(("told", "ok"), [(0.9799, True), (0.9801, False), (0.6201, True), (0.6199, False)])
def test_the_queue_may_differ_by_a_fifth_and_twenty_milliseconds(told: float, ok: bool) -> None:
    checks = compare(diagnosis([part("queue", told), part("prefill", 1.5 - told)]), BUSY)
    assert named(checks, "queue mean").ok is ok


def test_nested_parts_are_not_counted_twice() -> None:
    parts = [part("queue", 0.8), part("queue_waiting_for_kv", 0.5, parent="queue"), part("prefill", 0.7)]
    checks = compare(diagnosis(parts), BUSY)
    assert named(checks, "ttft parts sum").ok is True
    assert named(checks, "queue mean").told == 0.8


def test_parts_that_miss_a_millisecond_do_not_sum() -> None:
    checks = compare(diagnosis([part("queue", 0.8), part("prefill", 0.699)]), BUSY)
    assert named(checks, "ttft parts sum").ok is False


def test_a_ledger_without_a_queue_part_is_not_comparable() -> None:
    assert named(compare(diagnosis([part("prefill", 1.5)]), BUSY), "queue mean").ok is None


def test_offsets_of_a_record_become_wall_seconds(tmp_path: Path) -> None:
    fields = {"start": 50.0, "token_s": [0.25, 0.5], "engine_queue_s": 0.1, "engine_prefill_s": None}
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps({**fields, "error": None}) + "\n")
    assert load([path, path]) == (Request(50.0, (50.25, 50.5), 0.1, None, None),) * 2
