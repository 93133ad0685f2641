"""What the host says of disks on the path: the engine reads from them, and waits."""

from __future__ import annotations

from kvdoctor.case import Case
from kvdoctor.hostview import HostView
from kvdoctor.model import Advice, Basis, Bound, Evidence, Finding, Verdict
from kvdoctor.units import gib, percent, rate_bytes

READS = 10e6
"""Bytes per second from devices, below which reading is logs and page-ins: no tier worth the name is slower."""
BLOCKED = 0.25
"""Share of time that the engine waits for disks, from which they are on the path: a quarter, as rule 11 asks."""
FAULTS = 50.0
"""Major faults per second, below which swapping costs under a request in twenty at 1 ms a fault."""
SWAPPED = 64 * 2.0**20
"""Bytes in swap, below which it is what nobody touches."""
_IO = "/proc/PID/io read_bytes"


def evidence(view: HostView) -> tuple[Evidence, ...]:
    """What the disks did, the share of time that the engine waited for them first."""
    told = [
        Evidence("time that the engine waits for disks", view.blocked, "ratio", BLOCKED,
                 "cgroup io.pressure, thread states, stacks"),
        Evidence("the engine reads from devices", view.read, "bytes/s", READS, _IO),
        Evidence("it reads in all, page cache included", view.asked, "bytes/s", None, "/proc/PID/io rchar"),
        Evidence("major faults", view.faults, "1/s", None, "/proc/PID/stat majflt"),
    ]  # fmt: skip
    for disk in view.disks:
        if disk.purposes or disk.read >= READS:
            what = f"{disk.name} ({', '.join(disk.purposes)})" if disk.purposes else disk.name
            told.append(Evidence(f"{what}: reads", disk.read, "bytes/s", None, "/proc/diskstats"))
            told.append(Evidence(f"{what}: busy", disk.busy, "ratio", None, "/proc/diskstats"))
            told.append(
                Evidence(f"{what}: a read takes", disk.read_await, "seconds", None, "/proc/diskstats")
            )
    return tuple(told)


def on_path(case: Case) -> Finding | None:
    """Blame a slow tier when the engine reads from devices and waits for them; None where it does not."""
    view = case.host
    if view is None or view.read is None or view.read < READS:
        return None
    blocked, rate = view.blocked, rate_bytes(view.read)
    if blocked < BLOCKED:
        why = f"The engine reads {rate} from disks and waits for them {percent(blocked)} of the time."
        return Finding(Bound.OFFLOAD, Verdict.POSSIBLE, "slow_tier", why, evidence=evidence(view))
    cost = blocked * case.currency
    why = f"The engine reads {rate} from disks and waits for them {percent(blocked)} of the time."
    advice = (
        Advice(
            "keep weights and KV in memory, read ahead of need and in larger pieces, or use a faster disk",
            f"up to {percent(blocked)} of the time", Basis.UPPER_BOUND, cost or None,
        ),
    )  # fmt: skip
    return Finding(
        Bound.OFFLOAD, Verdict.LIKELY, "slow_tier", why, None, cost, cost or None, evidence(view), (), advice
    )


def swapping(case: Case) -> Finding | None:
    """Blame swap when memory of the engine lies there and is fetched back; None where nothing is known."""
    view = case.host
    if view is None or view.swapped is None or view.faults is None:
        return None
    stall = view.memory_stall or 0.0
    told = (
        Evidence("time that the engine waits for memory", stall, "ratio", None, "cgroup memory.pressure"),
        Evidence("memory of the engine in swap", view.swapped, "bytes", SWAPPED, "/proc/PID/status VmSwap"),
        Evidence("major faults", view.faults, "1/s", FAULTS, "/proc/PID/stat majflt"),
        Evidence("pages that the machine swaps in", view.swap_in, "1/s", FAULTS, "/proc/vmstat pswpin"),
        Evidence("times that a memory limit was reached", view.limit_hits, "", None, "memory.events"),
    )
    used = view.swapped >= SWAPPED and view.faults >= FAULTS and (view.swap_in or 0.0) >= FAULTS
    if not used:
        why = f"{gib(view.swapped)} of the engine lie in swap, and next to nothing is fetched back."
        return Finding(Bound.CAPACITY, Verdict.RULED_OUT, "swap", why, evidence=told)
    cost = stall * case.currency
    why = f"{gib(view.swapped)} of the engine lie in swap and are fetched back page by page."
    advice = (
        Advice("more memory for the engine, or swapoff", "no page faults", Basis.UPPER_BOUND, cost or None),
    )
    verdict = Verdict.LIKELY if stall else Verdict.POSSIBLE
    return Finding(Bound.CAPACITY, verdict, "swap", why, None, cost, cost or None, told, (), advice)
