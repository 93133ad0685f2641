"""The processes that make up one engine, from its front end to its workers, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a family. `pid` and `start_ticks` together name it: a pid alone is reused."""

    pid: int
    """As seen from here."""
    ppid: int
    uid: int
    """Its effective user."""
    role: str
    """`api_server`, `engine_core`, `worker`, `scheduler`, `tokenizer`, `detokenizer`, `coordinator`, `router`,
    `launcher`, `store`, `dynamo_worker`, `program` (a user's own, with an engine inside), `loop` or `helper`."""
    start_ticks: int
    """Clock ticks since boot at which it started."""
    title: str
    """Its process title or masked command line, fit for a report."""
    ns_pid: int = 0
    """Its pid in its own pid namespace; equal to `pid` without one."""
    rank: str = ""
    """What its title says of its place, as `TP0` or `DP0_PP1_TP0`."""


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU of a family."""

    index: int
    """NVML's index; -1 where only the UUID is known."""
    uuid: str = ""
    name: str = ""
    bus_id: str = ""
    """PCI address as `0000:17:00.0`."""


@dataclass(frozen=True, slots=True)
class Cgroup:
    """One cgroup that a member is in."""

    controllers: tuple[str, ...]
    """Empty for the unified hierarchy (v2)."""
    path: str
    """As `/proc/PID/cgroup` gives it."""
    folder: str = ""
    """The folder under /sys/fs/cgroup; empty where it is not visible from here."""


@dataclass(frozen=True, slots=True)
class Mount:
    """The file system that a folder of the engine lies on."""

    purpose: str
    """`model` or `kv`."""
    path: str
    """The folder, as the engine sees it."""
    point: str
    """Where that file system is mounted, as the engine sees it."""
    device: str
    """`major:minor`, as in /sys/dev/block."""
    fstype: str
    source: str = ""
    """A device or a server's export, credentials masked."""


@dataclass(frozen=True, slots=True)
class Family:
    """One engine on this host: all its processes, and where they live."""

    engine: str
    root: int
    """The pid that was started by a person or a supervisor; all others descend from it."""
    members: tuple[Member, ...]
    """The root first, then by pid."""
    cards: tuple[Card, ...] = ()
    cgroups: tuple[Cgroup, ...] = ()
    net_namespace: int | None = None
    """Inode of the root's network namespace; None where it may not be read."""
    mounts: tuple[Mount, ...] = field(default=())

    def member(self, pid: int) -> Member | None:
        """Return a member by pid, None when there is none."""
        return next((member for member in self.members if member.pid == pid), None)

    def of(self, *roles: str) -> tuple[Member, ...]:
        """Return the members that have one of these roles."""
        return tuple(member for member in self.members if member.role in roles)
