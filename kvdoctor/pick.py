"""Which series of a family to read: repeated ranks once, parts not beside their whole; and what scales them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kvdoctor.engines.engine import Engine
from kvdoctor.recording import Column


@dataclass(frozen=True, slots=True)
class Term:
    """One series with what turns its values into the quantity's unit."""

    column: Column
    rank: str
    scale: float
    times: Column | None = None
    over: Column | None = None
    blank_above: float = math.inf

    def of(self, raw: float, reading: int, since: int) -> float:
        """Return a raw value in the quantity's unit, NaN where it stands for none."""
        if abs(raw) > self.blank_above:
            return math.nan
        value = raw * self.scale
        if self.times is not None:
            value *= self.times.known(reading, since)
        if self.over is not None:
            whole = self.over.known(reading, since)
            value = value / whole if whole else math.nan
        return value


def once(columns: Sequence[Column], engine: Engine) -> list[Column]:
    """Leave out ranks that repeat a lower one, and parts where the whole is told; order is kept."""
    if len(columns) < 2 or not (engine.repeats or engine.parts):
        return list(columns)
    wholes = {_key(c, engine.parts) for c in columns if engine.parts and not _part(c, engine)}
    kept = [c for c in columns if not _part(c, engine) or _key(c, engine.parts) not in wholes]
    lowest: dict[object, Column] = {}
    for column in kept:
        key = _key(column, engine.repeats)
        if key not in lowest or _place(column, engine) < _place(lowest[key], engine):
            lowest[key] = column
    chosen = {id(column) for column in lowest.values()}
    return [column for column in kept if id(column) in chosen]


def beside(column: Column, others: Sequence[Column]) -> Column | None:
    """Return the series that stands beside another: the one with the most labels in common."""
    labels = set(column.labels)
    return max(others, key=lambda other: len(labels & set(other.labels)), default=None)


def _key(column: Column, without: tuple[str, ...]) -> frozenset[tuple[str, str]]:
    return frozenset(pair for pair in column.labels if pair[0] not in without)


def _part(column: Column, engine: Engine) -> bool:
    return any(value for key, value in column.labels if key in engine.parts)


def _place(column: Column, engine: Engine) -> list[tuple[int, str]]:
    labels = dict(column.labels)
    values = [labels.get(key, "") for key in engine.repeats]
    return [(int(value) if value.isdigit() and len(value) < 10 else 0, value) for value in values]
