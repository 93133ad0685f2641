"""Repeats, medians, and the doubt about rates that cannot be."""

from __future__ import annotations

import time

import pytest

from kvdoctor.probes.timing import (
    ACTIVE_S,
    SHARED_REPEATS,
    SHARED_WARM,
    Ceiling,
    ImpossibleRate,
    Pace,
    Row,
    measure,
    percentile,
    settle,
)

MIB = 2**20
OPEN = Ceiling(None, "none")


def played(*seconds):
    """An operation that takes these seconds one after the other, the last again and again."""
    left = list(seconds)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_warm_up_ends_when_two_repeats_agree():
    calls = []

    def run():
        calls.append(1)
        return (0.4, 0.2, 0.1, 0.101, 5.0)[len(calls) - 1]

    assert settle(run)
    assert len(calls) == 4


def test_what_never_agrees_is_said_to_be_unsettled():
    assert not settle(played(*(2.0**-n for n in range(9))), budget_s=100.0)


def test_a_slow_operation_is_not_warmed_up_for_ever():
    assert not settle(played(10.0, 20.0, 40.0))


def test_the_rate_is_the_median_and_every_repeat_is_kept():
    row = measure(
        "read", played(1.0, 1.0, 0.5, 0.25, 1.0, 0.5, 0.5, 0.1, 0.5), payload=MIB, block=MIB, ceiling=OPEN
    )
    assert row.repeats[:2] == (2.0 * MIB, 4.0 * MIB)
    assert row.bytes_per_s == sorted(row.repeats)[len(row.repeats) // 2]


def test_a_slow_operation_is_repeated_three_times_only():
    assert len(measure("read", played(4.0), payload=MIB, block=MIB, ceiling=OPEN).repeats) == 3


@pytest.mark.parametrize(("traffic", "possible"), [(1, True), (2, False)])
def test_a_copy_is_held_against_the_ceiling_with_both_its_bytes(traffic, possible):
    ceiling = Ceiling(1.5 * MIB, "memory clock")

    def run():
        return measure("copy", played(1.0), payload=MIB, block=MIB, ceiling=ceiling, traffic=traffic)

    if possible:
        assert run().bytes_per_s == MIB
    else:
        with pytest.raises(ImpossibleRate, match=r"internal error.*memory clock"):
            run()


def shared():
    """A pace beside somebody else, and the rests that it took."""
    slept = []
    return Pace(shared=True, sleep=slept.append), slept


def test_beside_others_each_burst_is_followed_by_ten_times_its_rest():
    pace, slept = shared()
    row = measure("read", played(0.02), payload=MIB, block=MIB, ceiling=OPEN, pace=pace)
    assert len(row.repeats) == SHARED_REPEATS
    assert slept == [pytest.approx(0.2)] * (SHARED_REPEATS + SHARED_WARM)
    assert pace.active_s == pytest.approx(0.02 * len(slept))


def test_a_burst_of_several_passes_is_as_long_as_all_of_them():
    pace, slept = shared()
    measure("read", played(0.02), payload=MIB, block=MIB, ceiling=OPEN, pace=pace, within=4)
    assert slept[0] == pytest.approx(0.8)
    assert pace.longest_s == pytest.approx(0.08)


@pytest.mark.parametrize(("spent", "over"), [(ACTIVE_S - 0.001, False), (ACTIVE_S, True)])
def test_nothing_more_is_begun_when_a_second_is_used_up(spent, over):
    pace, _ = shared()
    pace.rest(spent)
    assert pace.used_up is over


def test_nothing_more_is_begun_when_the_time_is_over():
    pace, _ = shared()
    pace.until = time.monotonic()
    assert pace.used_up


def test_waiting_for_a_processor_is_no_burst():
    """An operation that says it took 100 s, of which it cannot have had a processor for more than a moment."""
    slept = []
    pace = Pace(shared=True, sleep=slept.append, on_cpu=True)
    assert pace.spend(lambda: 100.0) == 100.0
    assert sum(slept) < 50.0
    assert pace.elapsed_s == 100.0
    assert pace.active_s < 5.0


def test_alone_nothing_rests_and_nothing_is_used_up():
    pace = Pace(sleep=lambda seconds: pytest.fail("it rested"))
    pace.rest(100.0)
    assert not pace.used_up
    assert pace.about()["active_seconds"] == 100.0


@pytest.mark.parametrize(("share", "value"), [(0.5, 5), (0.99, 10), (0.0, 1), (1.0, 10)])
def test_percentiles_are_values_that_were_seen(share, value):
    assert percentile(range(1, 11), share) == value


def test_a_row_in_json_has_depth_and_direction_only_where_they_mean_something():
    plain = Row("read", 8, 2.0, (2.0,)).as_dict()
    assert plain == {
        "op": "read",
        "block_bytes": 8,
        "bytes_per_s": 2.0,
        "latency_seconds": None,
        "repeats": [2.0],
        "conditions": {},
    }
    full = Row("read", 8, 2.0, (2.0,), (0.1, 0.3), queue_depth=4, direction="h2d").as_dict()
    assert (full["queue_depth"], full["direction"]) == (4, "h2d")
    assert full["latency_seconds"] == {"p50": 0.1, "p99": 0.3}
