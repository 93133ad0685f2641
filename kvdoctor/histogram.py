"""Bucketed histograms: differences, merges over ranks, quantiles with the bounds of their bucket."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from kvdoctor.service import Quantile


@dataclass(frozen=True, slots=True)
class Histogram:
    """Observations by bucket. `counts[i]` is the number in (bounds[i-1], bounds[i]], not cumulative."""

    bounds: tuple[float, ...]
    """Upper bounds, ascending; the last one is +Inf."""
    counts: tuple[float, ...]
    total: float
    """Sum of the observed values."""
    count: float

    @property
    def mean(self) -> float | None:
        """Return the mean from sum and count, None without an observation."""
        return self.total / self.count if self.count > 0 else None

    def quantile(self, q: float) -> Quantile | None:
        """Return the bucket that the q-th quantile lies in; None without an observation."""
        rank, seen, lows = q * self.count, 0.0, (0.0, *self.bounds[:-1])
        if self.count <= 0:
            return None
        for low, bound, count in zip(lows, self.bounds, self.counts, strict=True):
            seen += count
            if count and seen >= rank - 1e-9:
                return Quantile(low, bound)
        return Quantile(lows[-1], math.inf)

    def above(self, limit: float) -> float:
        """Return how many observations certainly exceed a limit: their bucket begins at or above it."""
        lows = (0.0, *self.bounds[:-1])
        return sum(c for low, c in zip(lows, self.counts, strict=True) if low >= limit)


def interpolated(histogram: Histogram | None, q: float) -> float | None:
    """Estimate a quantile inside its bucket, evenly spread; the low bound in the last bucket. None when empty, or
    without a bucket that has an end."""
    if histogram is None or histogram.count <= 0 or len(histogram.bounds) < 2:
        return None
    rank, seen, lows = q * histogram.count, 0.0, (0.0, *histogram.bounds[:-1])
    for low, bound, count in zip(lows, histogram.bounds, histogram.counts, strict=True):
        if count and seen + count >= rank - 1e-9:
            return low if math.isinf(bound) else low + (bound - low) * max(0.0, rank - seen) / count
        seen += count
    return lows[-1]


def from_cumulative(cumulative: dict[float, float], total: float, count: float) -> Histogram | None:
    """Build a histogram from `le` -> cumulative count. None when it has no sum and count to trust.

    A text cut before `+Inf` has its count from `_count`; a scrape that raced with an observation may
    be off by one between buckets, so counts below zero are taken as zero. What is not finite is left out, and
    so are bounds below zero: nothing that is read here can be negative.
    """
    if not (0 <= count < math.inf and 0 <= total < math.inf):
        return None
    cumulative = {b: n for b, n in cumulative.items() if math.isfinite(n) and b >= 0}
    cumulative.setdefault(math.inf, count)
    bounds = sorted(cumulative)
    counts, before = [], 0.0
    for bound in bounds:
        counts.append(max(0.0, cumulative[bound] - before))
        before = max(before, cumulative[bound])
    return Histogram(tuple(bounds), tuple(counts), total, count)


def merge(histograms: Iterable[Histogram]) -> Histogram | None:
    """Add histograms up. Where the bounds differ, only those that all share are kept."""
    parts = tuple(histograms)
    if not parts:
        return None
    shared = sorted(set(parts[0].bounds).intersection(*(p.bounds for p in parts[1:])))
    counts = [0.0] * len(shared)
    for part in parts:
        slot = 0
        for bound, count in zip(part.bounds, part.counts, strict=True):
            while shared[slot] < bound:
                slot += 1
            counts[slot] += count
    return Histogram(tuple(shared), tuple(counts), sum(p.total for p in parts), sum(p.count for p in parts))


def less(whole: Histogram | None, part: Histogram | None) -> Histogram | None:
    """Take a part out of a histogram with the same bounds; None without either, or where the bounds differ."""
    if whole is None or part is None or whole.bounds != part.bounds:
        return None
    counts = tuple(max(0.0, a - b) for a, b in zip(whole.counts, part.counts, strict=True))
    return Histogram(
        whole.bounds, counts, max(0.0, whole.total - part.total), max(0.0, whole.count - part.count)
    )


@dataclass(frozen=True, slots=True)
class Split:
    """A histogram cut into a steady body and a tail."""

    typical: float
    """Mean of the body, in the histogram's unit."""
    limit: float
    """Where the tail begins."""
    body: float
    """Observations in the body."""
    tail: float
    """Observations in the tail."""
    excess: float
    """Sum over the tail of what each observation has above `typical`."""


def _middle(low: float, high: float) -> float:
    if math.isinf(high):
        return low * 1.5
    return math.sqrt(low * high) if low else high / 2


THIN = 0.1
"""Body's mean over its upper bounds below which it is not taken from what the tail's middles leave of the sum:
they are then off by more than the body."""


def _between(total: float, body: tuple[float, float], tail: tuple[float, float]) -> float:
    """Sum of the body where body and tail lie equally far between their bounds, so that both give the total."""
    (low, high), (tail_low, tail_high) = body, tail
    room = high + tail_high - low - tail_low
    share = (total - low - tail_low) / room if room > 0 else 0.0
    return low + min(1.0, max(0.0, share)) * (high - low)


def split_tail(histogram: Histogram, *, factor: float = 2.0) -> Split | None:
    """Cut at `factor` times the mode's bucket, and size the tail's excess so that it agrees with the sum.

    The mode is the fullest bucket. Inside a bucket of the tail the geometric middle stands for its observations;
    the body's mean is then worked out from the exact sum and kept inside the body's bounds. None when empty.
    """
    if histogram.count <= 0:
        return None
    lows = (0.0, *histogram.bounds[:-1])
    rows = list(zip(lows, histogram.bounds, histogram.counts, strict=True))
    mode = max(range(len(rows)), key=lambda i: rows[i][2])
    if not 0 < rows[mode][1] < math.inf:
        return Split(histogram.total / histogram.count, math.inf, histogram.count, 0.0, 0.0)
    limit = factor * rows[mode][1]
    body = [(low, high, n) for low, high, n in rows if low < limit]
    tail = [(low, high, n) for low, high, n in rows if low >= limit]
    n_body, n_tail = sum(n for *_, n in body), sum(n for *_, n in tail)
    if n_tail == 0:
        return Split(histogram.total / histogram.count, limit, n_body, 0.0, 0.0)
    guess = sum(n * _middle(low, high) for low, high, n in tail)
    least, most = sum(n * low for low, _, n in body), sum(n * high for _, high, n in body)
    rest = histogram.total - guess
    if rest < max(least, THIN * most):
        tail_bounds = sum(n * low for low, _, n in tail), sum(n * min(high, 2 * low) for low, high, n in tail)
        rest = _between(histogram.total, (least, most), tail_bounds)
    typical = min(max(rest, least), most) / n_body
    excess = max(0.0, histogram.total - n_body * typical - n_tail * typical)
    return Split(typical, limit, n_body, n_tail, excess)
