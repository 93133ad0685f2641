"""How sure a mean and a quantile are, from buckets and counts."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from kvdoctor.histogram import Histogram
from kvdoctor.service import Quantile
from kvdoctor.spread import deviation, spread, spreads

BOUNDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, math.inf)


def histogram(values: list[float]) -> Histogram:
    counts = [
        float(sum(low < value <= high for value in values))
        for low, high in itertools.pairwise((0.0, *BOUNDS))
    ]
    return Histogram(BOUNDS, tuple(counts), sum(values), float(len(values)))


def test_the_deviation_is_that_of_observations_at_both_ends_of_their_buckets():
    # Two in (0.02, 0.04], two in (0.08, 0.16], mean 0.075.
    found = histogram([0.03, 0.03, 0.12, 0.12])
    square = (0.055**2 + 0.035**2 + 0.005**2 + 0.085**2) / 4
    assert deviation(found) == pytest.approx(math.sqrt(square))


def test_one_bucket_tells_no_spread_and_counts_as_wide_as_its_mean():
    assert deviation(Histogram((math.inf,), (100.0,), 3.0, 100.0)) == 0.03


def test_the_error_of_a_mean_falls_with_the_root_of_the_number():
    few, many = (spread(histogram([0.03, 0.12] * n), together=1.0) for n in (10, 1000))
    assert few is not None
    assert many is not None
    assert few.error / many.error == pytest.approx(10)
    assert (few.independent, many.independent) == (20, 2000)


def test_gaps_of_one_step_are_one_observation():
    # 3,200 gaps of 0.03 s in 3 s of window: 32 sequences at a time, 100 steps.
    gaps = Histogram(BOUNDS, (0.0, 0.0, 3200.0, *[0.0] * 6), 96.0, 3200.0)
    found = spreads(None, gaps, 3.0)
    assert set(found) == {"itl"}
    assert found["itl"].independent == 100


def test_a_quantile_may_lie_as_far_off_as_its_rank():
    # Of 100, the p95's rank is known to 4.4: it may be the 91st or the 99th and lie in either bucket.
    found = spread(histogram([0.03] * 93 + [0.5] * 7), together=1.0)
    assert found is not None
    assert found.quantiles["p95"] == Quantile(0.02, 0.64)
    assert found.quantiles["p50"] == Quantile(0.02, 0.04)
    assert found.quantiles["p99"].high == math.inf


def test_nothing_has_no_spread():
    assert spread(None, together=1.0) is None
    assert spread(histogram([]), together=1.0) is None


@pytest.mark.parametrize("number", [20, 200])
def test_two_windows_of_one_load_seldom_differ_by_more_than_two_errors(number: int):
    chance = random.Random(11)
    differ = 0
    for _ in range(400):
        one, other = (histogram([chance.expovariate(1 / 0.1) for _ in range(number)]) for _ in range(2))
        errors = [found.error for each in (one, other) if (found := spread(each, together=1.0))]
        assert one.mean is not None
        assert other.mean is not None
        differ += abs(one.mean - other.mean) > 2 * math.hypot(*errors)
    assert differ <= 0.05 * 400
