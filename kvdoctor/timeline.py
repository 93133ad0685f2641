"""From raw columns to signals: a stretch of one source, read through an engine's adapter."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable

from kvdoctor.course import Gauge as Gauge
from kvdoctor.course import course
from kvdoctor.engines import plain_name
from kvdoctor.engines.engine import Engine, Select
from kvdoctor.histogram import Histogram, from_cumulative, merge
from kvdoctor.pick import Term, beside, once
from kvdoctor.quantity import Across, Kind, Quantity
from kvdoctor.recording import Column, Source

NO_RANK = "0"
"""The rank of an engine that names none."""


class Timeline:
    """One engine's signals between two readings of one source, both included.

    `first` = -1 stands for the birth of the process: differences are then lifetime sums, and only the
    last reading is looked at. What was read before the first one is of a process that is gone.
    """

    def __init__(self, source: Source, engine: Engine, first: int, last: int) -> None:
        self.source, self.engine, self.first, self.last = source, engine, first, last
        self._since = first if first >= 0 else last
        self._by_name: dict[str, list[Column]] = {}
        for column in source.columns:
            self._by_name.setdefault(plain_name(engine, column.name), []).append(column)
        self._terms: dict[Quantity, tuple[Term, ...]] = {}
        self._once: dict[str, list[Column]] = {}
        self._parts: dict[Quantity, dict[str, tuple[Histogram, Histogram | None]]] = {}
        self.ranks = tuple(sorted(self._ranks())) or (NO_RANK,)

    @property
    def seconds(self) -> float:
        """Return the length in seconds, NaN for a lifetime reading."""
        return math.nan if self.first < 0 else self.source.at[self.last] - self.source.at[self.first]

    @property
    def readings(self) -> range:
        """Return the numbers of its readings."""
        return range(self._since, self.last + 1)

    def times(self) -> list[float]:
        """Return the time of each reading, seconds since the recording began."""
        return [self.source.at[i] for i in self.readings]

    def has(self, quantity: Quantity) -> bool:
        """Say whether any series of this quantity has a sample here."""
        if quantity.kind is Kind.HISTOGRAM:
            return bool(self._histograms(quantity))
        return bool(self._find(quantity))

    def names(self, quantity: Quantity) -> str:
        """Return the raw names that a quantity was read from."""
        if quantity.kind is Kind.HISTOGRAM:
            found = self._family(quantity)
            return found.name if found else ""
        return ", ".join(sorted({t.column.name for t in self._find(quantity)}))

    def total(self, quantity: Quantity, rank: str | None = None) -> float | None:
        """Return a counter's value since the engine started, summed over ranks; None when absent."""
        terms = self._of_rank(quantity, rank)
        return max(0.0, sum(self._value(t, self.last) for t in terms)) if terms else self._nothing(quantity)

    def delta(self, quantity: Quantity, rank: str | None = None) -> float | None:
        """Return how much a counter rose in the stretch, summed over ranks; None when absent."""
        terms = self._of_rank(quantity, rank)
        return max(0.0, sum(self._rise(t) for t in terms)) if terms else self._nothing(quantity)

    def gauge(self, quantity: Quantity, rank: str | None = None) -> Gauge | None:
        """Return a gauge's course, ranks brought together as its quantity says; None when absent."""
        return course(self.series(quantity, rank))

    def each(self, quantity: Quantity) -> tuple[Gauge, ...]:
        """Return the course of each series of a gauge by itself."""
        found = (course(self._points((term,), max, Column.at)) for term in self._find(quantity))
        return tuple(gauge for gauge in found if gauge is not None)

    def series(self, quantity: Quantity, rank: str | None = None) -> list[tuple[float, float]]:
        """Return (seconds since the recording began, value) of a gauge or a counter at each reading.

        A counter that is gone for a while stands where it stood.
        """
        terms = self._of_rank(quantity, rank)
        together = max if quantity.across is Across.MAX else sum
        known = self._known if quantity.kind is Kind.COUNTER else Column.at
        return self._points(terms, together, known)

    def _points(
        self,
        terms: tuple[Term, ...],
        together: Callable[[list[float]], float],
        known: Callable[[Column, int], float],
    ) -> list[tuple[float, float]]:
        points = []
        for reading in self.readings if terms else ():
            told = (t.of(known(t.column, reading), reading, self._since) for t in terms)
            values = [v for v in told if math.isfinite(v)]
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
        family = self._family(quantity)
        terms = tuple(self._select(Select(family.name, family.labels, sample))) if family else ()
        return [(self.source.at[i], sum(self._value(t, i) for t in terms)) for i in self.readings if terms]

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
        for term in reversed(self._find(quantity)):
            value = dict(term.column.labels).get(key)
            if value not in (None, "", "None"):
                return value
        return None

    def models(self) -> tuple[str, ...]:
        """Return the model names among the labels, in order of appearance; case apart, each once."""
        found: dict[str, str] = {}
        for columns in self._by_name.values():
            for column in columns:
                name = dict(column.labels).get(self.engine.model_label)
                if name and name != "undefined" and self._alive(column):
                    found.setdefault(name.lower(), name)
        return tuple(found.values())

    def counters_moved(self) -> bool:
        """Say whether any token or request counter rose: only then is a gauge believed to be fresh."""
        for name, columns in self._by_name.items():
            if name.startswith(self.engine.prefixes):
                for column in columns:
                    counts = column.type == "counter" or name.endswith(("_total", "_count"))
                    if counts and self._known(column, self.last) > self._before(column):
                        return True
        return False

    def columns(self, quantity: Quantity) -> tuple[Column, ...]:
        """Return the raw series of a quantity, for those who need their labels."""
        return tuple(term.column for term in self._find(quantity))

    def _nothing(self, quantity: Quantity) -> float | None:
        """A counter that is not there: 0 for an engine that leaves zeros out, else unknown."""
        known = self.engine.omits_zero and quantity in self.engine.signals and quantity.kind is Kind.COUNTER
        return 0.0 if known else None

    # -- finding series ------------------------------------------------------------------------------------

    def _ranks(self) -> set[str]:
        label = self.engine.rank_label
        return {
            value
            for name, columns in self._by_name.items()
            if name.startswith(self.engine.prefixes)
            for column in columns
            for key, value in column.labels
            if key == label
        }

    def _rank(self, column: Column) -> str:
        return dict(column.labels).get(self.engine.rank_label, NO_RANK) if self.engine.rank_label else NO_RANK

    def _columns(self, name: str, *, every: bool = False) -> list[Column]:
        if every:
            return self._by_name.get(name, [])
        if name not in self._once:
            self._once[name] = once(self._by_name.get(name, ()), self.engine)
        return self._once[name]

    def _family_columns(self, name: str, sample: str = "", *, every: bool = False) -> list[Column]:
        """Return the live series of a family under the first of its spellings that has any."""
        for suffix in (f"_{sample}",) if sample else ("", "_total"):
            found = [c for c in self._columns(name + suffix, every=every) if self._alive(c)]
            if found:
                return found
        return []

    def _select(self, select: Select) -> Iterable[Term]:
        family = self._family_columns(select.name, select.sample, every=select.every)
        if select.beside and not self._family_columns(select.beside):
            return ()
        found = [c for c in family if set(select.labels) <= set(c.labels)]
        if family and not found and select.lazy:
            return [Term(family[0], self._rank(family[0]), 0.0)]
        return [term for c in found if (term := self._term(c, select)) is not None]

    def _term(self, column: Column, select: Select) -> Term | None:
        gauges: list[Column | None] = [None, None]
        for place, name in enumerate((select.times, select.over)):
            if name:
                gauges[place] = beside(column, self._family_columns(name))
                if gauges[place] is None:
                    return None
        blank = self.engine.blank_above
        return Term(column, self._rank(column), select.scale, gauges[0], gauges[1], blank)

    def _alive(self, column: Column) -> bool:
        """Say whether a series has a number here; one that is infinite at either end tells nothing."""
        now = self._known(column, self.last)
        usable = math.isfinite(now) and abs(now) <= self.engine.blank_above
        return usable and math.isfinite(self._before(column))

    def _known(self, column: Column, reading: int) -> float:
        return column.known(reading, self._since)

    def _before(self, column: Column) -> float:
        """Where a counter stood when the stretch began; one that was not there yet stood at nothing."""
        return _zero(column.at(self.first)) if self.first >= 0 else 0.0

    def _value(self, term: Term, reading: int) -> float:
        return _zero(term.of(self._known(term.column, reading), reading, self._since))

    def _find(self, quantity: Quantity) -> tuple[Term, ...]:
        if quantity not in self._terms:
            found: tuple[Term, ...] = ()
            for terms in self.engine.signals.get(quantity, ()):
                found = tuple(t for select in terms for t in self._select(select))
                if found:
                    break
            self._terms[quantity] = found
        return self._terms[quantity]

    def _of_rank(self, quantity: Quantity, rank: str | None) -> tuple[Term, ...]:
        return tuple(t for t in self._find(quantity) if rank in (None, t.rank))

    def _rise(self, term: Term) -> float:
        rise = max(0.0, self._known(term.column, self.last) - self._before(term.column))
        return _zero(term.of(rise, self.last, self._since))

    # -- histograms ----------------------------------------------------------------------------------------

    def _family(self, quantity: Quantity) -> Select | None:
        for terms in self.engine.signals.get(quantity, ()):
            if any(True for _ in self._select(Select(terms[0].name, terms[0].labels, "count"))):
                return terms[0]
        return None

    def _histograms(self, quantity: Quantity) -> dict[str, tuple[Histogram, Histogram | None]]:
        if quantity not in self._parts:
            family = self._family(quantity)
            self._parts[quantity] = self._by_rank(family) if family else {}
        return self._parts[quantity]

    def _by_rank(self, family: Select) -> dict[str, tuple[Histogram, Histogram | None]]:
        ranks: dict[str, list[Column]] = {}
        for suffix in ("_bucket", "_sum", "_count"):
            for column in self._columns(family.name + suffix):
                if set(family.labels) <= set(column.labels) and self._alive(column):
                    ranks.setdefault(self._rank(column), []).append(column)
        built = {}
        for rank, columns in ranks.items():
            now, whole = self._build(columns, family), self._build(columns, family, whole=True)
            if now is not None:
                built[rank] = (now, whole)
        return built

    def _build(self, columns: list[Column], family: Select, *, whole: bool = False) -> Histogram | None:
        cumulative: dict[float, float] = {}
        total = count = math.nan
        for column in columns:
            rise = self._known(column, self.last) - (0.0 if whole else self._before(column))
            kind = plain_name(self.engine, column.name)[len(family.name) :]
            if kind == "_bucket":
                bound = _bound(dict(column.labels).get("le", ""))
                bound *= family.scale
                cumulative[bound] = cumulative.get(bound, 0.0) + rise
            elif kind == "_sum":
                total = _zero(total) + rise * family.scale
            else:
                count = _zero(count) + rise
        return from_cumulative(cumulative, total, count)


def _bound(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.inf


def _zero(value: float) -> float:
    """A series that is not there yet stands at nothing."""
    return 0.0 if math.isnan(value) else value
