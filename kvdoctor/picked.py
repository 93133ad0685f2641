"""The live series of one stretch of a source: which of them stand for a quantity, and what they stood at."""

from __future__ import annotations

import math
from collections.abc import Iterable

from kvdoctor.engines import plain_name
from kvdoctor.engines.engine import Engine, Select
from kvdoctor.pick import Term, beside, once
from kvdoctor.quantity import Quantity
from kvdoctor.recording import Column, Source

NO_RANK = "0"
"""The rank of an engine that names none."""


class Picked:
    """The series of a source between two readings, found by quantity through an engine's adapter.

    `first` = -1 stands for the birth of the process, at which every counter stood at nothing.
    """

    def __init__(self, source: Source, engine: Engine, first: int, last: int) -> None:
        self.engine, self.first, self.last = engine, first, last
        self.since = first if first >= 0 else last
        self.by_name: dict[str, list[Column]] = {}
        for column in source.columns:
            self.by_name.setdefault(plain_name(engine, column.name), []).append(column)
        self._terms: dict[Quantity, tuple[Term, ...]] = {}
        self._once: dict[str, list[Column]] = {}

    def own(self) -> Iterable[tuple[str, Column]]:
        """Yield (plain name, series) of each series that the engine itself exports."""
        for name, columns in self.by_name.items():
            if name.startswith(self.engine.prefixes):
                for column in columns:
                    yield name, column

    def ranks(self) -> tuple[str, ...]:
        """Return the ranks among the labels, in order; one that has no name where there are none."""
        label = self.engine.rank_label
        found = {value for _, column in self.own() for key, value in column.labels if key == label}
        return tuple(sorted(found)) or (NO_RANK,)

    def terms(self, quantity: Quantity, rank: str | None = None) -> tuple[Term, ...]:
        """Return the series that a quantity is summed from: those of the first alternative that is there."""
        if quantity not in self._terms:
            found: tuple[Term, ...] = ()
            for terms in self.engine.signals.get(quantity, ()):
                found = tuple(t for select in terms for t in self.select(select))
                if found:
                    break
            self._terms[quantity] = found
        return tuple(t for t in self._terms[quantity] if rank in (None, t.rank))

    def family(self, quantity: Quantity) -> Select | None:
        """Return the histogram family that a quantity is read from; None where none is there."""
        for terms in self.engine.signals.get(quantity, ()):
            if any(True for _ in self.select(Select(terms[0].name, terms[0].labels, "count"))):
                return terms[0]
        return None

    def samples(self, family: Select) -> dict[str, list[Column]]:
        """Return the buckets, sums and counts of a histogram family by rank."""
        ranks: dict[str, list[Column]] = {}
        for suffix in ("_bucket", "_sum", "_count"):
            for column in self._columns(family.name + suffix):
                if set(family.labels) <= set(column.labels) and self.alive(column):
                    ranks.setdefault(self._rank(column), []).append(column)
        return ranks

    def select(self, select: Select) -> Iterable[Term]:
        """Return the series that one selection of an adapter finds."""
        family = self._family_columns(select.name, select.sample, every=select.every)
        if select.beside and not self._family_columns(select.beside):
            return ()
        found = [c for c in family if set(select.labels) <= set(c.labels)]
        if family and not found and select.lazy:
            return [Term(family[0], self._rank(family[0]), 0.0)]
        return [term for c in found if (term := self._term(c, select)) is not None]

    def alive(self, column: Column) -> bool:
        """Say whether a series has a number here; one that is infinite at either end tells nothing."""
        now = self.known(column, self.last)
        usable = math.isfinite(now) and abs(now) <= self.engine.blank_above
        return usable and math.isfinite(self.before(column))

    def known(self, column: Column, reading: int) -> float:
        """Return what a series stood at, also where it is gone for a while."""
        return column.known(reading, self.since)

    def before(self, column: Column) -> float:
        """Return where a counter stood when the stretch began; one that was not there yet stood at nothing."""
        return zero(column.at(self.first)) if self.first >= 0 else 0.0

    def value(self, term: Term, reading: int) -> float:
        """Return what a term stood at, in its quantity's unit."""
        return zero(term.of(self.known(term.column, reading), reading, self.since))

    def rise(self, term: Term) -> float:
        """Return how much a counter rose in the stretch, in its quantity's unit."""
        rise = max(0.0, self.known(term.column, self.last) - self.before(term.column))
        return zero(term.of(rise, self.last, self.since))

    def _rank(self, column: Column) -> str:
        return dict(column.labels).get(self.engine.rank_label, NO_RANK) if self.engine.rank_label else NO_RANK

    def _columns(self, name: str, *, every: bool = False) -> list[Column]:
        if every:
            return self.by_name.get(name, [])
        if name not in self._once:
            self._once[name] = once(self.by_name.get(name, ()), self.engine)
        return self._once[name]

    def _family_columns(self, name: str, sample: str = "", *, every: bool = False) -> list[Column]:
        """Return the live series of a family under the first of its spellings that has any."""
        for suffix in (f"_{sample}",) if sample else ("", "_total"):
            found = [c for c in self._columns(name + suffix, every=every) if self.alive(c)]
            if found:
                return found
        return []

    def _term(self, column: Column, select: Select) -> Term | None:
        gauges: list[Column | None] = [None, None]
        for place, name in enumerate((select.times, select.over)):
            if name:
                gauges[place] = beside(column, self._family_columns(name))
                if gauges[place] is None:
                    return None
        blank = self.engine.blank_above
        return Term(column, self._rank(column), select.scale, gauges[0], gauges[1], blank)


def zero(value: float) -> float:
    """A series that is not there yet stands at nothing."""
    return 0.0 if math.isnan(value) else value
