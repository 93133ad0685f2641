"""What a card's counters say of HBM, SMs and links in a window, and whether they can be believed."""

from __future__ import annotations

import math
from collections.abc import Iterable

from kvdoctor import metrics as m
from kvdoctor.hostseries import CardSeries
from kvdoctor.hostview import Activity
from kvdoctor.quantity import Quantity

GPM = "GPM"
MIN_LOADED = 3
"""Readings under load in which counters that stand at zero are a lie: one may have caught a moment's rest."""
_PROOF = (m.ENGINE_ACTIVE, m.SM_ACTIVE, m.DRAM_ACTIVE)


def activity(card: CardSeries) -> Activity | None:
    """Return the means of GPM's counters; None without them, and where they cannot be true."""
    told = [quantity for quantity in _PROOF if card.one(quantity) is not None]
    if not told or stands_still(card):
        return None
    spans = card.one(m.COUNTER_SECONDS)
    return Activity(
        source=GPM,
        seconds=sum(v for v in spans.values() if not math.isnan(v)) if spans else 0.0,
        dram=card.mean(m.DRAM_ACTIVE),
        sm=card.mean(m.SM_ACTIVE),
        tensor=card.mean(m.TENSOR_ACTIVE),
        engine=card.mean(m.ENGINE_ACTIVE),
        warps=card.mean(m.SM_OCCUPANCY),
        pcie=_busier(card, m.GPU_PCIE_IN, m.GPU_PCIE_OUT),
        c2c=_busier(card, m.GPU_C2C_IN, m.GPU_C2C_OUT),
        nvlink=_busier(card, m.GPU_NVLINK_IN, m.GPU_NVLINK_OUT),
        switching=card.mean(m.GPU_SWITCHING),
    )


def stands_still(card: CardSeries) -> bool:
    """Say whether the counters stand at zero although kernels ran: some drivers claim GPM and do not fill it."""
    values = [v for quantity in _PROOF for v in card.under_load(quantity)]
    return len(card.loaded) >= MIN_LOADED and bool(values) and not any(values)


def link(card: CardSeries) -> tuple[float | None, str]:
    """Return the bytes per second over PCIe in the busier direction, and who told: the best source there is.

    GPM sees all the time; so does a cumulative counter that is proven not to wrap; windows see 20 ms a second.
    """
    counted = _busier(card, m.GPU_PCIE_IN, m.GPU_PCIE_OUT)
    if counted is not None:
        return counted, "GPM PCIe counters"
    known = [s for s in card.all(m.GPU_PCIE_BYTES) if not math.isnan(s.column.at(s.first))]
    totals = [s.rate for s in known if s.seconds > 0]
    if totals:
        return max(totals), "NVML PCIe byte counters"
    windows = [mean for s in card.all(m.GPU_LINK_RATE) if (mean := s.mean()) is not None]
    return (max(windows), "NVML windows of 20 ms") if windows else (None, "")


def _busier(card: CardSeries, *quantities: Quantity) -> float | None:
    return _most(card.mean(quantity) for quantity in quantities)


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
