"""From NVML's series to one view a card; what needs load is read only from readings under load."""

from __future__ import annotations

import math

from kvdoctor import metrics as m
from kvdoctor.hostseries import One, Series
from kvdoctor.hostview import CardView, Foreign
from kvdoctor.metrics import Quantity

LOADED = 0.5
"""Time occupancy of a reading from which clocks and links are judged: idle cards clock and train down."""


class _Card:
    """The series of one card, by quantity and label."""

    def __init__(self, found: Series, index: str) -> None:
        self._found, self._index = found, index
        occupancy = self.one(m.GPU_OCCUPANCY)
        values = occupancy.values() if occupancy else []
        self.loaded = [i for i, value in enumerate(values) if value >= LOADED]

    def all(self, quantity: Quantity) -> list[One]:
        return [s for s in self._found.each(quantity) if s.labels.get("gpu") == self._index]

    def one(self, quantity: Quantity, **labels: str) -> One | None:
        wanted = labels.items()
        return next((s for s in self.all(quantity) if wanted <= s.labels.items()), None)

    def mean(self, quantity: Quantity) -> float | None:
        found = self.one(quantity)
        return found.mean() if found else None

    def under_load(self, quantity: Quantity, **labels: str) -> list[float]:
        """Return a gauge's numbers at the readings under load."""
        found = self.one(quantity, **labels)
        values = found.values() if found else []
        return [values[i] for i in self.loaded if i < len(values) and not math.isnan(values[i])]

    def clock(self, name: str) -> float | None:
        """Return the mean clock over the highest one, under load."""
        now, limit = self.under_load(m.GPU_CLOCK, clock=name), self.one(m.GPU_CLOCK_LIMIT, clock=name)
        if not now or limit is None or not limit.last > 0:
            return None
        return sum(now) / len(now) / limit.last

    def link(self, now: Quantity, *limits: Quantity) -> tuple[float, float] | None:
        """Return the best value seen under load, and the most that any of the limits allows."""
        seen = self.under_load(now)
        allowed = [s.last for quantity in limits for s in self.all(quantity) if not math.isnan(s.last)]
        return (max(seen), max(allowed)) if seen and allowed else None


def cards(found: Series) -> tuple[CardView, ...]:
    """Return one view a card, by index."""
    names = {s.labels.get("gpu", ""): s.labels.get("name", "") for s in found.each(m.GPU_INFO)}
    indices = sorted(names, key=lambda index: int(index) if index.isdigit() else 0)
    return tuple(_view(_Card(found, index), index, names[index]) for index in indices)


def _view(card: _Card, index: str, name: str) -> CardView:
    reasons = []
    for s in card.all(m.GPU_THROTTLE):
        reason = s.labels.get("reason", "")
        held = card.under_load(m.GPU_THROTTLE, reason=reason)
        if held and sum(held):
            reasons.append((reason, sum(held) / len(held)))
    node = next((s.labels.get("node") for s in card.all(m.GPU_NODE)), None)
    uncorrected = card.one(m.GPU_ECC, kind="uncorrected")
    return CardView(
        index=int(index) if index.isdigit() else -1,
        name=name,
        occupancy=card.mean(m.GPU_OCCUPANCY),
        used=card.mean(m.GPU_MEMORY_USED),
        total=card.mean(m.GPU_MEMORY),
        sm_clock=card.clock("sm"),
        memory_clock=card.clock("memory"),
        reasons=tuple(sorted(reasons, key=lambda pair: -pair[1])),
        loaded=len(card.loaded),
        generation=card.link(m.GPU_LINK_GENERATION, m.GPU_LINK_GENERATION_LIMIT, m.GPU_LINK_GENERATION_OWN),
        width=card.link(m.GPU_LINK_WIDTH, m.GPU_LINK_WIDTH_LIMIT),
        uncorrected=uncorrected.rise if uncorrected else 0.0,
        pending_rows=sum(
            max(0.0, s.last)
            for s in card.all(m.GPU_REMAPPED)
            if s.labels.get("kind") in ("pending", "failed")
        ),
        xids=_xids(card),
        foreign=_foreign(card),
        node=node or None,
    )


def _xids(card: _Card) -> tuple[tuple[int, int], ...]:
    found = ((int(s.labels.get("xid", "0")), round(s.rise)) for s in card.all(m.GPU_XIDS))
    return tuple((xid, count) for xid, count in found if xid and count)


def _foreign(card: _Card) -> tuple[Foreign, ...]:
    """Return the processes on the card that are none of the family, by memory.

    Where no member is among them either, NVML counts in another pid namespace, and nothing can be told.
    """
    rows = []
    seen = card.all(m.GPU_PROCESS)
    for s in seen if any(s.labels.get("member") == "true" for s in seen) else ():
        if s.labels.get("member") != "false":
            continue
        pid = s.labels.get("pid", "")
        memory = card.one(m.GPU_PROCESS_BYTES, pid=pid)
        busy = card.one(m.GPU_PROCESS_OCCUPANCY, pid=pid)
        rows.append(Foreign(s.pid, memory.last if memory else None, (busy.mean() if busy else None) or 0.0))
    return tuple(sorted(rows, key=lambda row: -(row.memory or 0.0)))
