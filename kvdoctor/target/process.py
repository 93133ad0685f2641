"""Reads /proc, and of it only files that cost the process nothing; every read may fail and has a limit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

KERNEL_THREAD = 0x00200000
"""PF_KTHREAD of the kernel's include/linux/sched.h, in the flags of `stat`."""

LIMITS = {
    "stat": 4096,
    "status": 16384,
    "comm": 64,
    "cmdline": 65536,
    "environ": 131072,
    "cgroup": 16384,
    "mountinfo": 2**20,
    "net/tcp": 2**22,
    "net/tcp6": 2**22,
}
"""The files that may be read, with the most bytes taken of each.

What walks a process's memory map is not among them: maps, map_files, smaps, smaps_rollup, numa_maps, pagemap.
"""

MOST_ENTRIES = 65536
"""Open files or threads of one process that are looked at."""


@dataclass(frozen=True, slots=True)
class Stat:
    """What `stat` says of one process."""

    pid: int
    ppid: int
    comm: str
    state: str
    flags: int
    cpu_ticks: int
    """User and system time of all its threads."""
    threads: int
    start_ticks: int

    @property
    def is_kernel_thread(self) -> bool:
        """Say whether it has no program of its own."""
        return bool(self.flags & KERNEL_THREAD)


@dataclass(frozen=True, slots=True)
class Ids:
    """What `status` says of the user and the pids of one process."""

    uid: int
    gid: int
    groups: frozenset[int]
    ns_pids: tuple[int, ...]
    """Its pid here first, its pid in its innermost namespace last."""
    capabilities: int
    """CapEff as a bit set."""


class Proc:
    """A /proc tree. Absent and forbidden files read as None: a process may vanish between two reads."""

    def __init__(self, root: str | Path = "/proc") -> None:
        self.root = Path(root)

    def pids(self) -> tuple[int, ...]:
        """Return all pids, ascending."""
        try:
            names = os.listdir(self.root)
        except OSError:
            return ()
        return tuple(sorted(int(name) for name in names if name.isascii() and name.isdigit()))

    def read(self, pid: int | str, name: str) -> bytes | None:
        """Return a file of a process, cut at its limit; ValueError for a file that must not be read."""
        if name not in LIMITS:
            raise ValueError(f"/proc/PID/{name} is not on the list of files that may be read")
        return _read(self.root / str(pid) / name, LIMITS[name])

    def setting(self, name: str) -> str | None:
        """Return a kernel setting under /proc/sys, for example `kernel/yama/ptrace_scope`."""
        text = _read(self.root / "sys" / name, 4096)
        return text.decode("utf-8", "replace").strip() if text is not None else None

    def text(self, name: str) -> str | None:
        """Return a short file beside the processes, for example `uptime`."""
        found = _read(self.root / name, 65536)
        return found.decode("utf-8", "replace") if found is not None else None

    def stat(self, pid: int | str) -> Stat | None:
        """Return a process's `stat`, None when it is gone."""
        return parse_stat(self.read(pid, "stat") or b"")

    def ids(self, pid: int | str) -> Ids | None:
        """Return a process's user and pids, None when it is gone."""
        return _parse_ids(self.read(pid, "status") or b"")

    def argv(self, pid: int | str) -> tuple[str, ...]:
        """Return its command line, or the title it has given itself; empty when there is none."""
        raw = (self.read(pid, "cmdline") or b"").rstrip(b"\0 \n")
        return tuple(word.decode("utf-8", "replace") for word in raw.split(b"\0")) if raw else ()

    def is_same(self, pid: int, start_ticks: int) -> bool:
        """Say whether this pid still is the process that started at that time."""
        stat = self.stat(pid)
        return stat is not None and stat.start_ticks == start_ticks and stat.state not in ("Z", "X")

    def link(self, pid: int | str, name: str) -> str | None:
        """Return where `exe`, `cwd`, `root` or a namespace points to, None when it may not be read."""
        try:
            return os.readlink(self.root / str(pid) / name)
        except OSError:
            return None

    def namespace(self, pid: int | str, kind: str) -> int | None:
        """Return the inode of its namespace of a kind: `pid`, `net`, `mnt`, `user`; None when unreadable."""
        number = (self.link(pid, f"ns/{kind}") or "").partition("[")[2].rstrip("]")
        return int(number) if number.isdigit() else None

    def may_look(self, pid: int) -> bool:
        """Say whether its open files, its environment and its root may be read from here."""
        try:
            with os.scandir(self.root / str(pid) / "fd"):
                return True
        except OSError:
            return False

    def open_files(self, pid: int) -> Iterator[str]:
        """Yield where its file descriptors point to; nothing when they may not be read."""
        for name in _names(self.root / str(pid) / "fd"):
            target = self.link(pid, f"fd/{name}")
            if target is not None:
                yield target

    def thread_names(self, pid: int) -> Iterator[str]:
        """Yield the names of its threads. Anybody may read them."""
        for name in _names(self.root / str(pid) / "task"):
            raw = _read(self.root / str(pid) / "task" / name / "comm", LIMITS["comm"])
            if raw:
                yield raw.decode("utf-8", "replace").rstrip("\n")


def _names(folder: Path) -> tuple[str, ...]:
    try:
        with os.scandir(folder) as entries:
            return tuple(entry.name for entry in islice(entries, MOST_ENTRIES))
    except OSError:
        return ()


def _read(path: Path, limit: int) -> bytes | None:
    try:
        with open(path, "rb", buffering=0) as file:
            pieces, size = [], 0
            while size < limit and (piece := file.read(limit - size)):
                pieces.append(piece)
                size += len(piece)
    except OSError:
        return None
    return b"".join(pieces)


def parse_stat(raw: bytes) -> Stat | None:
    """Take `stat` apart; the name stands in parentheses and may hold any character, these too."""
    head, _, tail = raw.rpartition(b")")
    number, _, comm = head.partition(b"(")
    fields = tail.split()
    if len(fields) < 20:
        return None
    try:
        return Stat(
            pid=int(number),
            ppid=int(fields[1]),
            comm=comm.decode("utf-8", "replace"),
            state=fields[0].decode("ascii", "replace"),
            flags=int(fields[6]),
            cpu_ticks=int(fields[11]) + int(fields[12]),
            threads=int(fields[17]),
            start_ticks=int(fields[19]),
        )
    except ValueError:
        return None


def _parse_ids(raw: bytes) -> Ids | None:
    lines = dict(line.split(":", 1) for line in raw.decode("utf-8", "replace").splitlines() if ":" in line)
    try:
        return Ids(
            uid=int(lines["Uid"].split()[1]),
            gid=int(lines["Gid"].split()[1]),
            groups=frozenset(int(group) for group in lines.get("Groups", "").split()),
            ns_pids=tuple(int(pid) for pid in lines.get("NSpid", lines["Pid"]).split()),
            capabilities=int(lines.get("CapEff", "0").strip() or "0", 16),
        )
    except (KeyError, IndexError, ValueError):
        return None
