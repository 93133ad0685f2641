"""Blocks of one file read and written at a queue depth, by threads that wait in the kernel."""

from __future__ import annotations

import mmap
import os
import random
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kvdoctor.errors import KvdoctorError
from kvdoctor.probes.timing import BURST_S, Pace

STAMP = struct.Struct("<QQ")
"""What the first bytes of every 4 KiB of the file are: its offset, and the file's own number."""
PAGE = 4096


@dataclass(frozen=True, slots=True)
class Transfer:
    """What one run moved: bytes, the seconds of all threads together, and those of each block."""

    bytes: int
    seconds: float
    block_s: tuple[float, ...]


def pages(offset: int, size: int, number: int, tile: bytes) -> bytearray:
    """Return random data whose every page carries its offset, so that a wrong block is seen."""
    data = bytearray(tile[:size])
    for at in range(0, size, PAGE):
        STAMP.pack_into(data, at, offset + at, number)
    return data


class File:
    """One open file of `size` bytes, whose pages are stamped with `number`."""

    def __init__(self, fd: int, size: int, number: int, tile: bytes) -> None:
        self.fd, self.size, self.number, self._tile = fd, size, number, tile

    def fill(self, block: int, pace: Pace | None = None) -> Transfer:
        """Write the whole file in order, fresh random data in each block, and wait for the device.

        Beside somebody else it rests after each burst, and waits for the device before it does.
        """
        spent = rested = 0
        each: list[int] = []
        for offset in range(0, self.size, block):
            data = _aligned(pages(offset, min(block, self.size - offset), self.number, os.urandom(block)))
            begin = time.perf_counter_ns()
            _whole(os.pwritev(self.fd, [data], offset), len(data))
            each.append(time.perf_counter_ns() - begin)
            spent += each[-1]
            if pace is not None and pace.shared and spent - rested >= BURST_S * 1e9 / 2:
                begin = time.perf_counter_ns()
                os.fsync(self.fd)
                spent += time.perf_counter_ns() - begin
                pace.rest((spent - rested) / 1e9)
                rested = spent
        begin = time.perf_counter_ns()
        os.fsync(self.fd)
        spent += time.perf_counter_ns() - begin
        return Transfer(self.size, spent / 1e9, tuple(ns / 1e9 for ns in each))

    def read(self, offsets: Sequence[int], block: int, depth: int, limit_s: float) -> Transfer:
        """Read these blocks with `depth` threads, until done or out of time; check every one's stamp."""
        return self._work(offsets, block, depth, limit_s, self._read)

    def write(self, offsets: Sequence[int], block: int, depth: int, limit_s: float) -> Transfer:
        """Write these blocks over, likewise, and wait for the device."""
        done = self._work(offsets, block, depth, limit_s, self._write)
        begin = time.perf_counter_ns()
        os.fsync(self.fd)
        return replace(done, seconds=done.seconds + (time.perf_counter_ns() - begin) / 1e9)

    def _read(self, buffer: mmap.mmap, offset: int) -> None:
        _whole(os.preadv(self.fd, [buffer], offset), len(buffer))
        if STAMP.unpack_from(buffer) != (offset, self.number):
            raise KvdoctorError(f"the block at {offset} is not what was written there", "check this disk")

    def _write(self, buffer: mmap.mmap, offset: int) -> None:
        for at in range(0, len(buffer), PAGE):
            STAMP.pack_into(buffer, at, offset + at, self.number)
        _whole(os.pwritev(self.fd, [buffer], offset), len(buffer))

    def _work(self, offsets: Sequence[int], block: int, depth: int, limit_s: float, one: _One) -> Transfer:
        return _Crew(offsets, self._tile[:block], depth, limit_s, one).run()


_One = Callable[[mmap.mmap, int], None]


class _Crew:
    """Threads that take offsets from one list, each with a buffer and one block under way."""

    def __init__(self, offsets: Sequence[int], data: bytes, depth: int, limit_s: float, one: _One) -> None:
        self._ahead, self._data, self._one = iter(list(offsets)), data, one
        self._limit_ns, self._lock = int(limit_s * 1e9), threading.Lock()
        self._barrier = threading.Barrier(depth + 1)
        self._times: list[list[int]] = [[] for _ in range(depth)]
        self._failures: list[OSError | KvdoctorError] = []
        self._last = 0

    def run(self) -> Transfer:
        """Let all threads work from one moment on; return what was moved until the last was done."""
        threads = [threading.Thread(target=self._loop, args=(times,)) for times in self._times]
        for thread in threads:
            thread.start()
        self._barrier.wait()
        begin = time.perf_counter_ns()
        for thread in threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        each = tuple(ns / 1e9 for mine in self._times for ns in mine)
        return Transfer(len(self._data) * len(each), (self._last - begin) / 1e9, each)

    def _loop(self, times: list[int]) -> None:
        buffer = mmap.mmap(-1, len(self._data))
        buffer[:] = self._data
        self._barrier.wait()
        stop = time.perf_counter_ns() + self._limit_ns
        try:
            while time.perf_counter_ns() < stop and (offset := self._next()) is not None:
                begin = time.perf_counter_ns()
                self._one(buffer, offset)
                times.append(time.perf_counter_ns() - begin)
        except (OSError, KvdoctorError) as error:
            self._failures.append(error)
        with self._lock:
            self._last = max(self._last, time.perf_counter_ns())

    def _next(self) -> int | None:
        with self._lock:
            return next(self._ahead, None)


def shuffled(size: int, block: int, seed: int) -> list[int]:
    """Return the offsets of all whole blocks in an order of chance, each once."""
    offsets = list(range(0, size - block + 1, block))
    random.Random(seed).shuffle(offsets)
    return offsets


def _aligned(data: bytearray) -> mmap.mmap:
    """Copy to memory that begins on a page, as O_DIRECT wants it."""
    found = mmap.mmap(-1, len(data))
    found[:] = bytes(data)
    return found


def _whole(moved: int, wanted: int) -> None:
    if moved != wanted:
        raise KvdoctorError(f"the file gave or took {moved} of {wanted} bytes", "is the file system full?")
