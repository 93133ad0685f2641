"""The series of several host sources between two moments, each with its rise, its rate and its values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kvdoctor import metrics as m
from kvdoctor.engines.host import ENGINE
from kvdoctor.quantity import Quantity
from kvdoctor.recording import Column, Source
from kvdoctor.timeline import Timeline

LOADED = 0.5
"""Time occupancy of a reading from which clocks and links are judged: idle cards clock and train down."""
SLACK = 1.5
"""Seconds by which host readings may lie outside the window: they fall on the same ticks, give or take one."""


@dataclass(frozen=True, slots=True)
class One:
    """One series in the window."""

    labels: dict[str, str]
    column: Column
    first: int
    last_reading: int
    seconds: float

    @property
    def pid(self) -> int:
        """The process it is of, 0 for none."""
        text = self.labels.get("pid", "")
        return int(text) if text.isdigit() else 0

    @property
    def key(self) -> tuple[int, str]:
        """Process and thread name."""
        return self.pid, self.labels.get("thread", "")

    @property
    def last(self) -> float:
        """The newest value, NaN without one."""
        return self.column.known(self.last_reading)

    @property
    def rise(self) -> float:
        """How much a counter rose. One that began within the window began at 0."""
        before = self.column.known(self.first)
        now = self.last
        return max(0.0, now - (0.0 if math.isnan(before) else before)) if not math.isnan(now) else 0.0

    @property
    def rate(self) -> float:
        """Rise per second; 0 where no time passes."""
        return self.rise / self.seconds if self.seconds > 0 else 0.0

    def values(self) -> list[float]:
        """Return a gauge at each reading, NaN where it was gone."""
        return [self.column.at(reading) for reading in range(self.first, self.last_reading + 1)]

    def mean(self) -> float | None:
        """Return a gauge's mean over its readings, None without any."""
        known = [value for value in self.values() if not math.isnan(value)]
        return sum(known) / len(known) if known else None


@dataclass(frozen=True, slots=True)
class Series:
    """All host series of one family in one window."""

    timelines: tuple[Timeline, ...]

    @property
    def seconds(self) -> float:
        """Length of the longest stretch that was read."""
        return max((line.seconds for line in self.timelines), default=0.0)

    def each(self, quantity: Quantity) -> list[One]:
        """Return the series of a quantity, from whichever source has them."""
        return [
            One(dict(column.labels), column, line.first, line.last, line.seconds)
            for line in self.timelines
            for column in line.columns(quantity)
        ]


class CardSeries:
    """The series of one card, by quantity and label."""

    def __init__(self, found: Series, index: str) -> None:
        self._found, self._index = found, index
        occupancy = self.one(m.GPU_OCCUPANCY)
        values = occupancy.values() if occupancy else []
        self.loaded = [i for i, value in enumerate(values) if value >= LOADED]

    def all(self, quantity: Quantity) -> list[One]:
        return [s for s in self._found.each(quantity) if s.labels.get("gpu") == self._index]

    def one(self, quantity: Quantity, **labels: str) -> One | None:
        wanted = labels.items()
        return next((s for s in self.all(quantity) if wanted <= s.labels.items()), None)

    def mean(self, quantity: Quantity) -> float | None:
        found = self.one(quantity)
        return found.mean() if found else None

    def under_load(self, quantity: Quantity, **labels: str) -> list[float]:
        """Return a gauge's numbers at the readings under load."""
        found = self.one(quantity, **labels)
        values = found.values() if found else []
        return [values[i] for i in self.loaded if i < len(values) and not math.isnan(values[i])]

    def clock(self, name: str) -> float | None:
        """Return the mean clock over the highest one, under load."""
        now, limit = self.under_load(m.GPU_CLOCK, clock=name), self.one(m.GPU_CLOCK_LIMIT, clock=name)
        if not now or limit is None or not limit.last > 0:
            return None
        return sum(now) / len(now) / limit.last

    def link(self, now: Quantity, *limits: Quantity) -> tuple[float, float] | None:
        """Return the best value seen under load, and the most that any of the limits allows."""
        seen = self.under_load(now)
        allowed = [s.last for quantity in limits for s in self.all(quantity) if not math.isnan(s.last)]
        return (max(seen), max(allowed)) if seen and allowed else None


def series(sources: Sequence[Source], start: float, end: float) -> Series:
    """Cut each source to the readings nearest to both ends of a window; one that has none near it is left out."""
    lines = []
    for source in sources:
        if len(source.at) and source.at[-1] >= start - SLACK and source.at[0] <= end + SLACK:
            first, last = source.nearest(start), source.nearest(end)
            lines.append(Timeline(source, ENGINE, first, last))
    return Series(tuple(lines))
