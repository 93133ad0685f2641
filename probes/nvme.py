"""The file system that holds the KV tier: real data written, then read past the page cache.

Footprint: one file of 256 MiB (--size) that never has a name for longer than a moment, written at most twice, and up
to about 20 seconds. Nothing is dropped from the system's caches but this file.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import statistics
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.probes import disk, filesystem, manners
from kvdoctor.probes.blockio import PAGE, File, Transfer, shuffled
from kvdoctor.probes.child import Tell
from kvdoctor.probes.footprint import Footprint
from kvdoctor.probes.timing import Ceiling, Row

MIB = 2**20
SIZE = 256 * MIB
DEPTHS = (1, 4, 16, 32)
LEAST_SIZE = 64 * MIB
REPEATS = 3
"""Readings of one operation, a third of its time each."""
OPERATION_S = 0.9
SECONDS = 30.0
SMALL = 65536
"""Bytes below which what Python takes for a request counts: the rate is then a lower bound."""


@dataclass(frozen=True, slots=True)
class Options:
    """What can be asked for."""

    path: str = "."
    """A folder on the file system in question."""
    size: int = SIZE
    blocks: tuple[int, ...] = ()
    """Sizes of the target's KV blocks beside 1 MiB; rounded up to whole pages."""
    depths: tuple[int, ...] = DEPTHS


def footprint(options: Options) -> Footprint:
    """Say what it takes at most."""
    runs = len(_blocks(options)) * (2 * len(options.depths) + 2) + 4
    return Footprint(
        SECONDS,
        host_bytes=64 * MIB,
        disk_bytes=options.size,
        moved_bytes=options.size * (2 + runs),
        loads="the disk under that folder",
    )


def run(options: Options, tell: Tell) -> dict[str, Any]:
    """Write a file, read it in every way, and return the rows. Unavailable where the folder is not fit for it."""
    folder = os.path.realpath(options.path)
    if not os.path.isdir(folder):
        raise Unavailable(f"{folder} is not a folder", "--path of a folder on the disk in question")
    size = max(LEAST_SIZE, options.size) // MIB * MIB
    kind = filesystem.file_system(folder)
    filesystem.require_room(folder, size)
    manners.require_memory(2 * 64 * MIB + (size if kind.is_memory else 0), "the disk probe")
    with _opened(folder) as (fd, how, direct):
        return _Session(folder, fd, size, direct, options, tell).result(kind, how)


@contextmanager
def _opened(folder: str) -> Iterator[tuple[int, str, bool]]:
    """Open the nameless file past the page cache, or through it where the file system refuses that."""
    direct = True
    try:
        fd, how = filesystem.open_unlinked(folder, os.O_DIRECT)
    except Unavailable as refused:
        if refused.reason != filesystem.NO_DIRECT:
            raise
        direct = False
        fd, how = filesystem.open_unlinked(folder)
    try:
        yield fd, how, direct
    finally:
        os.close(fd)


def _blocks(options: Options) -> tuple[int, ...]:
    """Return the block sizes in whole pages, 1 MiB among them."""
    return tuple(sorted({-(-block // PAGE) * PAGE for block in (*options.blocks, MIB)}))


class _Session:
    """One file and everything that is measured on it."""

    def __init__(self, folder: str, fd: int, size: int, direct: bool, options: Options, tell: Tell) -> None:
        self.fd, self.size, self.direct, self.options, self.tell = fd, size, direct, options, tell
        self.folder = folder
        number = int.from_bytes(os.urandom(7), "big")
        self.file = File(fd, size, number, os.urandom(max(_blocks(options))))
        self.ceiling = Ceiling(None, "")
        self.rows: list[Row] = []
        self.path = "O_DIRECT" if direct else "page cache, emptied of the file before each reading"

    def result(self, kind: filesystem.FileSystem, how: str) -> dict[str, Any]:
        """Measure everything and return the JSON object."""
        self.ceiling = disk.ceiling(kind.device)
        self.path = "memory" if kind.is_memory else self.path
        self._fill()
        steps = [(block, depth) for block in _blocks(self.options) for depth in self.options.depths]
        for done, (block, depth) in enumerate(steps):
            self.tell(f"reading {block // 1024} KiB blocks, {depth} under way", 0.1 + 0.7 * done / len(steps))
            self._row("random read", block, depth)
        for block in _blocks(self.options):
            self._row("sequential read", block, 1)
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
                "ceiling_bytes_per_s": self.ceiling.bytes_per_s,
                "ceiling_basis": self.ceiling.basis,
            },
        }

    def _fill(self) -> None:
        """Write the file and see that its bytes are really there."""
        self.tell("writing real data", 0.0)
        try:
            done = self.file.fill(MIB)
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
            parts.append(self.file.read(order, block, depth, OPERATION_S / REPEATS))
        self._add(op, block, depth, parts)

    def _write_over(self) -> None:
        """Write each block once more, in an order of chance: a third of the file a repeat, so never more than it."""
        order = shuffled(self.size, MIB, 7)
        share = len(order) // REPEATS
        depth = min(4, max(self.options.depths))
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
