"""Xid errors that stand in the kernel's log: what a card went through before we came."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

HOUR_S = 3600.0
"""Age up to which an Xid speaks against using the card."""
_RECORD, _MOST = 8192, 100_000
"""Bytes of a record at most, as /dev/kmsg gives them one a read; records of the ring that are looked at."""
_XID = re.compile(r"Xid \(PCI:([0-9a-fA-F]+):([0-9a-fA-F]{2}:[0-9a-fA-F]{2})[^)]*\): (\d+)")


def recent_xids(
    bus: str, log: Path, *, now: float | None = None, within_s: float = HOUR_S
) -> tuple[int, ...]:
    """Return the Xids of the card at a PCI address, each once; none where the log may not be read.

    `now` is in seconds since boot, as the records count them.
    """
    at = time.monotonic() if now is None else now
    found: list[int] = []
    for record in _records(log):
        head, _, text = record.partition(";")
        match, fields = _XID.search(text), head.split(",")
        if match is None or len(fields) < 3 or not fields[2].isdigit():
            continue
        is_recent = at - int(fields[2]) / 1e6 <= within_s
        if is_recent and _same(bus, match[1], match[2]) and int(match[3]) not in found:
            found.append(int(match[3]))
    return tuple(found)


def _same(bus: str, domain: str, place: str) -> bool:
    """Compare NVML's `00000000:17:00.0` with the log's `0000` and `17:00`."""
    first, _, rest = bus.lower().partition(":")
    return bool(rest) and int(first or "0", 16) == int(domain, 16) and rest.startswith(place.lower())


def _records(log: Path) -> Iterator[str]:
    """Yield what is in the ring now, without waiting for more."""
    try:
        fd = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for _ in range(_MOST):
            try:
                record = os.read(fd, _RECORD)
            except BrokenPipeError:  # this record was written over meanwhile: the next read goes on
                continue
            except OSError:
                return
            if not record:
                return
            yield from record.decode("utf-8", "replace").splitlines()
    finally:
        os.close(fd)
