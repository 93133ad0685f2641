"""How sure a mean and a quantile of one window are, from its histogram and its counts."""

from __future__ import annotations

import math

from kvdoctor.histogram import Histogram
from kvdoctor.service import Quantile, Spread

ERRORS = 2.0
"""Standard errors that chance seldom exceeds: 95 of 100 times it stays within."""
OPEN = 2.0
"""What stands for the upper bound of the last bucket, over its lower one: bounds of engines double, or nearly."""
RANKS = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


def spreads(ttft: Histogram | None, itl: Histogram | None, seconds: float) -> dict[str, Spread]:
    """Return the spread of each latency that has observations. A first token is one request's own; of the gaps
    between tokens those of one step are the same, so that a window holds as many as there were steps."""
    found = {"ttft": spread(ttft, together=1.0), "itl": spread(itl, together=_together(itl, seconds))}
    return {name: known for name, known in found.items() if known is not None}


def spread(histogram: Histogram | None, *, together: float) -> Spread | None:
    """Return how sure a histogram's figures are, `together` of its observations being one; None when it is empty."""
    if histogram is None or histogram.count <= 0:
        return None
    number = max(1.0, histogram.count / max(1.0, together))
    ranges = {name: _range(histogram, q, number) for name, q in RANKS}
    return Spread(deviation(histogram) / math.sqrt(number), number, ranges)


def deviation(histogram: Histogram) -> float:
    """Return the standard deviation of one observation at most: each bucket's at both of its ends.

    A histogram of one bucket tells nothing of its spread: then it is taken for that of waiting times without memory,
    as wide as its mean.
    """
    mean = histogram.mean or 0.0
    if len(histogram.bounds) < 2:
        return mean
    square = 0.0
    for low, high, count in zip(
        (0.0, *histogram.bounds[:-1]), histogram.bounds, histogram.counts, strict=True
    ):
        top = OPEN * low if math.isinf(high) else high
        square += count * ((low - mean) ** 2 + (top - mean) ** 2) / 2
    return math.sqrt(square / histogram.count)


def _together(histogram: Histogram | None, seconds: float) -> float:
    """Return how many sequences decoded at a time, by Little's law: seconds of all gaps over those of the window."""
    return histogram.total / seconds if histogram is not None and seconds > 0 else 1.0


def _range(histogram: Histogram, q: float, number: float) -> Quantile:
    """Return the buckets that a quantile may lie in: its rank, give or take two standard errors of a rank."""
    error = ERRORS * math.sqrt(q * (1 - q) / number)
    low, high = (histogram.quantile(min(1.0, max(0.0, q + side * error))) for side in (-1, 1))
    return Quantile(low.low if low else 0.0, math.inf if high is None or q + error > 1 else high.high)
