"""Fetches promised blocks into the pool: while the engine computes (prefetch), or while it waits."""

from __future__ import annotations

import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Protocol

from kvdoctor.reference.request import Load
from kvdoctor.reference.tiers import Tiers


class Memory(Protocol):
    """The pool's memory, as transfers see it."""

    def outgoing(self, block: int) -> memoryview:
        """The bytes of a block, to be read at once."""

    def incoming(self, block: int) -> memoryview:
        """Host memory to fill for a block."""

    def arrived(self, block: int) -> None:
        """The memory that `incoming` gave is full."""


class Loader:
    """Runs loads. `seconds` is all the time they took, `exposed_seconds` what the engine waited for them."""

    def __init__(self, tiers: Tiers, memory: Memory, *, prefetch: bool = True) -> None:
        self.tiers = tiers
        self.memory = memory
        self.prefetch = prefetch
        self.seconds = 0.0
        self.exposed_seconds = 0.0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kv-load")
        self._flying: dict[Future[tuple[int, float]], Load] = {}
        self._done: list[tuple[Load, int]] = []

    @property
    def hidden_seconds(self) -> float:
        """Load time that passed while the engine computed."""
        return max(0.0, self.seconds - self.exposed_seconds)

    @property
    def flying(self) -> bool:
        """Whether a load is under way."""
        return bool(self._flying)

    def evicted(self, block: int, key: bytes) -> None:
        """The pool loses a block: store it in the nearest tier."""
        self.tiers.store(key, self.memory.outgoing(block))

    def start(self, load: Load) -> None:
        """Begin a load; without prefetch, also end it."""
        if self.prefetch:
            self._flying[self._thread.submit(self._run, load)] = load
            return
        count, seconds = self._run(load)
        self.seconds += seconds
        self.exposed_seconds += seconds
        self._done.append((load, count))

    def finished(self) -> list[tuple[Load, int]]:
        """Loads that have ended since the last call, with the blocks that arrived."""
        for future in [future for future in self._flying if future.done()]:
            count, seconds = future.result()
            self.seconds += seconds
            self._done.append((self._flying.pop(future), count))
        done, self._done = self._done, []
        return done

    def wait(self, seconds: float) -> None:
        """Let a load end, with nothing else to do."""
        started = time.perf_counter()
        wait(self._flying, timeout=seconds, return_when=FIRST_COMPLETED)
        self.exposed_seconds += time.perf_counter() - started

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    def _run(self, load: Load) -> tuple[int, float]:
        """Blocks that arrived, and the seconds it took."""
        started = time.perf_counter()
        count = self.tiers.load(load.hashes, lambda index: self.memory.incoming(load.blocks[index]))
        for block in load.blocks[:count]:
            self.memory.arrived(block)
        return count, time.perf_counter() - started
