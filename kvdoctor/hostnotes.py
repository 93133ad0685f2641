"""What the host showed, in sentences beside the findings: stacks by role, busy threads, disks, nodes, links."""

from __future__ import annotations

from kvdoctor.hostview import CardView, HostView
from kvdoctor.stackclass import Doing
from kvdoctor.units import percent, rate_bytes

THREADS = 3
MIXES = 6
PARTS = 4
_UNNAMED = (Doing.IDLE, Doing.IPC, Doing.OTHER)
BUSY = 0.05
"""CPUs from which a thread is worth a word."""
RETRANSMITS = 0.01
"""Share of TCP segments sent again, from which a network loses packets worth a word."""


def host_notes(view: HostView) -> tuple[str, ...]:
    """Return the sentences; each stands for something that was read."""
    return tuple(filter(None, (*_stacks(view), _threads(view), *_disks(view), *_cards(view), _rest(view))))


def _stacks(view: HostView) -> list[str]:
    """One sentence a thread that was seen at named work, most of it first, and one a main thread in any case."""
    told = [m for m in view.stacks if m.thread == "main" or m.share(*_UNNAMED) < 1]
    lines = []
    for mix in sorted(told, key=lambda m: -(1 - m.share(*_UNNAMED)) * m.samples)[:MIXES]:
        parts = ", ".join(
            f"{percent(n / mix.samples)} {doing.value.replace('_', ' ')}" for doing, n in mix.counts[:PARTS]
        )
        lines.append(f"Stacks of {mix.role} {mix.pid}, thread {mix.thread}, {mix.samples} samples: {parts}.")
    return lines


def _threads(view: HostView) -> str:
    busy = [t for t in view.threads if t.cpus >= BUSY][:THREADS]
    told = ", ".join(f"{t.role} {t.pid} {t.name} {t.cpus:.2f}" for t in busy)
    return f"Busiest threads, in CPUs: {told}." if told else ""


def _disks(view: HostView) -> list[str]:
    return [
        f"{' and '.join(disk.purposes).capitalize()} files lie on {disk.name}: "
        f"reads {rate_bytes(disk.read)}, busy {percent(disk.busy)} of the time."
        for disk in view.disks
        if disk.purposes
    ]


def _cards(view: HostView) -> list[str]:
    lines = []
    for card in view.cards:
        if card.occupancy is not None:
            lines.append(
                f"{card.title} ({card.name}): some kernel ran {percent(card.occupancy)} of the time "
                "(time occupancy, which says nothing of how much it did)."
            )
        lines += _counters(card)
        if card.node is not None and view.nodes and card.node not in view.nodes:
            nodes = ", ".join(view.nodes)
            lines.append(
                f"The engine may run on NUMA node {nodes} only; {card.title} is on node {card.node}."
            )
    return lines


_SETTINGS = {
    "confidential": "Confidential computing is on: copies to and from {card} pass through encrypted buffers one by "
    "one, so loading KV is slow, and the counters are off.",
    "vgpu": "{card} is a vGPU: its bandwidth is shared with other guests, and most counters are the host's.",
    "passthrough": "{card} is passed through to a virtual machine: NUMA nodes and PCIe tree are not the real ones.",
    "wsl": "This is WSL: processes, PCIe traffic and many clocks of {card} are not told.",
    "mig": "{card} is cut by MIG: occupancy and PCIe traffic are not told of its instances.",
    "c2c": "{card} reaches the CPU's memory over NVLink-C2C: its PCIe numbers are not the path of KV.",
}


def _counters(card: CardView) -> list[str]:
    """Say what the counters saw, by whom, and what decides what they can see."""
    lines = [text.format(card=card.title) for kind, text in _SETTINGS.items() if kind in card.settings]
    seen, parts = card.activity, []
    if seen is not None:
        shares = (("HBM moved data", seen.dram), ("SMs were busy", seen.sm), ("any kernel ran", seen.engine))
        parts = [f"{name} {percent(share)}" for name, share in shares if share is not None]
    if seen is not None and parts:
        lines.append(
            f"{card.title}, counted by {seen.source} over the window: {', '.join(parts)} of the time."
        )
    if seen is not None and seen.c2c:
        lines.append(f"{card.title} moved {rate_bytes(seen.c2c)} over NVLink-C2C in the busier direction.")
    if card.link is not None:
        lines.append(
            f"{card.title} moved {rate_bytes(card.link)} over PCIe in the busier direction ({card.link_source})."
        )
    return lines


def _rest(view: HostView) -> str:
    if view.retransmits is not None and view.retransmits >= RETRANSMITS:
        return f"{percent(view.retransmits)} of the TCP segments of the engine's network were sent again."
    return ""
