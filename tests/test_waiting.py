"""Why requests wait, reading by reading."""

from __future__ import annotations

import pytest
from loads import Page, case, case_of, endpoint

from kvdoctor.waiting import AT_LIMIT, FULL, PLATEAU, WaitShares


def shares(**numbers: object) -> WaitShares:
    """Shares with 20 waiting at each of 31 readings unless told otherwise."""
    return case(**{"waiting": 20, "running": 4, "usage": 0.3, **numbers}).waits


def test_nobody_waiting_has_no_shares():
    assert shares(waiting=0) == WaitShares()


@pytest.mark.parametrize(
    ("usage", "blocks"),
    [pytest.param(FULL - 0.001, 0.0, id="just under full"), pytest.param(FULL, 1.0, id="full")],
)
def test_a_full_pool_is_what_requests_wait_for(usage, blocks):
    found = shares(usage=usage)
    assert (found.blocks, found.limit) == (blocks, 1 - blocks)


@pytest.mark.parametrize(
    ("pool", "blocks"),
    [
        pytest.param(500 / 0.3 + 1, 0.0, id="room for a prompt"),
        pytest.param(500 / 0.3 - 1, 1.0, id="not quite"),
    ],
)
def test_a_pool_without_room_for_a_prompt_is_full_at_any_usage(pool, blocks):
    assert shares(usage=0.7, pool_tokens=pool).blocks == blocks


def test_after_a_preemption_a_batch_below_its_peak_waits_for_blocks():
    running = [4.0, 3.0] * 15 + [4.0]
    assert shares(running=running).blocks == 0.0
    assert shares(running=running, preemptions=2).blocks == pytest.approx(15 / 31)


def test_without_usage_the_reason_is_unknown():
    assert shares(usage=None).unknown == 1.0


@pytest.mark.parametrize(
    ("at_peak", "limit"),
    [
        pytest.param(12, 0.0, id="12 of 31 readings at the peak"),
        pytest.param(13, 1.0, id="13 of 31 readings at the peak"),
    ],
)
def test_a_peak_is_a_limit_when_it_is_a_plateau(at_peak, limit):
    assert 12 < PLATEAU * 31 <= 13
    found = shares(running=[100.0] * at_peak + [50.0] * (31 - at_peak))
    assert (found.limit, found.other) == (limit, 1 - limit)
    assert found.limit_at == 100


@pytest.mark.parametrize(
    ("running", "limit"),
    [
        pytest.param(100 * AT_LIMIT, 1.0, id="a slot in twenty free"),
        pytest.param(100 * AT_LIMIT - 0.5, 0.0, id="more than that"),
    ],
)
def test_a_batch_within_a_twentieth_of_its_peak_is_at_its_limit(running, limit):
    assert shares(running=[100.0] + [running] * 30).limit == limit


def test_readings_at_which_nobody_waits_do_not_count():
    waiting = [20.0] * 10 + [0.0] * 21
    found = shares(waiting=waiting, running=[4.0] * 10 + [1.0] * 21)
    assert (found.readings, found.limit, found.limit_at) == (10, 1.0, 4)


def test_shares_are_of_requests_not_of_readings():
    found = shares(waiting=[30.0] * 10 + [10.0] * 21, usage=[0.95] * 10 + [0.5] * 21)
    assert found.blocks == pytest.approx(300 / 510)


def test_requests_that_wait_for_their_kv_are_left_out():
    assert shares(deferred=20) == WaitShares()
    assert shares(deferred=15).readings == 31


def test_a_request_whose_kv_has_come_waits_for_a_slot():
    told = endpoint(waiting=20, running=4, deferred=20)
    told.series("vllm:num_requests_kv_fetch_by_stage", 2, stage="in_progress")
    assert case_of(told).waits.limit == 1.0


def test_each_rank_has_its_own_limit_and_its_own_pool():
    ranks = [{"usage": 0.95, "running": 2, "waiting": 6}, {"usage": 0.1, "running": 8, "waiting": 2}]
    found = shares(ranks=ranks)
    assert (found.blocks, found.limit, found.limit_at) == (0.75, 0.25, 8)


def test_shares_sum_to_one():
    found = shares(usage=[0.95] * 10 + [0.1] * 21, running=[4.0, 1.0] * 15 + [4.0])
    assert found.blocks + found.limit + found.other + found.unknown == pytest.approx(1)


def test_a_page_without_gauges_has_no_shares():
    told: Page = endpoint(waiting=20)
    told.columns = [c for c in told.columns if not c.name.startswith("vllm:num_requests")]
    assert case_of(told).waits == WaitShares()
