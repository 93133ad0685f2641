"""An engine's signals, and what the KV layers and exporters around it add to them."""

from __future__ import annotations

from collections.abc import Sequence

from kvdoctor import metrics as m
from kvdoctor.course import Gauge
from kvdoctor.engines import LAYERS, layers_of
from kvdoctor.engines.engine import Engine
from kvdoctor.histogram import Histogram, merge
from kvdoctor.quantity import Kind, Quantity
from kvdoctor.recording import Column, Source
from kvdoctor.segment import restarts
from kvdoctor.timeline import Timeline

_TOGETHER = (
    frozenset((m.LOAD_BYTES, m.LOAD_SECONDS, m.LOADS)),
    frozenset((m.STORE_BYTES, m.STORE_SECONDS)),
    frozenset((m.TIER_READ_BYTES, m.TIER_READ_SECONDS)),
    frozenset((m.TIER_QUERIES, m.TIER_HITS)),
    frozenset((m.TIER_USED, m.TIER_CAPACITY)),
    frozenset((m.TRANSFER_BYTES, m.TRANSFER_SECONDS, m.TRANSFERS, m.TRANSFER_POST_SECONDS)),
    frozenset((m.EXTERNAL_QUERIES, m.EXTERNAL_HITS)),
)
"""Quantities whose ratios are taken: they come from one teller, never from two."""


class Joined(Timeline):
    """One engine's signals. What it does not tell itself is asked of the layers, in their order.

    Layers that count the same bytes are never added up: of several kinds, the first that tells is believed, and
    the sources of that kind are brought together. The counters of a layer that serves other engines too are left
    out: whose they are is not told.
    """

    def __init__(
        self,
        own: Timeline,
        layers: Sequence[Timeline] = (),
        shared: Sequence[Timeline] = (),
    ) -> None:
        super().__init__(own.source, own.engine, own.first, own.last)
        self.layers, self.shared = tuple(layers), tuple(shared)
        self._answers: dict[Quantity, tuple[Timeline, ...]] = {}

    def own(self, quantity: Quantity) -> bool:
        """Say whether the engine tells a quantity itself."""
        return super().has(quantity)

    def has(self, quantity: Quantity) -> bool:
        """Say whether the engine or a layer has a sample of this quantity."""
        return self.own(quantity) or bool(self._tellers(quantity))

    def names(self, quantity: Quantity) -> str:
        """Return the raw names that a quantity was read from."""
        tellers = self._tellers(quantity)
        if not tellers:
            return super().names(quantity)
        return ", ".join(dict.fromkeys(line.names(quantity) for line in tellers))

    def total(self, quantity: Quantity, rank: str | None = None) -> float | None:
        """Return a counter since the start, see Timeline."""
        tellers = self._tellers(quantity)
        return _sum([line.total(quantity) for line in tellers]) if tellers else super().total(quantity, rank)

    def delta(self, quantity: Quantity, rank: str | None = None) -> float | None:
        """Return how much a counter rose, see Timeline."""
        tellers = self._tellers(quantity)
        return _sum([line.delta(quantity) for line in tellers]) if tellers else super().delta(quantity, rank)

    def gauge(self, quantity: Quantity, rank: str | None = None) -> Gauge | None:
        """Return a gauge's course, see Timeline; of several sources of a layer, the first one's."""
        tellers = self._tellers(quantity)
        return tellers[0].gauge(quantity) if tellers else super().gauge(quantity, rank)

    def each(self, quantity: Quantity) -> tuple[Gauge, ...]:
        """Return the course of each series of a gauge by itself."""
        tellers = self._tellers(quantity)
        return (
            tuple(g for line in tellers for g in line.each(quantity)) if tellers else super().each(quantity)
        )

    def series(self, quantity: Quantity, rank: str | None = None) -> list[tuple[float, float]]:
        """Return the values at each reading, see Timeline."""
        tellers = self._tellers(quantity)
        return tellers[0].series(quantity) if tellers else super().series(quantity, rank)

    def histogram(self, quantity: Quantity, rank: str | None = None) -> Histogram | None:
        """Return what a histogram gained, see Timeline."""
        tellers = self._tellers(quantity)
        if not tellers:
            return super().histogram(quantity, rank)
        return merge(filter(None, (line.histogram(quantity) for line in tellers)))

    def lifetime(self, quantity: Quantity) -> Histogram | None:
        """Return a histogram since the start, see Timeline."""
        tellers = self._tellers(quantity)
        if not tellers:
            return super().lifetime(quantity)
        return merge(filter(None, (line.lifetime(quantity) for line in tellers)))

    def columns(self, quantity: Quantity) -> tuple[Column, ...]:
        """Return the raw series of a quantity."""
        tellers = self._tellers(quantity)
        if not tellers:
            return super().columns(quantity)
        return tuple(column for line in tellers for column in line.columns(quantity))

    def _tellers(self, quantity: Quantity) -> tuple[Timeline, ...]:
        """Return the layers that answer for a quantity; none where the engine itself does, or nobody."""
        if quantity not in self._answers:
            self._answers[quantity] = self._ask(quantity)
        return self._answers[quantity]

    def _ask(self, quantity: Quantity) -> tuple[Timeline, ...]:
        group = next((group for group in _TOGETHER if quantity in group), frozenset((quantity,)))
        if any(super(Joined, self).has(each) for each in group):
            return ()
        lines = self.layers if quantity.kind is Kind.COUNTER else (*self.layers, *self.shared)
        telling = [line for line in lines if any(line.has(each) for each in group)]
        return tuple(line for line in telling if line.engine is telling[0].engine)


def _sum(values: Sequence[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return sum(told) if told else None


def layer_lines(
    sources: Sequence[Source], start: float, end: float, *, lifetime: bool
) -> tuple[Timeline, ...]:
    """Return the layers seen in some sources between two moments of the recording, in order of preference."""
    lines = []
    for source in sources:
        for layer in layers_of((c.name, c.labels) for c in source.columns):
            line = layer_line(source, layer, start, end, lifetime=lifetime)
            if line is not None:
                lines.append(line)
    return tuple(sorted(lines, key=lambda line: LAYERS.index(line.engine)))


def layer_line(source: Source, layer: Engine, start: float, end: float, *, lifetime: bool) -> Timeline | None:
    """Cut one layer's readings to those nearest to a window, after its newest restart; None without a reading."""
    if not source.at:
        return None
    first, last = source.nearest(start), source.nearest(end)
    anew = [reading for reading in restarts(source, layer) if reading <= last]
    if lifetime or first == last:
        return Timeline(source, layer, -1, last) if lifetime else None
    return Timeline(source, layer, max([first, *anew]), last)
