"""KV-sized objects put into a Mooncake store and taken out again, where its client is installed."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.probes.timing import Row

MIB = 2**20
SIZES = (MIB, 4 * MIB)
OBJECTS = 12
SEGMENT = 256 * MIB


def rows(master: str, sizes: tuple[int, ...]) -> list[Row]:
    """Put and get objects; Unavailable without the client, a store that is named, or an answer."""
    if not master:
        raise Unavailable("no store is named", "--mooncake MASTER:PORT,http://METADATA:PORT/metadata")
    from kvdoctor.reference.mooncake import Mooncake, MooncakeStore

    address, _, metadata = master.partition(",")
    try:
        store = MooncakeStore(Mooncake(address, metadata, segment_bytes=SEGMENT, buffer_bytes=SEGMENT))
    except KvdoctorError as error:
        raise Unavailable(error.message, error.hint) from error
    found = []
    try:
        for size in sizes or SIZES:
            found += _objects(store.write, store.read, store.drop, size)
    finally:
        store.close()
    return found


def _objects(
    write: Callable[[bytes, memoryview], None],
    read: Callable[[bytes, memoryview], bool],
    drop: Callable[[bytes], None],
    size: int,
) -> list[Row]:
    """Put some objects of one size, get each of them, compare, and remove them."""
    keys = [b"kvdoctor-probe" + os.urandom(16) for _ in range(OBJECTS)]
    data, into = os.urandom(size), memoryview(bytearray(size))
    puts, gets = [], []
    try:
        for key in keys:
            begin = time.perf_counter()
            write(key, memoryview(data))
            puts.append(time.perf_counter() - begin)
        for key in keys:
            begin = time.perf_counter()
            if not read(key, into):
                raise KvdoctorError("the store lost an object at once", "its segment may be too small")
            gets.append(time.perf_counter() - begin)
            if into != data:
                raise KvdoctorError("an object came back changed", "see the store's log")
    finally:
        for key in keys:
            drop(key)
    return [_row("put", size, puts), _row("get", size, gets)]


def _row(op: str, size: int, seconds: list[float]) -> Row:
    rates = tuple(size / each for each in seconds)
    about = {"transport": "Mooncake store over TCP, a copy at our end included"}
    way = "to peer" if op == "put" else "from peer"
    return Row(
        f"store {op}", size, statistics.median(rates), rates, tuple(seconds), direction=way, conditions=about
    )
