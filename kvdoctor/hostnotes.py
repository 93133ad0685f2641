"""What the host showed, in sentences beside the findings: stacks by role, busy threads, disks, nodes, links."""

from __future__ import annotations

from kvdoctor.hostview import HostView
from kvdoctor.stackclass import Doing
from kvdoctor.units import percent, rate_bytes

THREADS = 3
MIXES = 6
PARTS = 4
BUSY = 0.05
"""CPUs from which a thread is worth a word."""
RETRANSMITS = 0.01
"""Share of TCP segments sent again, from which a network loses packets worth a word."""


def host_notes(view: HostView) -> tuple[str, ...]:
    """Return the sentences; each stands for something that was read."""
    return tuple(filter(None, (*_stacks(view), _threads(view), *_disks(view), *_cards(view), _rest(view))))


def _stacks(view: HostView) -> list[str]:
    """One sentence a thread that did something, those with most work first."""
    busy = [m for m in view.stacks if m.thread == "main" or m.share(Doing.IDLE, Doing.IPC) < 1]
    lines = []
    for mix in sorted(busy, key=lambda m: -(1 - m.share(Doing.IDLE, Doing.IPC)) * m.samples)[:MIXES]:
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
                f"GPU {card.index} ({card.name}): some kernel ran {percent(card.occupancy)} of the time "
                "(time occupancy, which says nothing of how much it did)."
            )
        if card.node is not None and view.nodes and card.node not in view.nodes:
            nodes = ", ".join(view.nodes)
            lines.append(
                f"The engine may run on NUMA node {nodes} only; GPU {card.index} is on node {card.node}."
            )
    return lines


def _rest(view: HostView) -> str:
    if view.retransmits is not None and view.retransmits >= RETRANSMITS:
        return f"{percent(view.retransmits)} of the TCP segments of the engine's network were sent again."
    return ""
