"""Samples of many replicas, sorted by where they were scraped, as one source for each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kvdoctor.recording import Column, Labels, Source, add_reading

PLACES = ("cluster", "namespace", "pod", "instance")
"""Labels that tell replicas apart; a store or an agent puts them on, an engine does not."""
ADDED = frozenset((*PLACES, "prometheus", "prometheus_replica", "receive", "tenant_id", "__name__"))
"""Labels that are left out: where a series was scraped, and which of two like servers scraped it."""
MAX_REPLICAS = 2000

Samples = list[tuple[float, float]]


class Replicas:
    """Takes in series with all their labels."""

    def __init__(self) -> None:
        self.samples = 0
        self._places: dict[tuple[str, ...], dict[tuple[str, Labels], Samples]] = {}

    def add(self, labels: dict[str, str], samples: Sequence[object]) -> None:
        """Take in one series; samples that are no pair of numbers are left out."""
        name = labels.get("__name__")
        place = tuple(labels.get(label, "") for label in PLACES)
        if not name or (place not in self._places and len(self._places) >= MAX_REPLICAS):
            return
        own = tuple(sorted((k, v) for k, v in labels.items() if k not in ADDED))
        points = [point for sample in samples if (point := _point(sample)) is not None]
        self.samples += len(points)
        kept = self._places.setdefault(place, {}).setdefault((name, own), [])
        kept.extend(points)

    def sources(self, start: float) -> list[Source]:
        """Return the replicas in the order of their names, times counted from `start`."""
        names = _names(list(self._places))
        return [
            _source(names[place], series, start) for place, series in sorted(self._places.items()) if series
        ]


def _names(places: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Name each replica by its pod, else its instance; by all its labels where two would be alike."""
    short = {place: place[2] or place[3] or "replica" for place in places}
    counts: dict[str, int] = {}
    for name in short.values():
        counts[name] = counts.get(name, 0) + 1
    return {p: name if counts[name] == 1 else "/".join(filter(None, p)) for p, name in short.items()}


def _point(sample: object) -> tuple[float, float] | None:
    if not isinstance(sample, list) or len(sample) != 2:
        return None
    try:
        at, value = float(sample[0]), float(sample[1])
    except (TypeError, ValueError):
        return None
    return (at, value) if math.isfinite(at) and not math.isnan(value) else None


def _source(name: str, series: dict[tuple[str, Labels], Samples], start: float) -> Source:
    """Bring the series of one replica onto the times of its scrapes."""
    times = sorted({at for samples in series.values() for at, _ in samples})
    index = {at: number for number, at in enumerate(times)}
    source = Source(name, "prometheus", start)
    for at in times:
        add_reading(source, at=at - start, took=0.0, size=0, ids=(), values=())
    for (metric, labels), samples in sorted(series.items()):
        column = Column(metric, labels, "")
        _fill(column, sorted(samples), index, len(times))
        if column.index:
            source.columns.append(column)
    return source


def _fill(column: Column, samples: Samples, index: dict[float, int], readings: int) -> None:
    """Keep the changes; a series that ends before the last scrape is gone from the next one on."""
    before = math.nan
    last = -1
    for at, value in samples:
        last = index[at]
        if value != before:
            column.index.append(last)
            column.value.append(value)
            before = value
    if 0 <= last < readings - 1:
        column.index.append(last + 1)
        column.value.append(math.nan)
