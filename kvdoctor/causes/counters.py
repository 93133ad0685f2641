"""What the cards' own counters say while the engine has work: a second witness beside the model (rules 10 and 11)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvdoctor import metrics as m
from kvdoctor.case import Case
from kvdoctor.hostview import Activity, CardView
from kvdoctor.machine import READ_FRACTION
from kvdoctor.model import Evidence
from kvdoctor.quantity import Quantity

MOST = 0.5
"""Share of the window that counters must cover, and in which the engine must have work, to speak of it."""
DCGM = "DCGM"
_EXPORTED = (
    ("dram", m.DRAM_ACTIVE),
    ("engine", m.ENGINE_ACTIVE),
    ("sm", m.SM_ACTIVE),
    ("tensor", m.TENSOR_ACTIVE),
)


@dataclass(frozen=True, slots=True)
class Witness:
    """The counters of the engine's cards. Shares are of the time in which the engine had work."""

    source: str
    cards: int
    dram_low: float | None
    """Share of HBM's theoretical peak on the least busy card, and on the busiest."""
    dram_high: float | None
    idle_low: float | None
    """Share of time without any kernel on the least idle card, and on the most idle one."""
    idle_high: float | None
    sm: float | None
    tensor: float | None
    link: float | None
    """PCIe traffic over what the link can carry, on the busiest card."""
    peak: float | None
    """Theoretical peak of HBM of one card, bytes/s."""

    def share_of_read(self, ceiling: float | None) -> float | None:
        """Return the traffic of the busiest card over the read ceiling, or over the usual share of the peak."""
        if self.dram_high is None:
            return None
        if ceiling and self.peak:
            return self.dram_high * self.peak / ceiling
        return self.dram_high / READ_FRACTION

    def evidence(self, name: str, value: float | None, threshold: float | None = None) -> Evidence:
        """Build one line of evidence that names the counters."""
        return Evidence(name, value, "ratio", threshold, f"{self.source} counters")


def witness(case: Case) -> Witness | None:
    """Return what GPM says of the family's cards, else DCGM; None where neither does, or nothing ran for long."""
    working = working_share(case)
    if case.traffic.lifetime or working < MOST:
        return None
    cards = case.host.cards if case.host else ()
    seen = [c.activity for c in cards if c.activity is not None]
    enough = [a for a in seen if a.seconds >= MOST * case.traffic.seconds]
    return _witness(enough or list(_exported(case, cards)), cards, working)


def working_share(case: Case) -> float:
    """Return the share of the readings in which requests were running; 1 where the engine does not say."""
    values = [value for _, value in case.timeline.series(m.RUNNING)]
    return sum(value > 0 for value in values) / len(values) if values else 1.0


def _witness(seen: list[Activity], cards: tuple[CardView, ...], working: float) -> Witness | None:
    if not seen:
        return None

    def shares(name: str) -> list[float]:
        told = [getattr(each, name) for each in seen]
        return [min(1.0, value / working) for value in told if value is not None]

    dram, engine, sm, tensor = (shares(name) for name in ("dram", "engine", "sm", "tensor"))
    loads = [card.link / card.wire for card in cards if card.link is not None and card.wire]
    peaks = [card.peak for card in cards if card.peak is not None]
    return Witness(
        source=seen[0].source,
        cards=len(seen),
        dram_low=min(dram, default=None),
        dram_high=max(dram, default=None),
        idle_low=1.0 - max(engine) if engine else None,
        idle_high=1.0 - min(engine) if engine else None,
        sm=max(sm, default=None),
        tensor=max(tensor, default=None),
        link=max(loads, default=None),
        peak=min(peaks, default=None),
    )


def _exported(case: Case, cards: tuple[CardView, ...]) -> tuple[Activity, ...]:
    """Return what an exporter says of the family's cards, joined by UUID; all its cards where none is known.

    An exporter refreshes its numbers every 30 s: one that never changed in the window may be from before it.
    """
    ours = {card.uuid for card in cards if card.uuid}
    by_card: dict[str, dict[str, float]] = {}
    for name, quantity in _EXPORTED:
        for uuid, mean in _means(case, quantity):
            if not ours or uuid in ours:
                by_card.setdefault(uuid, {})[name] = mean
    seconds = case.traffic.seconds
    return tuple(Activity(DCGM, seconds, **told) for told in by_card.values())


def _means(case: Case, quantity: Quantity) -> list[tuple[str, float]]:
    """Return (UUID, mean over the window) of each of an exporter's cards whose number changed in it."""
    columns, gauges = case.timeline.columns(quantity), case.timeline.each(quantity)
    if len(columns) != len(gauges):
        return []
    return [
        (dict(column.labels).get("UUID", ""), gauge.mean)
        for column, gauge in zip(columns, gauges, strict=True)
        if gauge.changes and math.isfinite(gauge.mean)
    ]
