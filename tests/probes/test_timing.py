"""Repeats, medians, and the doubt about rates that cannot be."""

from __future__ import annotations

import pytest

from kvdoctor.probes.timing import Ceiling, ImpossibleRate, Pace, Row, measure, percentile, settle

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


def test_beside_others_each_burst_is_followed_by_ten_times_its_rest():
    slept = []
    pace = Pace(shared=True, sleep=slept.append)
    row = measure("read", played(0.02), payload=MIB, block=MIB, ceiling=OPEN, pace=pace)
    assert slept == [pytest.approx(0.2)] * (len(row.repeats) + 2)


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
