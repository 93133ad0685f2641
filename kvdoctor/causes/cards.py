"""Blame a card for what NVML shows under load: clocks held down, memory errors, a narrow link, a second tenant."""

from __future__ import annotations

from kvdoctor.case import Case
from kvdoctor.hostview import CardView
from kvdoctor.ledger import KV_LOAD, KV_WAIT
from kvdoctor.model import Advice, Basis, Bound, Evidence, Finding, Verdict
from kvdoctor.units import gib, percent

MIN_LOADED = 3
"""Readings under load from which clocks and link are judged; fewer may all have caught one moment."""
HELD = 0.5
"""Share of the readings under load in which a reason must hold the clocks down."""
SM_CLOCK = 0.8
"""SM clock over the highest one, below which a card is slow: boost clocks are seldom held in full."""
MEMORY_CLOCK = 0.95
"""The same for the memory's clock, which does not vary under load on a healthy card."""
BUSY = 0.1
"""Share of time in which another process's kernels run, from which the card is shared."""
BIG = 2.0**30
"""Bytes of another process on the card from which it is worth a word, whether it computes or not."""
FAULTS = frozenset(("hardware_slowdown", "software_thermal", "hardware_thermal", "power_brake"))
"""Reasons that are a fault of the machine; a power cap is a setting."""


def throttled(case: Case, card: CardView) -> Finding | None:
    """Clocks far below their highest under load, with the driver's reason; None without readings under load."""
    if card.loaded < MIN_LOADED or card.sm_clock is None:
        return None
    name, held = next(((n, s) for n, s in card.reasons if n != "idle"), ("no reason", 0.0))
    memory = card.memory_clock if card.memory_clock is not None else 1.0
    slow = 1.0 - min(card.sm_clock, memory)
    evidence = (
        Evidence(f"{card.title}: clock below its highest", slow, "ratio", 1 - SM_CLOCK, "NVML clocks"),
        Evidence("memory clock over its highest", card.memory_clock, "ratio", MEMORY_CLOCK, "NVML clocks"),
        Evidence(f"readings held down by {name}", held, "ratio", HELD, "NVML clocks event reasons"),
    )
    if (card.sm_clock >= SM_CLOCK and memory >= MEMORY_CLOCK) or held < HELD:
        why = f"{card.title} runs at {percent(card.sm_clock)} of its highest SM clock under load."
        return Finding(Bound.DEVICE, Verdict.RULED_OUT, "throttled", why, evidence=evidence)
    cost = slow * case.currency
    why = f"{card.title} is held down by {name.replace('_', ' ')}: {percent(slow)} below its highest clock."
    fault = name in FAULTS
    do = "cool the machine, and check its power supply" if fault else "raise the power limit (nvidia-smi -pl)"
    advice = (Advice(do, f"at most {percent(slow)} of the compute time", Basis.UPPER_BOUND, cost or None),)
    verdict = Verdict.LIKELY if fault else Verdict.POSSIBLE
    return Finding(Bound.DEVICE, verdict, "throttled", why, None, cost, None, evidence, (), advice)


def ecc(card: CardView) -> Finding:
    """Uncorrected errors in the window, rows that wait for a reset, or Xid events."""
    xids = sum(count for _, count in card.xids)
    evidence = (
        Evidence(f"{card.title}: uncorrected memory errors", card.uncorrected, "", 0, "NVML ECC"),
        Evidence("rows pending or not remapped", card.pending_rows, "", 0, "NVML remapped rows"),
        Evidence("Xid events", float(xids), "", 0, "NVML events"),
    )
    if not (card.uncorrected or card.pending_rows or xids):
        why = f"{card.title} reported no memory error while we watched."
        return Finding(Bound.DEVICE, Verdict.RULED_OUT, "ecc", why, evidence=evidence)
    numbers = ", ".join(str(xid) for xid, _ in card.xids)
    why = f"{card.title} has memory or driver faults" + (f" (Xid {numbers})." if numbers else ".")
    advice = (Advice("drain and reset the card; replace it if rows fail", "a card to trust", Basis.MEASURED),)
    return Finding(Bound.DEVICE, Verdict.LIKELY, "ecc", why, None, 0.0, None, evidence, (), advice)


