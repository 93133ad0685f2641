"""Where a source's counters start over: restarts cut its readings into stretches."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

from kvdoctor.engines import plain_name
from kvdoctor.engines.engine import Engine
from kvdoctor.recording import Column, Source

MIN_SECONDS = 5.0
"""A stretch shorter than this gives way to a longer one: under five scrapes at the usual second."""

_CUMULATIVE = ("_total", "_count", "_bucket")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Readings `first` to `last`, both included, within which no counter started over."""

    first: int
    last: int


def _is_counter(column: Column, name: str) -> bool:
    if column.type == "gauge":
        return False
    return column.type in ("counter", "histogram") or name.endswith(_CUMULATIVE)


def _breaks(column: Column, broken: Callable[[float, float], bool]) -> list[tuple[int, int]]:
    """Return (last reading before, first reading after) where a number does not follow from the one before."""
    found = []
    before, last = math.nan, -1
    for reading, value in zip(column.index, column.value, strict=True):
        if math.isnan(value):
            last = reading - 1
            continue
        if not math.isnan(before) and broken(before, value):
            found.append((last if last >= 0 else reading - 1, reading))
        before, last = value, -1
    return found


def _falls(column: Column) -> list[tuple[int, int]]:
    """Where a counter stood lower than before. A series that was gone meanwhile counts too."""
    value = column.value
    if all(map(operator.ge, value[1:], value)):
        return []
    return _breaks(column, operator.gt)


def restarts(source: Source, engine: Engine) -> list[int]:
    """Return the readings at which the engine had started anew: a start time moved, or a counter fell.

    A series that was gone tells only between which readings it happened: the fewest restarts that explain
    all of them are returned, so one that comes back late does not count as one more.
    """
    breaks: list[tuple[int, int]] = []
    for column in source.columns:
        name = plain_name(engine, column.name)
        if name == "process_start_time_seconds" or name.endswith("_created"):
            breaks += _breaks(column, operator.ne)
        elif name.startswith(engine.prefixes) and not name.endswith("_sum") and _is_counter(column, name):
            breaks += _falls(column)
    found: list[int] = []
    for before, after in sorted(set(breaks), key=lambda pair: pair[1]):
        if not found or found[-1] <= before:
            found.append(after)
    return found


TORN = 0.1
"""Series that a stretch's second reading adds, over those of its first, from which the first was a torn page."""


def _whole_first(source: Source, first: int, last: int) -> int:
    """Pass over a first reading that was cut: the counters that it lacks would count from nothing."""
    births = [column.index[0] for column in source.columns if column.index]
    seen, added = sum(b <= first for b in births), sum(b == first + 1 for b in births)
    return first + 1 if first + 1 < last and added > TORN * seen else first


def stretches(source: Source, engine: Engine) -> list[Stretch]:
    """Return the stretches between restarts, in order. An empty source has none."""
    if not source.at:
        return []
    edges = [0, *restarts(source, engine), len(source.at)]
    return [Stretch(_whole_first(source, a, b - 1), b - 1) for a, b in itertools.pairwise(edges) if b > a]


def chosen(source: Source, engine: Engine) -> Stretch | None:
    """Return the newest stretch that is long enough to judge, else the longest; None for an empty source."""
    parts = stretches(source, engine)
    long_enough = [s for s in parts if source.at[s.last] - source.at[s.first] >= MIN_SECONDS]
    if long_enough:
        return long_enough[-1]
    return max(parts, key=lambda s: (source.at[s.last] - source.at[s.first], s.first), default=None)
