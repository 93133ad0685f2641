"""The tiers beyond the pool: blocks move down when they are evicted and up when they are hit again."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvdoctor.errors import KvdoctorError
from kvdoctor.reference.bucket import TokenBucket
from kvdoctor.reference.stores import Key, Store


@dataclass(slots=True)
class Traffic:
    """What has moved between the pool and one tier. `stored` is towards the tier, `loaded` back."""

    stored_bytes: int = 0
    stored_seconds: float = 0.0
    stored_pieces: int = 0
    loaded_bytes: int = 0
    loaded_seconds: float = 0.0
    loaded_pieces: int = 0
    dropped_blocks: int = 0
    """Blocks that fell out of the last tier, or were promised and then gone."""


class Tier:
    """One store with a capacity in blocks, an LRU order, pins, and an optional rate."""

    def __init__(self, store: Store, *, blocks: int, limit: TokenBucket | None = None) -> None:
        self.store = store
        self.blocks = blocks
        self.limit = limit
        self.traffic = Traffic()
        self.kept: OrderedDict[Key, None] = OrderedDict()
        self.pins: dict[Key, int] = {}

    @property
    def name(self) -> str:
        """The store's name."""
        return self.store.name

    def victim(self) -> Key | None:
        """The least recently used block that no promise holds."""
        return next((key for key in self.kept if key not in self.pins), None)

    def write(self, key: Key, data: memoryview) -> None:
        """Store one block and count it; a store without room drops it."""
        self.throttle(len(data), stored=True)
        started = time.perf_counter()
        if not self.store.write(key, data):
            self.traffic.dropped_blocks += 1
            return
        self.kept[key] = None
        self.traffic.stored_bytes += len(data)
        self.traffic.stored_pieces += 1
        self.traffic.stored_seconds += time.perf_counter() - started

    def read(self, key: Key, into: memoryview) -> bool:
        """Load one block and count it; False where it is gone."""
        started = time.perf_counter()
        if key not in self.kept:
            return False
        if not self.store.read(key, into):
            # A store shared with others may have evicted it by itself.
            del self.kept[key]
            return False
        self.kept.move_to_end(key)
        self.traffic.loaded_bytes += len(into)
        self.traffic.loaded_pieces += 1
        self.traffic.loaded_seconds += time.perf_counter() - started
        return True

    def throttle(self, size: int, *, stored: bool = False) -> None:
        """Wait for the rate limit, and count the wait as time of the transfer."""
        waited = self.limit.take(size) if self.limit else 0.0
        if stored:
            self.traffic.stored_seconds += waited
        else:
            self.traffic.loaded_seconds += waited

    def drop(self, key: Key) -> None:
        """Forget a block."""
        del self.kept[key]
        self.store.drop(key)


class Tiers:
    """Tiers in order, nearest first. Safe to load from one thread while another stores.

    `pin_promises=False` leaves promised blocks to eviction until they are loaded: the reference count that is
    taken too late, which turns promised hits into silent recomputation.
    """

    def __init__(self, levels: Sequence[Tier], *, pin_promises: bool = True) -> None:
        if not levels or any(tier.blocks < 1 for tier in levels):
            raise KvdoctorError("tiers need at least one level of at least one block", "check the sizes")
        self.levels = tuple(levels)
        self.pin_promises = pin_promises
        self._lock = threading.Lock()

    def holds(self, key: Key) -> Tier | None:
        """The nearest tier that has a block."""
        return next((tier for tier in self.levels if key in tier.kept), None)

    def promise(self, hashes: Sequence[Key]) -> int:
        """Blocks of this prefix that can be delivered; pinned until `load` or `forgo`."""
        with self._lock:
            count = 0
            while count < len(hashes) and self.holds(hashes[count]):
                count += 1
            for key in hashes[:count] if self.pin_promises else ():
                for tier in self.levels:
                    tier.pins[key] = tier.pins.get(key, 0) + 1
            return count

    def forgo(self, hashes: Sequence[Key]) -> None:
        """Give up a promise."""
        with self._lock:
            self._unpin(hashes)

    def store(self, key: Key, data: memoryview) -> None:
        """Take a block that the pool evicts; the nearest tier's oldest moves one tier down, and so on."""
        with self._lock:
            tier = self.holds(key)
            if tier is not None and tier is not self.levels[0] and key not in tier.pins:
                tier.drop(key)
                tier = None
            if tier is None:
                self._store_at(0, key, data)
            else:
                tier.kept.move_to_end(key)

    def load(self, hashes: Sequence[Key], buffer: Callable[[int], memoryview]) -> int:
        """Fill `buffer(0)`, `buffer(1)` ... with the blocks; returns how many came before the first that did not."""
        count = 0
        while count < len(hashes) and self._load_one(hashes[count], buffer(count)):
            count += 1
        self.levels[0].traffic.dropped_blocks += len(hashes) - count
        self.forgo(hashes)
        return count

    def close(self) -> None:
        """Close every store."""
        for tier in self.levels:
            tier.store.close()

    def _load_one(self, key: Key, into: memoryview) -> bool:
        """Load one block. The wait for a slow link is not under the lock, so that others may store meanwhile."""
        if tier := self.holds(key):
            tier.throttle(len(into))
        with self._lock:
            tier = self.holds(key)
            return tier is not None and tier.read(key, into)

    def _store_at(self, level: int, key: Key, data: memoryview) -> None:
        """Put a block into a tier, making room first."""
        tier = self.levels[level]
        while len(tier.kept) >= tier.blocks:
            old = tier.victim()
            if old is None:
                break
            self._move_down(level, old, len(data))
        if len(tier.kept) < tier.blocks:
            tier.write(key, data)
        elif level + 1 < len(self.levels):
            self._store_at(level + 1, key, data)
        else:
            tier.traffic.dropped_blocks += 1

    def _move_down(self, level: int, key: Key, size: int) -> None:
        """Move a block one tier down, or out of the last."""
        tier = self.levels[level]
        if level + 1 == len(self.levels):
            tier.drop(key)
            tier.traffic.dropped_blocks += 1
            return
        moved = memoryview(bytearray(size))
        # Not `tier.read`: what only passes on to the next tier is no load.
        is_there = tier.store.read(key, moved)
        tier.drop(key)
        if is_there:
            self._store_at(level + 1, key, moved)
        else:
            tier.traffic.dropped_blocks += 1

    def _unpin(self, hashes: Sequence[Key]) -> None:
        """Drop one pin on each."""
        for tier in self.levels:
            for key in hashes:
                if key in tier.pins:
                    tier.pins[key] -= 1
                    if not tier.pins[key]:
                        del tier.pins[key]
