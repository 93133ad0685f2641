"""System memory read, copied and written by the C library, one thread a processor, each on memory of its own node."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kvdoctor.errors import KvdoctorError
from kvdoctor.probes.manners import node_processors
from kvdoctor.probes.timing import Pace

TILE = 16 * 2**20
"""Bytes of random data that fill the buffers, again and again."""
SHARED_STEP = 2**21
"""Bytes that a thread fills at once beside a service: fresh pages take the kernel many times what filling them does."""
MOST_PASSES = 4
"""Times that one operation goes over its buffer."""
ABSENT = 0
"""The byte that the random data does not hold: looking for it reads every byte."""


def c_library() -> ctypes.CDLL:
    """Return the C library with the calls that are used; calls through it release the interpreter's lock."""
    libc = ctypes.CDLL(None)
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for name, arguments in (
        ("memchr", [pointer, ctypes.c_int, size]),
        ("memcpy", [pointer, pointer, size]),
        ("memset", [pointer, ctypes.c_int, size]),
    ):
        call = getattr(libc, name)
        call.argtypes, call.restype = arguments, pointer
    libc.memcmp.argtypes, libc.memcmp.restype = [pointer, pointer, size], ctypes.c_int
    return libc


@dataclass(slots=True)
class _Slice:
    """One thread's memory, what is read and what is written, with the addresses worked out before the clock runs."""

    source: mmap.mmap
    target: mmap.mmap
    source_at: int = 0
    target_at: int = 0

    def __post_init__(self) -> None:
        self.source_at = ctypes.addressof(ctypes.c_char.from_buffer(self.source))
        self.target_at = ctypes.addressof(ctypes.c_char.from_buffer(self.target))


class Threads:
    """Threads, one a processor, each kept on its NUMA node and working on a slice that it touched first."""

    def __init__(
        self, processors: Sequence[int], slice_bytes: int, *, piece: int = 0, pace: Pace | None = None
    ) -> None:
        """Fill the slices. An operation goes over a piece of each, the next one every time; 0 is all of it.

        `pace` rests while the slices are filled, where somebody else uses this memory.
        """
        self.processors, self.size = tuple(processors), slice_bytes
        self.piece, self.passes = piece or slice_bytes, 1
        self._allowed, self._at = node_processors(self.processors), 0
        self._libc = c_library()
        self._pool = ThreadPoolExecutor(len(self.processors))
        self._ready = threading.Barrier(len(self.processors) + 1)
        self._slices: dict[int, _Slice] = {}
        self._tile = os.urandom(TILE).replace(bytes([ABSENT]), b"\x01")
        pace = pace or Pace()
        pace.spend(lambda: self._all(self._take))
        self._step = SHARED_STEP if pace.shared else TILE
        for at in range(0, slice_bytes, self._step):
            self._at = at
            pace.spend(lambda: self._all(self._fill))
        self._at = 0

    @property
    def payload(self) -> int:
        """Bytes of one operation, all threads together."""
        return self.piece * len(self.processors)

    def fill_time(self, least_s: float) -> None:
        """Go over a slice so often in one operation that it takes this long, so that starting threads hardly counts."""
        self.passes = min(MOST_PASSES, math.ceil(least_s / max(self.read(), 1e-6)))

    def read(self) -> float:
        """Read every piece; return the seconds of one pass, all threads together."""
        return self._over(self._read)

    def copy(self) -> float:
        """Copy every piece, likewise."""
        return self._over(self._copy)

    def write(self) -> float:
        """Write every target's piece, likewise."""
        return self._over(self._write)

    def verify(self) -> None:
        """Raise KvdoctorError where a target does not hold what its source does, in the piece that was copied last."""
        at = self._before()
        for number, one in self._slices.items():
            if self._libc.memcmp(one.source_at + at, one.target_at + at, self.piece):
                raise KvdoctorError(
                    f"a copy of thread {number} arrived changed", "test this machine's memory"
                )

    def close(self) -> None:
        """End the threads; the memory goes with the process."""
        self._pool.shutdown()

    def _over(self, work: Callable[[int], None]) -> float:
        """Do one operation, then move on to the next piece."""
        seconds = self._all(work, self.passes)
        self._at = self._at + self.piece if self._at + 2 * self.piece <= self.size else 0
        return seconds / self.passes

    def _before(self) -> int:
        """Return where the piece before this one begins."""
        return (self._at or self.size // self.piece * self.piece) - self.piece

    def _all(self, work: Callable[[int], None], passes: int = 1) -> float:
        """Let every thread work from the same moment on; return the seconds until the last is done."""
        futures = [
            self._pool.submit(self._one, work, number, passes) for number in range(len(self.processors))
        ]
        self._ready.wait()
        stamps = [future.result() for future in futures]
        return (max(end for _, end in stamps) - min(begin for begin, _ in stamps)) / 1e9

    def _one(self, work: Callable[[int], None], number: int, passes: int) -> tuple[int, int]:
        """Work, and return when that began and ended in this thread."""
        os.sched_setaffinity(0, self._allowed[number])
        self._ready.wait()
        begin = time.perf_counter_ns()
        for _ in range(passes):
            work(number)
        return begin, time.perf_counter_ns()

    def _take(self, number: int) -> None:
        """Take the memory in the thread that will use it; its pages come with the first touch."""
        self._slices[number] = _Slice(_memory(self.size), _memory(self.size))

    def _fill(self, number: int) -> None:
        """Touch and fill one tile of both, so that it lies on this thread's node."""
        one, at = self._slices[number], self._at
        length = min(self._step, self.size - at)
        self._libc.memcpy(one.source_at + at, self._tile, length)
        self._libc.memset(one.target_at + at, 1, length)

    def _read(self, number: int) -> None:
        if self._libc.memchr(self._slices[number].source_at + self._at, ABSENT, self.piece):
            raise KvdoctorError("memory holds a byte that was never written", "test this machine's memory")

    def _copy(self, number: int) -> None:
        one = self._slices[number]
        self._libc.memcpy(one.target_at + self._at, one.source_at + self._at, self.piece)

    def _write(self, number: int) -> None:
        self._libc.memset(self._slices[number].target_at + self._at, 7, self.piece)


def _memory(size: int) -> mmap.mmap:
    """Return anonymous memory in large pages where the kernel gives them."""
    found = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        found.madvise(mmap.MADV_HUGEPAGE)
    return found
