"""Whether the KV tier is being written: by the disk's own counters, else by the service's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kvdoctor.errors import Unavailable
from kvdoctor.probes.filesystem import file_system
from kvdoctor.units import rate_bytes

LOOK_S = 1.0
HEAVY_BYTES_PER_S = 64e6
"""Writes from which a probe is refused: its own file of 64 MiB would double those of a second."""
HEAVY_UNDER_WAY = 1.0
"""Or writes that wait at the disk in the mean: from one on there is always one, whatever the disk's speed."""
_SECTOR = 512
"""Bytes that /proc/diskstats counts in, whatever the disk's own sectors are."""


@dataclass(frozen=True, slots=True)
class Writes:
    """Counters at one moment."""

    bytes: float
    """Written since the start."""
    waited_s: float = 0.0
    """Seconds of all writes together; 0 where only the processes tell."""


def busy_disk(
    folder: str,
    pids: frozenset[int],
    proc: str = "/proc",
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Look for a second; raise Unavailable where the disk under a folder, or the service, writes much.

    A file system without a disk of its own (NFS, btrfs) is told of by what the service's processes write.
    """
    device = file_system(os.path.realpath(folder)).device
    at, before = clock(), _writes(device, pids, proc)
    if before is None:
        return
    sleep(LOOK_S)
    elapsed, after = clock() - at, _writes(device, pids, proc)
    if after is None or elapsed <= 0:
        return
    rate = (after.bytes - before.bytes) / elapsed
    waiting = (after.waited_s - before.waited_s) / elapsed
    if rate < HEAVY_BYTES_PER_S and waiting < HEAVY_UNDER_WAY:
        return
    told = f"{rate_bytes(rate)} were written in a look of {LOOK_S:g} s"
    if waiting >= HEAVY_UNDER_WAY:
        told += f", {waiting:.1f} writes under way in the mean"
    raise Unavailable(
        f"the disk under {folder} is under heavy write: {told}",
        "probe when the KV tier has been written, or --force",
    )


def _writes(device: str, pids: frozenset[int], proc: str) -> Writes | None:
    """Return what was written so far; None where nobody tells."""
    for line in _text(Path(proc, "diskstats")).splitlines():
        fields = line.split()
        if len(fields) > 10 and f"{fields[0]}:{fields[1]}" == device:
            return Writes(int(fields[9]) * _SECTOR, int(fields[10]) / 1e3)
    found = [
        int(line.split()[1])
        for pid in pids
        for line in _text(Path(proc, str(pid), "io")).splitlines()
        if line.startswith("write_bytes:")
    ]
    return Writes(sum(found)) if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