def missing(case: Case, card: CardView) -> Finding | None:
    """A card that stopped answering; None where it answers."""
    if not card.missing:
        return None
    evidence = (Evidence(f"{card.title}: cards that do not answer", 1.0, "", 0, "NVML"),)
    why = f"{card.title} does not answer any more: {card.missing}."
    do = "drain this host; look for Xid 79 in the kernel's log, then reset the card or reboot"
    advice = (Advice(do, "the card back, or its replacement", Basis.MEASURED),)
    if not card.name:  # lost before it was ever read: whether the engine was on it is not known
        return Finding(Bound.DEVICE, Verdict.POSSIBLE, "ecc", why, evidence=evidence, advice=advice)
    return Finding(Bound.DEVICE, Verdict.LIKELY, "ecc", why, None, case.currency, None, evidence, (), advice)


def link_degraded(case: Case, card: CardView) -> Finding | None:
    """A link that stays below the card's own generation or width under load; None without load."""
    if card.loaded < MIN_LOADED or card.generation is None or card.width is None:
        return None
    (generation, best), (width, widest) = card.generation, card.width
    rate = 2.0 ** (generation - best) * width / widest if widest else 1.0
    evidence = (
        Evidence(f"{card.title}: link rate over the card's own", rate, "ratio", 1.0, "NVML PCIe link"),
        Evidence("PCIe generation under load", generation, "", best, "NVML PCIe link"),
        Evidence("PCIe lanes under load", width, "", widest, "NVML PCIe link"),
        *_traffic(card),
    )
    if rate >= 1.0:
        why = f"{card.title} has its full link under load: PCIe {generation:.0f} x{width:.0f}."
        return Finding(Bound.DEVICE, Verdict.RULED_OUT, "link_degraded", why, evidence=evidence)
    loading = case.ttft.part(KV_LOAD) + case.ttft.part(KV_WAIT) if case.ttft else 0.0
    cost = loading * (1 - rate)
    could = f"PCIe {best:.0f} x{widest:.0f}"
    why = f"{card.title} runs PCIe {generation:.0f} x{width:.0f} under load, and could run {could}."
    verdict = Verdict.LIKELY if cost else Verdict.POSSIBLE
    advice = (
        Advice(
            "reseat the card, check slot, riser and BIOS", "faster KV loads", Basis.UPPER_BOUND, cost or None
        ),
    )
    return Finding(
        Bound.DEVICE, verdict, "link_degraded", why, None, cost, cost or None, evidence, (), advice
    )


def _traffic(card: CardView) -> tuple[Evidence, ...]:
    """What the link carries, by the best source there is, and the packets that it sent again."""
    again = Evidence("PCIe packets sent again", card.replays, "", None, "NVML PCIe replay counter")
    if card.link is None:
        return (again,)
    return Evidence(
        "PCIe traffic, busier direction", card.link, "bytes/s", card.wire, card.link_source
    ), again


def shared(case: Case, card: CardView) -> Finding | None:
    """Other processes on the card; None where there are none to be seen."""
    others = [f for f in card.foreign if f.occupancy >= BUSY or (f.memory or 0.0) >= BIG]
    if not others:
        return None
    busy = min(1.0, sum(f.occupancy for f in others))
    memory = sum(f.memory or 0.0 for f in others)
    evidence = (
        Evidence(f"{card.title}: time with kernels of others", busy, "ratio", BUSY, "NVML process utilization"),
        Evidence("memory of others on the card", memory, "bytes", BIG, "NVML compute processes"),
        *_switching(card),
    )  # fmt: skip
    pids = ", ".join(str(f.pid) for f in others[:4])
    advice = (Advice("move the others to another card", "the card's whole time", Basis.UPPER_BOUND),)
    if busy < BUSY:
        why = f"Other processes ({pids}) hold {gib(memory)} of {card.title} and compute little."
        return Finding(Bound.DEVICE, Verdict.POSSIBLE, "shared", why, evidence=evidence, advice=advice)
    cost = busy * case.currency
    why = f"Other processes ({pids}) run kernels on {card.title} for {percent(busy)} of the time."
    return Finding(Bound.DEVICE, Verdict.LIKELY, "shared", why, None, cost, cost, evidence, (), advice)


def _switching(card: CardView) -> tuple[Evidence, ...]:
    if card.activity is None or card.activity.switching is None:
        return ()
    return (
        Evidence("time in context switches", card.activity.switching, "ratio", None, card.activity.source),
    )


def check(case: Case) -> tuple[Finding, ...]:
    """Look at every card of the family; empty where no card is seen."""
    found = []
    for card in case.host.cards if case.host else ():
        gone = missing(case, card)
        whole = () if card.instance or gone else (throttled(case, card), ecc(card), link_degraded(case, card))
        found += [finding for finding in (gone, *whole, shared(case, card)) if finding is not None]
    return tuple(found)
