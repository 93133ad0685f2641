"""System memory read, copied and written by the C library, one thread a processor, each on memory of its own node."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kvdoctor.errors import KvdoctorError
from kvdoctor.probes.manners import node_processors

TILE = 16 * 2**20
"""Bytes of random data that fill the buffers, again and again."""
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
    """One thread's memory: what is read, and what is written."""

    source: mmap.mmap
    target: mmap.mmap

    def address(self, which: mmap.mmap) -> int:
        return ctypes.addressof(ctypes.c_char.from_buffer(which))


class Threads:
    """Threads, one a processor, each kept on its NUMA node and working on a slice that it touched first."""

    def __init__(self, processors: Sequence[int], slice_bytes: int) -> None:
        self.processors, self.size = tuple(processors), slice_bytes
        self._allowed = node_processors(self.processors)
        self._libc = c_library()
        self._pool = ThreadPoolExecutor(len(self.processors))
        self._ready = threading.Barrier(len(self.processors) + 1)
        self._slices: dict[int, _Slice] = {}
        self._tile = os.urandom(TILE).replace(bytes([ABSENT]), b"\x01")
        self._all(self._fill)

    def read(self) -> float:
        """Read every slice once; return the seconds of all threads together."""
        return self._all(self._read)

    def copy(self) -> float:
        """Copy every slice once, likewise."""
        return self._all(self._copy)

    def write(self) -> float:
        """Write every target once, likewise."""
        return self._all(self._write)

    def verify(self) -> None:
        """Raise KvdoctorError where a target does not hold what its source does."""
        for number, one in self._slices.items():
            if self._libc.memcmp(one.address(one.source), one.address(one.target), self.size):
                raise KvdoctorError(
                    f"a copy of thread {number} arrived changed", "test this machine's memory"
                )

    def close(self) -> None:
        """End the threads; the memory goes with the process."""
        self._pool.shutdown()

    def _all(self, work: Callable[[int], None]) -> float:
        """Let every thread work from the same moment on; return the seconds until the last is done."""
        futures = [self._pool.submit(self._one, work, number) for number in range(len(self.processors))]
        self._ready.wait()
        stamps = [future.result() for future in futures]
        return (max(end for _, end in stamps) - min(begin for begin, _ in stamps)) / 1e9

    def _one(self, work: Callable[[int], None], number: int) -> tuple[int, int]:
        """Work, and return when that began and ended in this thread."""
        os.sched_setaffinity(0, self._allowed[number])
        self._ready.wait()
        begin = time.perf_counter_ns()
        work(number)
        return begin, time.perf_counter_ns()

    def _fill(self, number: int) -> None:
        """Take the memory in the thread that will use it, so that it lies on its node."""
        one = self._slices[number] = _Slice(_memory(self.size), _memory(self.size))
        for at in range(0, self.size, TILE):
            one.source[at : at + TILE] = self._tile[: self.size - at]
        self._libc.memset(one.address(one.target), 1, self.size)

    def _read(self, number: int) -> None:
        one = self._slices[number]
        if self._libc.memchr(one.address(one.source), ABSENT, self.size):
            raise KvdoctorError("memory holds a byte that was never written", "test this machine's memory")

    def _copy(self, number: int) -> None:
        one = self._slices[number]
        self._libc.memcpy(one.address(one.target), one.address(one.source), self.size)

    def _write(self, number: int) -> None:
        one = self._slices[number]
        self._libc.memset(one.address(one.target), 7, self.size)


def _memory(size: int) -> mmap.mmap:
    """Return anonymous memory in large pages where the kernel gives them."""
    found = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        found.madvise(mmap.MADV_HUGEPAGE)
    return found
