"""What the host tells of one family in one window, as numbers that a cause can read."""

from __future__ import annotations

from dataclasses import dataclass

from kvdoctor.cardview import Activity as Activity
from kvdoctor.cardview import CardView as CardView
from kvdoctor.cardview import Foreign as Foreign
from kvdoctor.model import Gap
from kvdoctor.stackclass import Doing

MIN_SAMPLES = 8
"""Stack samples of a thread from which its mix says something (rule 11)."""


@dataclass(frozen=True, slots=True)
class Thread:
    """Threads of one name in one process; rates are means over the window."""

    pid: int
    role: str
    name: str
    cpus: float
    """CPUs kept busy."""
    waiting: float
    """CPUs that were wanted and not given: ready to run, and waiting."""
    voluntary: float
    """Switches per second by going to sleep."""
    involuntary: float
    """Switches per second by losing the CPU."""
    blocked: float
    """Share of its state samples in which it waited for a disk (state D)."""

    @property
    def wait_share(self) -> float:
        """Share of its time on or ready for a CPU that it waited for one."""
        wanted = self.cpus + self.waiting
        return self.waiting / wanted if wanted else 0.0


@dataclass(frozen=True, slots=True)
class StackMix:
    """What a thread was doing, by its stack samples in the window."""

    pid: int
    role: str
    thread: str
    samples: int
    counts: tuple[tuple[Doing, int], ...]
    """Most frequent first."""

    def share(self, *doing: Doing) -> float:
        """Share of all samples, idle ones included, that were one of these."""
        return (
            sum(count for each, count in self.counts if each in doing) / self.samples if self.samples else 0.0
        )


@dataclass(frozen=True, slots=True)
class Quota:
    """A cgroup with a CPU quota."""

    cgroup: str
    cpus: float | None
    throttled_periods: float
    """Share of its periods in which it ran out of quota."""
    throttled: float
    """Seconds per second that it stood still, summed over the CPUs that did."""

    @property
    def lost(self) -> float:
        """Share of wall time lost, at most: standing still on several CPUs at once counts several times."""
        return min(self.throttled_periods, self.throttled, 1.0)


@dataclass(frozen=True, slots=True)
class Disk:
    """One disk in the window."""

    name: str
    purposes: tuple[str, ...]
    """What the engine keeps on it: `model`, `kv`; empty when nothing that we know of."""
    read: float
    """Bytes per second."""
    written: float
    busy: float
    """Share of time with any request at the disk."""
    read_await: float | None
    """Mean seconds of a read; None without reads."""


@dataclass(frozen=True, slots=True)
class Interface:
    """One network interface or InfiniBand port."""

    name: str
    received: float
    """Bytes per second."""
    sent: float
    speed: float | None
    """Bytes per second each way; None where it is not told."""


@dataclass(frozen=True, slots=True)
class HostView:
    """Everything of the host. Rates are per second over the window; None where nothing was read."""

    root: int
    engine: str
    seconds: float
    roles: tuple[tuple[int, str], ...]
    """(pid, role) of the family's processes."""
    ended: tuple[tuple[int, str], ...] = ()
    """(pid, role) of those that died in the window and were not replaced."""
    threads: tuple[Thread, ...] = ()
    stacks: tuple[StackMix, ...] = ()
    quotas: tuple[Quota, ...] = ()
    disks: tuple[Disk, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    cards: tuple[CardView, ...] = ()
    read: float | None = None
    """Bytes per second that the family read from devices."""
    asked: float | None = None
    """Bytes per second that it read at all, page cache and sockets included."""
    faults: float | None = None
    """Major faults per second."""
    resident: float | None = None
    swapped: float | None = None
    """Bytes of the family in swap at the end."""
    swap_in: float | None = None
    """Pages per second that the machine swapped in."""
    cpus: float | None = None
    """CPUs that the family may run on."""
    others: float | None = None
    """CPUs of those that somebody else kept busy."""
    steal: float | None = None
    """CPUs that the hypervisor took away."""
    io_stall: float | None = None
    """Share of time in which tasks of the family's own cgroup waited for a disk."""
    memory_stall: float | None = None
    retransmits: float | None = None
    """Share of TCP segments that were sent again."""
    limit_hits: float | None = None
    """Times in the window that a memory limit was reached."""
    nodes: tuple[str, ...] = ()
    """NUMA nodes that the family may run on."""
    started: tuple[float, ...] = ()
    """Unix seconds at which its processes started, the root first; empty where /proc did not tell."""
    gaps: tuple[Gap, ...] = ()

    @property
    def sampled(self) -> bool:
        """Say whether any thread has stack samples enough to judge by."""
        return any(mix.samples >= MIN_SAMPLES for mix in self.stacks)

    def mix(self, *roles: str) -> tuple[StackMix, ...]:
        """Return the mixes of threads of these roles with samples enough, most samples first."""
        found = [m for m in self.stacks if m.role in roles and m.samples >= MIN_SAMPLES]
        return tuple(sorted(found, key=lambda m: -m.samples))

    @property
    def blocked(self) -> float:
        """Share of time for which the family waited for disks: by its cgroup's pressure, else by the busiest
        thread's samples in state D or in file frames."""
        stall = self.io_stall or 0.0
        states = max((t.blocked for t in self.threads if t.name == "main"), default=0.0)
        frames = max((m.share(Doing.DISK) for m in self.stacks if m.samples >= MIN_SAMPLES), default=0.0)
        return max(stall, states, frames)

    @property
    def idle_sms(self) -> float | None:
        """Share of time for which no kernel ran, on the least idle card of the family; None without a card."""
        known = [card.occupancy for card in self.cards if card.occupancy is not None]
        return 1.0 - max(known) if known else None
