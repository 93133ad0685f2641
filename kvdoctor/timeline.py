"""From raw columns to signals: a stretch of one source, read through an engine's adapter."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from kvdoctor.course import Gauge, course
from kvdoctor.engines import plain_name
from kvdoctor.engines.engine import Engine, Select, model_key
from kvdoctor.histogram import Histogram, from_cumulative, merge
from kvdoctor.pick import Term
from kvdoctor.picked import Picked, zero
from kvdoctor.quantity import Across, Kind, Quantity
from kvdoctor.recording import Column, Source

NONSENSE = 1e100
"""Numbers from here on, infinite ones and those that are none are no readings: nothing that is counted comes near."""


class Timeline:
    """One engine's signals between two readings of one source, both included.

    `first` = -1 stands for the birth of the process: differences are then lifetime sums, and only the
    last reading is looked at. What was read before the first one is of a process that is gone.
    """

    def __init__(self, source: Source, engine: Engine, first: int, last: int) -> None:
        self.source, self.engine, self.first, self.last = source, engine, first, last
        self._picked = Picked(source, engine, first, last)
        self._parts: dict[Quantity, dict[str, tuple[Histogram, Histogram | None]]] = {}
        self.ranks = self._picked.ranks()

    @property
    def seconds(self) -> float:
        """Return the length in seconds, NaN for a lifetime reading."""
        return math.nan if self.first < 0 else self.source.at[self.last] - self.source.at[self.first]

    @property
    def readings(self) -> range:
        """Return the numbers of its readings."""
        return range(self._picked.since, self.last + 1)

    def times(self) -> list[float]:
        """Return the time of each reading, seconds since the recording began."""
        return [self.source.at[i] for i in self.readings]

    def has(self, quantity: Quantity) -> bool:
        """Say whether any series of this quantity has a sample here."""
        if quantity.kind is Kind.HISTOGRAM:
            return bool(self._histograms(quantity))
        return bool(self._picked.terms(quantity))

    def names(self, quantity: Quantity) -> str:
        """Return the raw names that a quantity was read from."""
        if quantity.kind is Kind.HISTOGRAM:
            found = self._picked.family(quantity)
            return found.name if found else ""
        return ", ".join(sorted({t.column.name for t in self._picked.terms(quantity)}))

    def total(self, quantity: Quantity, rank: str | None = None) -> float | None:
        """Return a counter's value since the engine started, summed over ranks; None when absent."""
        terms, value = self._picked.terms(quantity, rank), self._picked.value
        return max(0.0, sum(value(t, self.last) for t in terms)) if terms else self._nothing(quantity)

    def delta(self, quantity: Quantity, rank: str | None = None) -> float | None:
        """Return how much a counter rose in the stretch, summed over ranks; None when absent."""
        terms = self._picked.terms(quantity, rank)
        return max(0.0, sum(self._picked.rise(t) for t in terms)) if terms else self._nothing(quantity)

    def gauge(self, quantity: Quantity, rank: str | None = None) -> Gauge | None:
        """Return a gauge's course, ranks brought together as its quantity says; None when absent."""
        return course(self.series(quantity, rank))

    def each(self, quantity: Quantity) -> tuple[Gauge, ...]:
        """Return the course of each series of a gauge by itself."""
        found = (course(self._points((term,), max, Column.at)) for term in self._picked.terms(quantity))
        return tuple(gauge for gauge in found if gauge is not None)

    def series(self, quantity: Quantity, rank: str | None = None) -> list[tuple[float, float]]:
        """Return (seconds since the recording began, value) of a gauge or a counter at each reading.

        A counter that is gone for a while stands where it stood.
        """
        terms = self._picked.terms(quantity, rank)
        together = max if quantity.across is Across.MAX else sum
        known = self._picked.known if quantity.kind is Kind.COUNTER else Column.at
        return self._points(terms, together, known)

    def _points(
        self,
        terms: tuple[Term, ...],
        together: Callable[[list[float]], float],
        known: Callable[[Column, int], float],
    ) -> list[tuple[float, float]]:
        points, since = [], self._picked.since
        for reading in self.readings if terms else ():
            told = (t.of(known(t.column, reading), reading, since) for t in terms)
            values = [v for v in told if abs(v) < NONSENSE]
            if values:
                points.append((self.source.at[reading], float(together(values))))
        return points

    def rates(self, quantity: Quantity) -> list[tuple[float, float]]:
        """Return (time, rise per second) of a counter between neighbouring readings."""
        points = self.series(quantity)
        return [
            (b[0], max(0.0, b[1] - a[1]) / (b[0] - a[0]))
            for a, b in itertools.pairwise(points)
            if b[0] > a[0]
        ]

    def sample_series(self, quantity: Quantity, sample: str) -> list[tuple[float, float]]:
        """Return (time, value) of a histogram's `sum` or `count` at each reading, summed over ranks."""
        family, picked = self._picked.family(quantity), self._picked
        terms = tuple(picked.select(Select(family.name, family.labels, sample))) if family else ()
        return [(self.source.at[i], sum(picked.value(t, i) for t in terms)) for i in self.readings if terms]

    def histogram(self, quantity: Quantity, rank: str | None = None) -> Histogram | None:
        """Return what a histogram gained in the stretch, merged over ranks; None when absent."""
        parts = self._histograms(quantity)
        return merge(now for r, (now, _) in parts.items() if rank in (None, r))

    def lifetime(self, quantity: Quantity) -> Histogram | None:
        """Return a histogram since the engine started, merged over ranks; None when absent."""
        parts = self._histograms(quantity)
        return merge(whole for _, whole in parts.values() if whole is not None)

    def label(self, quantity: Quantity, key: str) -> str | None:
        """Return a label of an info series: the newest one; None when absent or written `None`."""
        for term in reversed(self._picked.terms(quantity)):
            value = dict(term.column.labels).get(key)
            if value not in (None, "", "None"):
                return value
        return None

    def models(self) -> tuple[str, ...]:
        """Return the model names among the labels, in order of appearance, each once."""
        found: dict[str, str] = {}
        for columns in self._picked.by_name.values():
            for column in columns:
                name = dict(column.labels).get(self.engine.model_label)
                if name and name != "undefined" and self._picked.alive(column):
                    found.setdefault(model_key(self.engine, name), name)
        return tuple(found.values())

    def counters_moved(self) -> bool:
        """Say whether any token or request counter rose: only then is a gauge believed to be fresh."""
        picked = self._picked
        return any(
            picked.known(column, self.last) > picked.before(column)
            for name, column in picked.own()
            if column.type == "counter" or name.endswith(("_total", "_count"))
        )

    def columns(self, quantity: Quantity) -> tuple[Column, ...]:
        """Return the raw series of a quantity, for those who need their labels."""
        return tuple(term.column for term in self._picked.terms(quantity))

    def _nothing(self, quantity: Quantity) -> float | None:
        """A counter that is not there: 0 for an engine that leaves zeros out, else unknown."""
        known = self.engine.omits_zero and quantity in self.engine.signals and quantity.kind is Kind.COUNTER
        return 0.0 if known else None

    def _histograms(self, quantity: Quantity) -> dict[str, tuple[Histogram, Histogram | None]]:
        """Return by rank what a histogram gained in the stretch, and what it held since the start."""
        if quantity not in self._parts:
            family = self._picked.family(quantity)
            self._parts[quantity] = self._by_rank(family) if family else {}
        return self._parts[quantity]

    def _by_rank(self, family: Select) -> dict[str, tuple[Histogram, Histogram | None]]:
        built = {}
        for rank, columns in self._picked.samples(family).items():
            now, whole = self._build(columns, family), self._build(columns, family, whole=True)
            if now is not None:
                built[rank] = (now, whole)
        return built

    def _build(self, columns: list[Column], family: Select, *, whole: bool = False) -> Histogram | None:
        cumulative: dict[float, float] = {}
        total = count = math.nan
        for column in columns:
            before = 0.0 if whole else self._picked.before(column)
            rise = self._picked.known(column, self.last) - before
            kind = plain_name(self.engine, column.name)[len(family.name) :]
            if kind == "_bucket":
                bound = _bound(dict(column.labels).get("le", "")) * family.scale
                cumulative[bound] = cumulative.get(bound, 0.0) + rise
            elif kind == "_sum":
                total = zero(total) + rise * family.scale
            else:
                count = zero(count) + rise
        return from_cumulative(cumulative, total, count)


def _bound(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.inf
