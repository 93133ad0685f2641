"""KV-sized objects put into a Mooncake store and taken out again, where its client is installed."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.probes.timing import Pace, Row

MIB = 2**20
SIZES = (MIB, 4 * MIB)
OBJECTS = 12
BUFFER = 64 * MIB
"""Memory that the client copies through; no segment is brought along, since others would put their blocks into it."""


def buffer_bytes(sizes: tuple[int, ...]) -> int:
    """Return what a client needs for objects of these sizes."""
    return max(BUFFER, 4 * max(sizes or SIZES))


def rows(master: str, sizes: tuple[int, ...], pace: Pace | None = None) -> list[Row]:
    """Put and get objects with the rests of `pace`; Unavailable without a client, a store that is named, an answer."""
    if not master:
        raise Unavailable("no store is named", "--mooncake MASTER:PORT,http://METADATA:PORT/metadata")
    from kvdoctor.reference.mooncake import Mooncake, MooncakeStore

    address, _, metadata = master.partition(",")
    try:
        where = Mooncake(address, metadata, segment_bytes=0, buffer_bytes=buffer_bytes(sizes))
        store = MooncakeStore(where)
    except KvdoctorError as error:
        raise Unavailable(error.message, error.hint) from error
    found = []
    try:
        for size in sizes or SIZES:
            found += _objects(store.write, store.read, store.discard, size, pace)
    finally:
        store.close()
    return found


def _objects(
    write: Callable[[bytes, memoryview], bool],
    read: Callable[[bytes, memoryview], bool],
    drop: Callable[[bytes], None],
    size: int,
    pace: Pace | None = None,
) -> list[Row]:
    """Put some objects of one size, get each of them, compare, and remove them."""
    pace = pace or Pace()
    data, into = os.urandom(size), memoryview(bytearray(size))
    kept: list[bytes] = []
    puts, gets = [], []
    try:
        for _ in range(OBJECTS):
            key = b"kvdoctor-probe" + os.urandom(16)
            begin = time.perf_counter()
            if not write(key, memoryview(data)):
                raise _no_room()
            puts.append(time.perf_counter() - begin)
            pace.rest(puts[-1])
            kept.append(key)
        for key in kept:
            begin = time.perf_counter()
            if not read(key, into):
                raise _no_room()
            gets.append(time.perf_counter() - begin)
            pace.rest(gets[-1])
            if into != data:
                raise KvdoctorError("an object came back changed", "see the store's log")
    finally:
        for key in kept:
            drop(key)
    return [_row("put", size, puts), _row("get", size, gets)]


def _no_room() -> Unavailable:
    return Unavailable(
        "the store has no room for the probe's objects",
        "it needs a client that brings a segment, or a smaller --block",
    )


def _row(op: str, size: int, seconds: list[float]) -> Row:
    rates = tuple(size / each for each in seconds)
    about = {"transport": "Mooncake store over TCP, a copy at our end included"}
    way = "to peer" if op == "put" else "from peer"
    return Row(
        f"store {op}", size, statistics.median(rates), rates, tuple(seconds), direction=way, conditions=about
    )
