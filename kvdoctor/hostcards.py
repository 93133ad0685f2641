"""From NVML's series to one view a card; what needs load is read only from readings under load."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kvdoctor import metrics as m
from kvdoctor.hostactivity import activity, link, stands_still
from kvdoctor.hostseries import CardSeries, Series
from kvdoctor.hostview import CardView, Foreign
from kvdoctor.model import Gap
from kvdoctor.quantity import Quantity


def cards(found: Series) -> tuple[CardView, ...]:
    """Return one view a card, by index."""
    seen = (*found.each(m.GPU_MISSING), *found.each(m.GPU_INFO))
    labels = {s.labels.get("gpu", ""): s.labels for s in seen}
    return tuple(_view(CardSeries(found, gpu), gpu, labels[gpu]) for gpu in sorted(labels, key=_order))


def _order(gpu: str) -> tuple[int, int]:
    """Sort cards by number, the instances of one after it."""
    index, _, instance = gpu.partition("/")
    return int(index) if index.isdigit() else -1, int(instance) if instance.isdigit() else -1


def _reasons(card: CardSeries) -> tuple[tuple[str, float], ...]:
    """Return the share of the readings under load in which a reason held the clocks down, or, where that is more,
    the share of the window that the driver itself counted: readings miss what is shorter than they are apart."""
    shares: dict[str, float] = {}
    for s in card.all(m.GPU_THROTTLE):
        reason = s.labels.get("reason", "")
        held = card.under_load(m.GPU_THROTTLE, reason=reason)
        shares[reason] = sum(held) / len(held) if held else 0.0
    for s in card.all(m.GPU_THROTTLED):
        reason = s.labels.get("reason", "")
        shares[reason] = max(shares.get(reason, 0.0), min(1.0, s.rate))
    return tuple(sorted(((r, share) for r, share in shares.items() if share), key=lambda pair: -pair[1]))


def _peak(card: CardSeries) -> float | None:
    """Return the peak of HBM in bytes/s: two transfers a cycle of its highest clock, over the bus's width."""
    clock, bus = card.one(m.GPU_CLOCK_LIMIT, clock="memory"), card.one(m.GPU_BUS_WIDTH)
    peak = 2.0 * clock.last * bus.last / 8 if clock and bus else 0.0
    return peak if peak > 0 else None


def _settings(card: CardSeries) -> tuple[str, ...]:
    kinds = {s.labels.get("kind", "") for s in card.all(m.GPU_SETTING)}
    links = card.one(m.GPU_C2C_LINKS)
    return tuple(sorted(kinds | ({"c2c"} if links and links.last > 0 else set())))


def doubts(found: Series) -> tuple[Gap, ...]:
    """Return a gap for each card whose counters cannot be true."""
    gpus = sorted({s.labels.get("gpu", "") for s in found.each(m.GPU_INFO)}, key=_order)
    reason = "GPM stands at zero although kernels ran: the driver claims it and does not fill it"
    cure = "run dcgm-exporter and give its page too: --url http://HOST:9400/metrics"
    still = [gpu for gpu in gpus if stands_still(CardSeries(found, gpu))]
    return tuple(Gap(f"GPU {gpu}", reason, cure) for gpu in still)


def _last(card: CardSeries, quantity: Quantity, label: str) -> str:
    """Return a label of the newest series that is still there, empty for none."""
    alive = [s for s in card.all(quantity) if not math.isnan(s.last)]
    return alive[-1].labels.get(label, "") if alive else ""


def _view(card: CardSeries, gpu: str, labels: Mapping[str, str]) -> CardView:
    index, instance = _order(gpu)
    rate, told_by = link(card)
    replays, energy = card.one(m.GPU_LINK_ERRORS), card.one(m.GPU_ENERGY)
    node = next((s.labels.get("node") for s in card.all(m.GPU_NODE)), None)
    uncorrected = card.one(m.GPU_ECC, kind="uncorrected")
    return CardView(
        index=index,
        name=labels.get("name", ""),
        occupancy=card.mean(m.GPU_OCCUPANCY),
        used=card.mean(m.GPU_MEMORY_USED),
        total=card.mean(m.GPU_MEMORY),
        sm_clock=card.clock("sm"),
        memory_clock=card.clock("memory"),
        reasons=_reasons(card),
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
        uuid=labels.get("uuid", ""),
        instance=str(instance) if instance >= 0 else "",
        missing=_last(card, m.GPU_MISSING, "reason"),
        settings=_settings(card),
        peak=_peak(card),
        activity=activity(card),
        link=rate,
        link_source=told_by,
        replays=replays.rise if replays else 0.0,
        watts=energy.rate if energy and energy.rise else None,
    )


def _xids(card: CardSeries) -> tuple[tuple[int, int], ...]:
    found = ((int(s.labels.get("xid", "0")), round(s.rise)) for s in card.all(m.GPU_XIDS))
    return tuple((xid, count) for xid, count in found if xid and count)


def _foreign(card: CardSeries) -> tuple[Foreign, ...]:
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
