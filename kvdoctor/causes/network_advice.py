"""What to do about KV that arrives late, by the way in which it is late: a faster link cures only one of them."""

from __future__ import annotations

from dataclasses import dataclass

from kvdoctor.model import Advice, Basis
from kvdoctor.units import GB, duration, gib

FAST_LINK = 12.5 * GB
"""Bytes/s of 100 Gbit/s, what one RDMA port of a serving host commonly has."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What a request waits for, in seconds and bytes of one transfer."""

    seconds: float
    transfer: float
    """Seconds that the transfer itself takes by its own clock; 0 where that is not told."""
    size: float
    wire: float | None
    """Seconds of the bytes at the link's rate, where that is known."""
    again: float | None
    """Seconds of computing the same tokens on this engine, where its prefill was seen."""


def advise(name: str, wait: Wait, *, pieces: bool, tcp: bool) -> tuple[Advice, ...]:
    """Return the cures of a subclass, with what each could buy."""
    cure = {"slow_link": _faster, "handover": _sooner}.get(name)
    first = cure(wait) if cure else _better(wait, pieces=pieces, tcp=tcp)
    return (first, _compute(wait))


def _faster(wait: Wait) -> Advice:
    then = wait.size / FAST_LINK
    gain = max(0.0, (wait.wire or wait.seconds) - then)
    return Advice(
        "a faster link between the two (RDMA, the same host or rack), or less KV over it: fp8 KV, "
        "and loads that start while the request still waits",
        f"{duration(gain)} of TTFT at 100 Gbit/s, where {gib(wait.size)} take {duration(then)}",
        Basis.MODELLED,
        gain,
    )


def _sooner(wait: Wait) -> Advice:
    gain = max(0.0, wait.seconds - wait.transfer)
    return Advice(
        "find what the request waits for beside the transfer: how its end is told (polling interval, "
        "notifications), the handshake, a queue on the sending side. A faster link would not help",
        f"up to {duration(gain)} of TTFT; a link without any delay would save {duration(wait.transfer)}",
        Basis.UPPER_BOUND,
        gain,
    )


def _better(wait: Wait, *, pieces: bool, tcp: bool) -> Advice:
    gain = max(0.0, wait.seconds - (wait.wire or wait.size / FAST_LINK))
    ways = ["larger pieces (larger blocks, a layout with whole blocks in one run)"] if pieces else []
    ways += ["RDMA in place of TCP"] if tcp else []
    ways += ["more transfers in flight at once", "layers sent while prefill still runs"]
    held = "the link as it is" if wait.wire is not None else "100 Gbit/s"
    return Advice(
        f"use the link better: {', '.join(ways)}",
        f"up to {duration(gain)} of TTFT, against {held}",
        Basis.UPPER_BOUND,
        gain,
    )


def _compute(wait: Wait) -> Advice:
    """Recompute; a figure only where it is a gain, since prefill of a few tokens tells little of that of many."""
    if wait.again is None or wait.again >= wait.seconds:
        return Advice(
            "compute the same tokens on this engine instead, if its prefill takes less than the wait",
            "the whole wait, for the price of prefill beside decode",
            Basis.UPPER_BOUND,
        )
    return Advice(
        "compute the same tokens on this engine instead",
        f"{duration(wait.seconds)} of waiting against {duration(wait.again)} of prefill",
        Basis.MODELLED,
        wait.seconds - wait.again,
    )
