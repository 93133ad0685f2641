"""Samples of many replicas, sorted by where they were scraped, as one source for each."""

from __future__ import annotations

import math
import operator
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from kvdoctor.recording import Column, Labels, Source, add_reading

PLACES = ("cluster", "namespace", "pod", "instance")
"""Labels that tell replicas apart; a store or an agent puts them on, an engine does not."""
_FIRST = {"instance": ("exported_instance",)}
"""Where a server was scraped by another one (federation), the replica's own address is in the first of these."""
_ELSE = {
    "pod": ("pod_name", "kubernetes_pod_name", "k8s_pod_name"),
    "instance": ("service_instance_id", "host", "hostname", "host_name", "node", "replica", "job"),
}
"""Labels that tell replicas apart where neither pod nor instance is put on."""
_SCRAPES = ("job", "exported_job", "service", "endpoint", "container", "replica")
"""Labels of the scrape: an endpoint that two jobs, or two like servers, scrape is one engine and not two."""
ADDED = frozenset(
    (*PLACES, *_SCRAPES, "exported_instance", "prometheus", "prometheus_replica", "receive", "tenant_id",
     "__name__")
)  # fmt: skip
"""Labels that are left out: where a series was scraped, and by whom."""
MAX_REPLICAS = 2000


@dataclass(slots=True)
class _Series:
    """Samples of one series, in the order in which they came."""

    at: array[float] = field(default_factory=lambda: array("d"))
    value: array[float] = field(default_factory=lambda: array("d"))


class Replicas:
    """Takes in series with all their labels."""

    def __init__(self) -> None:
        self.samples = 0
        self._places: dict[tuple[str, ...], dict[tuple[str, Labels], _Series]] = {}

    def add(self, labels: dict[str, str], samples: Sequence[object]) -> None:
        """Take in one series; samples that are no pair of numbers are left out."""
        name = labels.get("__name__")
        place = _place(labels)
        if not name or (place not in self._places and len(self._places) >= MAX_REPLICAS):
            return
        own = tuple(sorted((k, v) for k, v in labels.items() if k not in ADDED))
        series = self._places.setdefault(place, {}).setdefault((name, own), _Series())
        at, value = _points(samples)
        series.at.extend(at)
        series.value.extend(value)
        self.samples += len(at)

    def sources(self, start: float) -> list[Source]:
        """Return the replicas in the order of their names, times counted from `start`."""
        names = _names(list(self._places))
        return [
            _source(names[place], series, start) for place, series in sorted(self._places.items()) if series
        ]


def _place(labels: dict[str, str]) -> tuple[str, ...]:
    """Return the values of `PLACES`; others stand in for pod and instance where neither is told."""
    told = {p: _told(labels, (*_FIRST.get(p, ()), p)) for p in PLACES}
    if not told["pod"] and not told["instance"]:
        told |= {p: _told(labels, names) for p, names in _ELSE.items()}
    return tuple(told[p] for p in PLACES)


def _told(labels: dict[str, str], names: Sequence[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _names(places: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Name each replica by its pod, else its instance; by all its labels where two would be alike."""
    short = {place: place[2] or place[3] or "replica" for place in places}
    counts: dict[str, int] = {}
    for name in short.values():
        counts[name] = counts.get(name, 0) + 1
    return {p: name if counts[name] == 1 else "/".join(filter(None, p)) for p, name in short.items()}


def _points(samples: Sequence[object]) -> tuple[list[float], list[float]]:
    """Return times and values; what is no pair of numbers, and NaN, is left out."""
    try:
        at = [float(one[0]) for one in samples]  # type: ignore[index]
        value = [float(one[1]) for one in samples]  # type: ignore[index]
    except (TypeError, ValueError, OverflowError, IndexError, KeyError):
        pairs = [pair for one in samples if (pair := _pair(one)) is not None]
        at, value = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if all(map(math.isfinite, value)) and all(map(math.isfinite, at)):
        return at, value
    kept = [(t, v) for t, v in zip(at, value, strict=True) if math.isfinite(t) and not math.isnan(v)]
    return [t for t, _ in kept], [v for _, v in kept]


def _pair(sample: object) -> tuple[float, float] | None:
    if not isinstance(sample, list) or len(sample) != 2:
        return None
    try:
        return float(sample[0]), float(sample[1])
    except (TypeError, ValueError, OverflowError):
        return None


def _source(name: str, series: dict[tuple[str, Labels], _Series], start: float) -> Source:
    """Bring the series of one replica onto the times of its scrapes."""
    times = sorted(set().union(*(one.at for one in series.values())))
    index = {at: number for number, at in enumerate(times)}
    source = Source(name, "prometheus", start)
    for at in times:
        add_reading(source, at=at - start, took=0.0, size=0, ids=(), values=())
    for (metric, labels), one in sorted(series.items(), key=lambda each: each[0]):
        column = Column(metric, labels, "")
        _fill(column, one, index, len(times))
        if column.index:
            source.columns.append(column)
    return source


def _fill(column: Column, series: _Series, index: dict[float, int], readings: int) -> None:
    """Keep the changes; a series that ends before the last scrape is gone from the next one on."""
    at, values = series.at, series.value
    if any(map(operator.ge, at, at[1:])):
        ordered = sorted(dict(zip(at, values, strict=True)).items())
        at, values = array("d", (t for t, _ in ordered)), array("d", (v for _, v in ordered))
    if not at:
        return
    moved = [0, *(n for n, same in enumerate(map(operator.eq, values, values[1:]), 1) if not same)]
    column.index.extend(index[at[n]] for n in moved)
    column.value.extend(values[n] for n in moved)
    last = index[at[-1]]
    if last < readings - 1:
        column.index.append(last + 1)
        column.value.append(math.nan)
