"""Python processes that compute without being a known engine: a torch or transformers loop of somebody's own.

Which libraries a process has loaded stands only in its memory map, which is not read. The signs taken instead:
names that torch gives threads, GPU files that only a compute context opens, NVML's list; and, as a mere hint, a
busy interpreter whose packages include torch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kvdoctor.errors import Unavailable
from kvdoctor.target.environment import environment
from kvdoctor.target.gpu import Devices, minors
from kvdoctor.target.installed import package_folders, prefixes, release
from kvdoctor.target.own import is_own
from kvdoctor.target.patience import Patience
from kvdoctor.target.process import Proc
from kvdoctor.target.rooted import View
from kvdoctor.target.scan import Process, Scan
from kvdoctor.target.sign import LAUNCHERS, serving_sign
from kvdoctor.target.words import command

BUSY = 0.2
"""Cores from which a process is taken to burn CPU; a loop that shares two cores with six others was seen at 0.3."""
SAMPLE = 0.25
"""Seconds over which that is measured: 25 of the kernel's clock ticks."""
MOST = 64
"""Python processes that are looked at, the busiest of their lives first."""
_THREADS = ("pt_", "cuda-EvtHandlr", "gloo_")


@dataclass(frozen=True, slots=True)
class Loop:
    """One such process."""

    pid: int
    sign: str
    """What speaks for it, in words."""
    is_sure: bool
    """False where it only could use torch."""
    serving: str = ""
    """What shows that it serves requests, in words; empty where nothing does: training, a notebook, a script."""


@dataclass(frozen=True, slots=True)
class _Seen:
    process: Process
    cores: float
    on_gpu: bool


def loops(
    proc: Proc,
    scan: Scan,
    seen: Devices,
    patience: Patience,
    *,
    taken: Iterable[int],
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Loop, ...]:
    """Return the loops among the processes that belong to no engine (`taken`), a launcher for its ranks.

    This program's own processes are none, its probes and the demo's helpers included.
    """
    known = set(taken)
    candidates = [p for p in scan.processes.values() if p.pid not in known and is_python(p)]
    candidates = [p for p in candidates if not is_own(scan, p)]
    candidates = sorted(candidates, key=lambda p: -p.stat.cpu_ticks)[:MOST]
    if not candidates:
        return ()
    found: dict[int, Loop] = {}
    for one in _watched(proc, candidates, seen, sleep):
        loop = _judged(proc, one, patience)
        if loop is not None:
            root = _launcher(scan, one.process)
            serving = serving_sign(proc, scan, scan.processes[root])
            found.setdefault(root, Loop(root, loop.sign, loop.is_sure, serving))
    return tuple(loop for pid, loop in sorted(found.items()) if not _below(scan, pid, found))


def is_python(process: Process) -> bool:
    """Say whether a process is a Python interpreter at work."""
    words = command(process.argv)
    return process.stat.comm.startswith("python") or (words is not None and bool(words.python))


def _watched(
    proc: Proc, candidates: list[Process], seen: Devices, sleep: Callable[[float], None]
) -> tuple[_Seen, ...]:
    sleep(SAMPLE)
    computing = {pid for device in seen.devices for pid in device.pids}
    watched = []
    for process in candidates:
        now = proc.stat(process.pid)
        if now is None or now.start_ticks != process.stat.start_ticks:
            continue
        cores = (now.cpu_ticks - process.stat.cpu_ticks) / _ticks_per_s() / SAMPLE
        opened = minors(proc, process.pid)
        on_gpu = -1 in opened or (process.pid in computing and bool(opened))
        if on_gpu or cores >= BUSY:
            watched.append(_Seen(process, cores, on_gpu))
    return tuple(watched)


def _ticks_per_s() -> int:
    return os.sysconf("SC_CLK_TCK")


def _judged(proc: Proc, one: _Seen, patience: Patience) -> Loop | None:
    pid, busy = one.process.pid, f"it uses {one.cores:.1f} cores"
    thread = next((name for name in proc.thread_names(pid) if name.startswith(_THREADS)), "")
    if one.on_gpu:
        return Loop(pid, "Python with a compute context on a GPU", True)
    if thread:
        return Loop(pid, f"a thread called {thread}, and {busy}", True)
    try:
        version = patience.call(lambda: _torch(proc, one.process))
    except Unavailable:
        version = None
    return Loop(pid, f"its Python has torch {version}, and {busy}", False) if version else None


def _torch(proc: Proc, process: Process) -> str | None:
    """Return the release of torch that lies in a process's Python, None without."""
    ids, exe = proc.ids(process.pid), proc.link(process.pid, "exe") or ""
    if ids is None or not proc.may_look(process.pid):
        return None
    view = View(str(proc.root / str(process.pid) / "root"), ids)
    where = prefixes(command(process.argv), environment(proc, process.pid), exe)
    return release(view, package_folders(view, where), "torch")


def _launcher(scan: Scan, process: Process) -> int:
    """Return the pid of the launcher above a rank, its own where there is none."""
    for above in scan.ancestors(process.pid):
        words = command(above.argv)
        if words is not None and words.program in LAUNCHERS:
            return above.pid
    return process.pid


def _below(scan: Scan, pid: int, found: dict[int, Loop]) -> bool:
    return any(above.pid in found for above in scan.ancestors(pid))
