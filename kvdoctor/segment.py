"""Where a source's counters start over: restarts cut its readings into stretches."""

from __future__ import annotations

import itertools
import math
import operator
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


def _falls(column: Column) -> list[int]:
    """Readings at which a counter stood lower than before. A series that was gone meanwhile counts too."""
    value = column.value
    if all(map(operator.ge, value[1:], value)):
        return []
    return [b[0] for a, b in itertools.pairwise(_numbers(column)) if b[1] < a[1]]


def _numbers(column: Column) -> list[tuple[int, float]]:
    return [(i, v) for i, v in zip(column.index, column.value, strict=True) if not math.isnan(v)]


def _jumps(column: Column) -> list[int]:
    """Readings at which a start time changed from one number to another."""
    numbers = _numbers(column)
    return [b[0] for a, b in itertools.pairwise(numbers) if a[1] != b[1]]


def restarts(source: Source, engine: Engine) -> list[int]:
    """Return the readings at which the engine had started anew: a start time moved, or a counter fell."""
    found: set[int] = set()
    for column in source.columns:
        name = plain_name(engine, column.name)
        if name == "process_start_time_seconds" or name.endswith("_created"):
            found.update(_jumps(column))
        elif name.startswith(engine.prefixes) and not name.endswith("_sum") and _is_counter(column, name):
            found.update(_falls(column))
    return sorted(found)


def stretches(source: Source, engine: Engine) -> list[Stretch]:
    """Return the stretches between restarts, in order. An empty source has none."""
    if not source.at:
        return []
    edges = [0, *restarts(source, engine), len(source.at)]
    return [Stretch(a, b - 1) for a, b in itertools.pairwise(edges) if b > a]


def chosen(source: Source, engine: Engine) -> Stretch | None:
    """Return the newest stretch that is long enough to judge, else the longest; None for an empty source."""
    parts = stretches(source, engine)
    long_enough = [s for s in parts if source.at[s.last] - source.at[s.first] >= MIN_SECONDS]
    if long_enough:
        return long_enough[-1]
    return max(parts, key=lambda s: source.at[s.last] - source.at[s.first], default=None)
