"""A gauge's course over a stretch of time."""

from __future__ import annotations

import itertools
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gauge:
    """A gauge over a stretch of time."""

    mean: float
    """Weighted by time."""
    peak: float
    low: float
    first: float
    last: float
    readings: int
    changes: int
    """How often it changed: 0 may mean steady, or stale."""


def course(points: list[tuple[float, float]]) -> Gauge | None:
    """Sum up (time, value) of each reading; None without any."""
    if not points:
        return None
    numbers = [v for _, v in points]
    return Gauge(
        mean=_time_mean(points),
        peak=max(numbers),
        low=min(numbers),
        first=numbers[0],
        last=numbers[-1],
        readings=len(numbers),
        changes=sum(1 for a, b in itertools.pairwise(numbers) if a != b),
    )


def _time_mean(points: list[tuple[float, float]]) -> float:
    """Mean over time by trapezoids; the plain mean where no time passes."""
    span = points[-1][0] - points[0][0]
    if span <= 0:
        return sum(v for _, v in points) / len(points)
    area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(points))
    return area / span
