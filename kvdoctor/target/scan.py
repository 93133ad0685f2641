"""One pass over the process list: who is an engine, and who descends from whom."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from kvdoctor.errors import Unavailable
from kvdoctor.model import Gap
from kvdoctor.target.fingerprint import Match, recognise
from kvdoctor.target.patience import Patience
from kvdoctor.target.process import Proc, Stat

DEADLINE = 3.0
"""Seconds for one pass. Thousands of processes take a few tenths."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the list."""

    stat: Stat
    argv: tuple[str, ...]
    match: Match | None

    @property
    def pid(self) -> int:
        """Its pid."""
        return self.stat.pid


@dataclass(frozen=True, slots=True)
class Scan:
    """The process list at one moment, kernel threads and ourselves left out."""

    processes: Mapping[int, Process]
    gaps: tuple[Gap, ...] = ()

    def ancestors(self, pid: int) -> tuple[Process, ...]:
        """Return parent, grandparent and so on, as far as they are in the list."""
        found: list[Process] = []
        seen = {pid}
        process = self.processes.get(pid)
        while process is not None and process.stat.ppid not in seen:
            seen.add(process.stat.ppid)
            process = self.processes.get(process.stat.ppid)
            if process is not None:
                found.append(process)
        return tuple(found)


def scan(proc: Proc, patience: Patience, *, own_pid: int, deadline_s: float = DEADLINE) -> Scan:
    """Read the process list. What vanishes on the way is left out, what hangs is left out with a gap."""
    found: dict[int, Process] = {}
    stuck: list[int] = []
    late = time.monotonic() + deadline_s
    pids = proc.pids()
    for number, pid in enumerate(pids):
        if time.monotonic() > late:
            return Scan(found, (*_stuck(stuck), _unread(len(pids) - number, deadline_s)))
        stat = proc.stat(pid)
        if stat is None or stat.is_kernel_thread or stat.state in ("Z", "X") or pid == own_pid:
            continue
        try:
            argv = patience.call(lambda pid=pid: proc.argv(pid))  # type: ignore[misc]
        except Unavailable:
            stuck.append(pid)
            continue
        if proc.is_same(pid, stat.start_ticks):
            found[pid] = Process(stat, argv, recognise(argv))
    return Scan(found, _stuck(stuck))


def _stuck(pids: list[int]) -> tuple[Gap, ...]:
    if not pids:
        return ()
    named = ", ".join(str(pid) for pid in pids[:10])
    reason = f"the command line of {len(pids)} processes could not be read in time: {named}"
    return (Gap("processes", reason, "something holds their memory map; look for state D in ps"),)


def _unread(count: int, seconds: float) -> Gap:
    return Gap(
        "processes", f"{count} processes were not looked at within {seconds:g} s", "name one: --pid PID"
    )
