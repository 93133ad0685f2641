"""What forbids a probe beside a service, card aside: a profiler that is attached, a KV tier that is being written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kvdoctor.commands.probe_writes import busy_disk
from kvdoctor.errors import Unavailable

TRACERS = frozenset({"py-spy", "austin", "memray", "perf", "strace", "ltrace", "gdb", "lldb"})
"""Programs that slow a process down which they name, or which they started."""
CARD_PROFILERS = frozenset({"nsys", "nsys-launcher", "ncu", "rocprof", "rocprofv2", "rocprofv3"})
"""Programs that hold the counters of a card, and make its kernels run one by one."""
INJECTED = (b"CUDA_INJECTION64_PATH=", b"NVTX_INJECTION64_PATH=")
"""Variables by which Nsight puts its library into a process."""
MPS = "nvidia-cuda-mps"
"""The first 15 letters of its control and of its server: the kernel keeps no more."""
_PROFILING_FIELD = re.compile(r"\b10[0-9]{2}\b")
"""DCGM numbers its profiling fields from 1001 on."""
_CURE = "end it first, or --force"


@dataclass(frozen=True, slots=True)
class Process:
    """A process as /proc shows it; without words where it is closed to us."""

    pid: int
    name: str
    parent: int
    words: tuple[str, ...]


def forbidden(name: str, folder: str, pids: frozenset[int], *, card: bool, proc: str = "/proc") -> None:
    """Raise Unavailable for the first reason against a probe; nothing where none is seen.

    `pids` are the service's, `card` says whether the probe takes one, `folder` is what nvme writes to.
    """
    for reason in (*_traced(pids, proc), *_injected(pids, proc), *_profilers(pids, card, proc)):
        raise Unavailable(reason, _CURE)
    if name == "nvme" and pids:
        busy_disk(folder, pids, proc)


def _traced(pids: frozenset[int], proc: str) -> Iterator[str]:
    """Yield a sentence for each process whose thread somebody traces at this moment."""
    for pid in sorted(pids):
        for status in Path(proc, str(pid), "task").glob("*/status"):
            found = re.search(rb"^TracerPid:\s*([1-9]\d*)", _bytes(status), re.MULTILINE)
            if found:
                who = _process(Path(proc, found[1].decode()))
                name = who.name if who is not None else "a process of another namespace"
                yield f"process {pid} is traced by {name} (pid {found[1].decode()}), which holds it up"
                break


def _injected(pids: frozenset[int], proc: str) -> Iterator[str]:
    """Yield a sentence for each process that a profiler of cards has put its library into."""
    for pid in sorted(pids):
        if any(word.startswith(INJECTED) for word in _bytes(Path(proc, str(pid), "environ")).split(b"\0")):
            yield f"process {pid} was started under a profiler of CUDA: it records every kernel"


def _profilers(pids: frozenset[int], card: bool, proc: str) -> Iterator[str]:
    """Yield a sentence for each program that profiles the service, or a card where the probe takes one."""
    seen = {one.pid: one for one in map(_process, Path(proc).glob("[0-9]*")) if one is not None}
    started = {above for pid in pids for above in _above(pid, seen)}
    for one in seen.values():
        named = {int(number) for word in one.words[1:] for number in re.findall(r"\d+", word)}
        ours = one.pid in started or bool(named & pids)
        if one.name in TRACERS | CARD_PROFILERS and ours:
            yield f"{one.name} (pid {one.pid}) profiles the service"
        elif card and one.name in CARD_PROFILERS:
            yield f"{one.name} (pid {one.pid}) profiles a card of this machine"
        elif card and one.name == "dcgmi" and any(map(_PROFILING_FIELD.search, one.words[1:])):
            yield f"dcgmi (pid {one.pid}) reads profiling counters, which one program at a time can"
        elif card and one.name == MPS:
            yield f"an MPS daemon runs (pid {one.pid}): a fault of ours could take its other clients down"


def _above(pid: int, seen: dict[int, Process]) -> Iterator[int]:
    """Yield the processes that a process comes from."""
    for _ in range(len(seen)):
        one = seen.get(pid)
        if one is None:
            return
        yield (pid := one.parent)


def _process(folder: Path) -> Process | None:
    """Read a process; None for one that is gone."""
    name, _, rest = _bytes(folder / "stat").decode("utf-8", "replace").rpartition(")")
    fields = rest.split()
    if len(fields) < 2 or not fields[1].isdigit():
        return None
    words = _bytes(folder / "cmdline").decode("utf-8", "replace").split("\0")
    return Process(int(folder.name), name.partition("(")[2], int(fields[1]), tuple(words))


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
