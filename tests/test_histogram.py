"""Bucketed histograms: quantiles with the bounds of their bucket, merges, and the split of a tail."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdoctor.histogram import THIN, Histogram, from_cumulative, interpolated, merge, split_tail
from kvdoctor.service import Quantile

INF = math.inf


def histogram(buckets: dict[float, float], total: float = 0.0, count: float | None = None) -> Histogram:
    """A histogram from upper bound -> own count."""
    bounds = tuple(sorted(buckets))
    counts = tuple(float(buckets[b]) for b in bounds)
    return Histogram(bounds, counts, total, sum(counts) if count is None else count)


# -- building ----------------------------------------------------------------------------------------------


def test_cumulative_counts_become_counts_of_their_own():
    built = from_cumulative({0.1: 3, 1.0: 5, INF: 6}, 2.0, 6)
    assert built == Histogram((0.1, 1.0, INF), (3, 2, 1), 2.0, 6)


def test_a_text_cut_before_inf_takes_its_last_bucket_from_the_count():
    assert from_cumulative({0.1: 3, 1.0: 5}, 2.0, 8).counts == (3, 2, 3)


def test_a_family_without_buckets_has_one_that_holds_everything():
    assert from_cumulative({}, 2.0, 8) == Histogram((INF,), (8,), 2.0, 8)


def test_a_bucket_that_raced_with_an_observation_is_never_negative():
    assert from_cumulative({0.1: 3, 1.0: 2, INF: 4}, 1.0, 4).counts == (3, 0, 1)


@pytest.mark.parametrize("count", [math.nan, -1.0, INF])
def test_a_count_that_is_no_number_of_observations_gives_no_histogram(count):
    assert from_cumulative({0.1: 1, INF: 2}, 1.0, count) is None


@pytest.mark.parametrize("total", [math.nan, INF, -INF, -1.0])
def test_a_sum_that_no_observations_have_gives_no_histogram(total):
    assert from_cumulative({0.1: 1, INF: 2}, total, 2) is None


@pytest.mark.parametrize("count", [math.nan, INF])
def test_a_bucket_that_is_not_finite_is_left_out(count):
    assert from_cumulative({0.1: 1, 1.0: count, INF: 2}, 1.0, 2) == Histogram((0.1, INF), (1, 1), 1.0, 2)


# -- mean and quantiles ------------------------------------------------------------------------------------


def test_the_mean_comes_from_sum_and_count():
    assert histogram({0.1: 2, INF: 2}, 3.0).mean == 0.75


def test_nothing_observed_has_no_mean_and_no_quantile():
    empty = histogram({0.1: 0, INF: 0})
    assert (empty.mean, empty.quantile(0.5), split_tail(empty)) == (None, None, None)


@pytest.mark.parametrize(
    ("q", "low", "high"),
    [
        (0.0, 0.0, 0.1),
        (0.25, 0.0, 0.1),
        (0.26, 0.1, 1.0),
        (0.75, 0.1, 1.0),
        (0.76, 1.0, INF),
        (1.0, 1.0, INF),
    ],
)
def test_a_quantile_carries_the_bounds_of_its_bucket(q, low, high):
    assert histogram({0.1: 1, 1.0: 2, INF: 1}).quantile(q) == Quantile(low, high)


def test_an_empty_bucket_never_holds_a_quantile():
    assert histogram({0.1: 0, 1.0: 4, INF: 0}).quantile(0.0) == Quantile(0.1, 1.0)


def test_a_quantile_beyond_all_counted_buckets_lies_in_the_last_one():
    assert histogram({0.1: 2, 1.0: 2, INF: 0}, count=10).quantile(0.95) == Quantile(1.0, INF)


def test_above_counts_only_what_certainly_exceeds():
    assert [histogram({0.1: 1, 1.0: 2, INF: 4}).above(x) for x in (0.0, 0.1, 0.5, 1.0)] == [7, 6, 4, 4]


@pytest.mark.parametrize(
    ("q", "expected"),
    [(0.0, 0.0), (0.25, 0.05), (0.5, 0.1), (0.75, 0.55), (0.99, 1.0)],
)
def test_a_quantile_is_estimated_inside_its_bucket(q, expected):
    even = Histogram((0.1, 1.0, INF), (50.0, 48.0, 2.0), 1.0, 100.0)
    assert interpolated(even, q) == pytest.approx(expected, abs=0.02)


def test_nothing_observed_has_no_estimate():
    assert interpolated(None, 0.5) is interpolated(Histogram((INF,), (0.0,), 0.0, 0.0), 0.5) is None


def test_a_quantile_beyond_all_buckets_is_estimated_at_the_last_ones_beginning():
    assert interpolated(Histogram((0.1, INF), (2.0, 0.0), 0.1, 10.0), 0.95) == 0.1


# -- merging -----------------------------------------------------------------------------------------------


def test_merging_nothing_gives_nothing():
    assert merge([]) is None


def test_equal_bounds_add_up():
    both = merge([histogram({0.1: 1, INF: 2}, 1.0), histogram({0.1: 3, INF: 4}, 2.0)])
    assert both == Histogram((0.1, INF), (4, 6), 3.0, 10)


def test_unequal_bounds_keep_only_those_that_all_share():
    both = merge([histogram({0.1: 1, 0.5: 2, 1.0: 4, INF: 8}), histogram({0.2: 16, 0.5: 32, INF: 64})])
    assert (both.bounds, both.counts) == ((0.5, INF), (1 + 2 + 16 + 32, 4 + 8 + 64))


BOUNDS = (0.001, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, INF)
COUNTS = st.lists(st.integers(0, 500), min_size=len(BOUNDS), max_size=len(BOUNDS))


@given(COUNTS, COUNTS, st.sets(st.sampled_from(BOUNDS[:-1])))
def test_a_merge_loses_no_observation_whatever_the_bounds(first, second, dropped):
    one = histogram(dict(zip(BOUNDS, first, strict=True)), 1.0)
    cumulative = {b: float(sum(second[: i + 1])) for i, b in enumerate(BOUNDS) if b not in dropped}
    two = from_cumulative(cumulative, 2.0, float(sum(second)))
    both = merge([one, two])
    assert sum(both.counts) == both.count == sum(first) + sum(second)
    assert both.total == 3.0


# -- the tail ----------------------------------------------------------------------------------------------


def test_an_even_histogram_has_no_tail():
    split = split_tail(histogram({0.01: 100, 0.02: 20, INF: 0}, 1.0))
    assert (split.tail, split.excess) == (0, 0)
    assert split.typical == pytest.approx(1.0 / 120)


def test_the_tail_begins_at_twice_the_upper_bound_of_the_mode():
    rows = {0.01: 100, 0.02: 1, 0.05: 1, INF: 0}
    split = split_tail(histogram(rows, 0.8))
    assert (split.limit, split.body, split.tail) == (0.02, 101, 1)


def test_the_excess_is_what_the_exact_sum_leaves_over():
    split = split_tail(histogram({0.01: 90, 0.02: 0, 0.2: 10, INF: 0}, 90 * 0.008 + 10 * 0.1))
    assert split.typical * 100 + split.excess == pytest.approx(90 * 0.008 + 10 * 0.1)
    assert 0 < split.typical <= 0.01


@pytest.mark.parametrize(
    ("each", "exact"),
    [
        pytest.param(THIN * 0.01 * 1.01, True, id="what the tail leaves is thick enough"),
        pytest.param(THIN * 0.01 * 0.99, False, id="too thin: the tail's middles may be off by more"),
    ],
)
def test_a_thin_body_is_not_taken_from_what_the_tails_middles_leave(each, exact):
    middle = math.sqrt(0.4 * 0.5)
    found = split_tail(histogram({0.01: 3000, 0.4: 0, 0.5: 100, INF: 0}, 3000 * each + 100 * middle))
    assert (found.typical == pytest.approx(each)) is exact
    assert 0 < found.typical < 0.01


def test_a_tail_at_the_low_end_of_its_bucket_leaves_a_body():
    found = split_tail(histogram({0.01: 3000, 0.4: 0, 0.5: 100, INF: 0}, 3000 * 0.001 + 100 * 0.41))
    assert 0.0005 < found.typical < 0.002


def test_a_mode_in_the_last_bucket_has_nothing_to_be_cut_at():
    split = split_tail(histogram({0.01: 1, INF: 9}, 30.0))
    assert (split.limit, split.typical, split.tail) == (INF, 3.0, 0)


@st.composite
def observed(draw):
    """A histogram whose sum fits its buckets."""
    counts = draw(COUNTS.filter(any))
    lows = (0.0, *BOUNDS[:-1])
    places = draw(st.lists(st.floats(0, 1), min_size=len(BOUNDS), max_size=len(BOUNDS)))
    highs = (*BOUNDS[:-1], 20.0)
    total = sum(
        n * (low + p * (high - low)) for n, low, high, p in zip(counts, lows, highs, places, strict=True)
    )
    return histogram(dict(zip(BOUNDS, counts, strict=True)), total)


@given(observed())
def test_a_split_keeps_the_sum_and_stays_within_the_bounds_of_its_body(found):
    split = split_tail(found)
    assert split.body + split.tail == found.count
    assert split.excess >= 0
    parts = (split.body + split.tail) * split.typical + split.excess
    assert parts >= found.total * (1 - 1e-9)
    rows = zip((0.0, *BOUNDS[:-1]), BOUNDS, found.counts, strict=True)
    body = [(low, high, n) for low, high, n in rows if n and low < split.limit]
    assert split.typical * split.body >= sum(n * low for low, _, n in body) * (1 - 1e-9)
    if split.tail:
        assert parts == pytest.approx(found.total)
        assert split.typical * split.body <= sum(n * high for _, high, n in body) * (1 + 1e-9)


def test_a_fullest_bucket_that_ends_at_zero_has_no_tail_to_be_cut():
    found = from_cumulative({0.0: 90, 1.0: 100, math.inf: 100}, 5.0, 100)
    assert found is not None
    split = split_tail(found)
    assert split is not None
    assert (split.typical, split.tail, split.excess) == (0.05, 0.0, 0.0)


def test_bounds_below_zero_and_bounds_that_are_no_number_are_left_out():
    found = from_cumulative({-1.0: 1, math.nan: 1, 1.0: 2, math.inf: 3}, 2.0, 3)
    assert found is not None
    assert found.bounds == (1.0, math.inf)
