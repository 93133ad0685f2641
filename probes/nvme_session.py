"""One file on the disk in question, and everything that is measured on it."""

from __future__ import annotations

import hashlib
import mmap
import os
import statistics
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.probes import disk, filesystem
from kvdoctor.probes.blockio import File, Transfer, shuffled
from kvdoctor.probes.child import Tell
from kvdoctor.probes.timing import ALONE, BURST_S, Ceiling, Pace, Row

MIB = 2**20
LEAST_SIZE = 64 * MIB
REPEATS = 3
"""Readings of one operation, a third of its time each."""
OPERATION_S = 0.9
NOT_BESIDE = {
    "source": "random writes and the page cache",
    "reason": "beside a service nothing is written over, and no cache is filled",
    "cure": ALONE,
}
SMALL = 65536
"""Bytes below which what Python takes for a request counts: the rate is then a lower bound."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    blocks: tuple[int, ...]
    """Bytes, whole pages."""
    depths: tuple[int, ...]
    shared: bool
    """Somebody else uses this disk."""


class Session:
    """One file and everything that is measured on it."""

    def __init__(self, folder: str, fd: int, size: int, direct: bool, plan: Plan, tell: Tell) -> None:
        """Take a new file that is open at `fd`, past the page cache where it is `direct`."""
        self.fd, self.size, self.direct, self.plan, self.tell = fd, size, direct, plan, tell
        self.folder, self.pace = folder, Pace(plan.shared)
        number = int.from_bytes(os.urandom(7), "big")
        self.file = File(fd, size, number, os.urandom(max(plan.blocks)))
        self.ceiling = Ceiling(None, "")
        self.rows: list[Row] = []
        self.path = "O_DIRECT" if direct else "page cache, emptied of the file before each reading"

    def result(self, kind: filesystem.FileSystem, how: str) -> dict[str, Any]:
        """Measure everything and return the JSON object."""
        self.ceiling = disk.ceiling(kind.device)
        self.path = "memory" if kind.is_memory else self.path
        self._fill()
        steps = [(block, depth) for block in self.plan.blocks for depth in self.plan.depths]
        for done, (block, depth) in enumerate(steps):
            self.tell(f"reading {block // 1024} KiB blocks, {depth} under way", 0.1 + 0.7 * done / len(steps))
            self._row("random read", block, depth)
        for block in self.plan.blocks:
            self._row("sequential read", block, 1)
        if not self.plan.shared:
            self.tell("writing over", 0.85)
            self._write_over()
            self.tell("the page cache's share", 0.95)
            self._page_cache()
        return {
            "probe": "nvme",
            "measures": kind.says or f"{kind.kind} on a local disk",
            "device": self.folder,
            "rows": [row.as_dict() for row in self.rows],
            "conditions": {
                "file_system": kind.kind,
                "mount": kind.mount,
                "disk": disk.device(kind.device),
                "file": how,
                "file_bytes": self.size,
                "path": self.path,
                "says": kind.says,
                **self.pace.about(),
                "ceiling_bytes_per_s": self.ceiling.bytes_per_s,
                "ceiling_basis": self.ceiling.basis,
            },
            "gaps": [NOT_BESIDE] if self.plan.shared else [],
        }

    def _fill(self) -> None:
        """Write the file and see that its bytes are really there."""
        self.tell("writing real data", 0.0)
        try:
            done = self.file.fill(MIB, self.pace)
        except OSError as error:
            raise _cannot_write(self.folder, error) from error
        written = filesystem.written_bytes(self.fd, self.size)
        if written < self.size:
            raise Unavailable(
                f"only {written} of {self.size} bytes are on the disk: the file is sparse or preallocated",
                "--path of another file system",
            )
        self._add("sequential write", MIB, 1, [done])

    def _row(self, op: str, block: int, depth: int) -> None:
        """Read blocks in order or in an order of chance, several times."""
        parts = []
        for repeat in range(REPEATS):
            order = (
                shuffled(self.size, block, repeat) if op.startswith("random") else _in_order(self.size, block)
            )
            self._forget()
            parts.append(self.file.read(order, block, depth, self._limit()))
            self.pace.rest(parts[-1].seconds)
        self._add(op, block, depth, parts)

    def _limit(self) -> float:
        """Return the seconds of one reading."""
        return BURST_S if self.plan.shared else OPERATION_S / REPEATS

    def _write_over(self) -> None:
        """Write each block once more, in an order of chance: a third of the file a repeat, so never more than it."""
        order = shuffled(self.size, MIB, 7)
        share = len(order) // REPEATS
        depth = min(4, max(self.plan.depths))
        try:
            parts = [
                self.file.write(order[at * share : (at + 1) * share], MIB, depth, OPERATION_S)
                for at in range(REPEATS)
            ]
        except OSError as error:
            raise _cannot_write(self.folder, error) from error
        self._add("random write", MIB, depth, parts)

    def _page_cache(self) -> None:
        """Read a part through the page cache twice: from the disk, then from memory. Verify the bytes by the way."""
        with closing(_Buffered(self.fd)) as opened:
            buffered = File(opened.fd, self.size, self.file.number, bytes(MIB))
            part = _in_order(min(self.size, LEAST_SIZE), MIB)
            os.posix_fadvise(opened.fd, 0, 0, os.POSIX_FADV_DONTNEED)
            first = buffered.read(part, MIB, 1, 2 * OPERATION_S)
            before = _digest(opened.fd, first.bytes)
            again = buffered.read(part[: first.bytes // MIB], MIB, 1, 2 * OPERATION_S)
            os.posix_fadvise(opened.fd, 0, 0, os.POSIX_FADV_DONTNEED)
            if _digest(self.fd, first.bytes) != before:
                raise KvdoctorError("the disk holds other bytes than the page cache", "check this disk")
        self._add("sequential read", MIB, 1, [first], path="page cache, first reading")
        self._add("sequential read", MIB, 1, [again], path="page cache, second reading: memory")

    def _forget(self) -> None:
        """Drop this file, and nothing else, from the page cache where reads go through it."""
        if not self.direct:
            os.fsync(self.fd)
            os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def _add(self, op: str, block: int, depth: int, parts: Sequence[Transfer], *, path: str = "") -> None:
        """Keep a row; a rate above the drive's link is a mistake, unless it is the page cache's."""
        rates = tuple(part.bytes / part.seconds for part in parts if part.bytes)
        if not rates:
            raise KvdoctorError(
                f"no block of {block} bytes came within {OPERATION_S:.1f} s", "is this disk stuck?"
            )
        rate = statistics.median(rates)
        if self.direct and not path:
            self.ceiling.check(op, rate)
        each = tuple(seconds for part in parts for seconds in part.block_s)
        about: dict[str, Any] = {"path": path or self.path}
        if block < SMALL:
            about["bound"] = "lower: the time Python takes for a request counts"
        self.rows.append(Row(op, block, rate, rates, each, queue_depth=depth, conditions=about))


class _Buffered:
    """The same nameless file, opened once more through the page cache."""

    def __init__(self, fd: int) -> None:
        self.fd = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self.fd)


def _in_order(size: int, block: int) -> list[int]:
    return list(range(0, size - block + 1, block))


def _digest(fd: int, size: int) -> bytes:
    """Hash the first bytes of a file, read in aligned pieces."""
    found, buffer = hashlib.blake2b(), mmap.mmap(-1, MIB)
    for offset in _in_order(size, MIB):
        os.preadv(fd, [buffer], offset)
        found.update(buffer)
    return found.digest()


def _cannot_write(folder: str, error: OSError) -> Unavailable:
    """A disk that is full, or a quota that is: a refusal, with the cure."""
    return Unavailable(f"{folder} took no more data: {error.strerror}", "make room, or --size less")
