"""The tiers and loads of a lab server: what they did is kept for the metrics, and they can be made slow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from kvdoctor.lab.messages import Move
from kvdoctor.reference.loader import Loader, Memory
from kvdoctor.reference.request import Load
from kvdoctor.reference.stores import Key
from kvdoctor.reference.tiers import Tier, Tiers


class ReadTier(Tier):
    """A tier whose rate limits loads alone: stores go to a cache in front of it."""

    def throttle(self, size: int, *, stored: bool = False) -> None:
        """Wait before a load."""
        if not stored:
            super().throttle(size)


class IndexedTiers(Tiers):
    """Tiers whose look-ups are timed, and whose index another thread may hold for a while."""

    def __init__(self, levels: Sequence[Tier], *, pin_promises: bool, held_s: float, free_s: float) -> None:
        super().__init__(levels, pin_promises=pin_promises)
        self.lookups: list[float] = []
        self._ending = threading.Event()
        if held_s:
            threading.Thread(
                target=self._compact, args=(held_s, free_s), name="kv-index", daemon=True
            ).start()

    def promise(self, hashes: Sequence[Key]) -> int:
        """Look a prefix up."""
        started = time.perf_counter()
        try:
            return super().promise(hashes)
        finally:
            self.lookups.append(time.perf_counter() - started)

    def close(self) -> None:
        """End the thread, close the stores."""
        self._ending.set()
        super().close()

    def _compact(self, held_s: float, free_s: float) -> None:
        """Keep the index to ourselves, again and again."""
        while not self._ending.wait(free_s):
            with self._lock:
                time.sleep(held_s)


class WatchedLoader(Loader):
    """A loader that keeps what each load moved, says when it stands still, and may hand over late."""

    def __init__(
        self,
        tiers: Tiers,
        memory: Memory,
        *,
        prefetch: bool,
        handover_s: float,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """`before` is called before a load that the engine waits for."""
        super().__init__(tiers, memory, prefetch=prefetch)
        self.handover_s = handover_s
        self.before = before
        self.moves: list[Move] = []
        self.sources: dict[str, dict[str, int]] = {}
        """Blocks that came for a request, by tier."""
        self._held: list[tuple[float, Load, int]] = []

    @property
    def flying(self) -> bool:
        """Whether a load is under way or not handed over."""
        return super().flying or bool(self._held)

    def start(self, load: Load) -> None:
        """Begin a load; without prefetch, also end it."""
        if not self.prefetch:
            self.before()
        super().start(load)

    def finished(self) -> list[tuple[Load, int]]:
        """Loads that have been handed over since the last call."""
        now = time.monotonic()
        self._held += [(now + self.handover_s, load, count) for load, count in super().finished()]
        ready = [(load, count) for at, load, count in self._held if at <= now]
        self._held = [held for held in self._held if held[0] > now]
        return ready

    def wait(self, seconds: float) -> None:
        """Let a load end, or be handed over."""
        if super().flying:
            super().wait(seconds)
        elif self._held:
            left = min(at for at, *_ in self._held) - time.monotonic()
            time.sleep(max(0.0, min(seconds, left)))

    def _run(self, load: Load) -> tuple[int, float]:
        """Load, and keep what came from where."""
        before = [self._loaded(tier) for tier in self.tiers.levels]
        found = super()._run(load)
        for tier, (size, seconds, pieces) in zip(self.tiers.levels, before, strict=True):
            now = self._loaded(tier)
            if now[2] > pieces:
                move = Move(tier.name, True, now[0] - size, now[1] - seconds, now[2] - pieces)
                blocks = self.sources.setdefault(load.request.name, {})
                blocks[tier.name] = blocks.get(tier.name, 0) + move.pieces
                self.moves.append(move)
        return found

    def _loaded(self, tier: Tier) -> tuple[int, float, int]:
        traffic = tier.traffic
        return traffic.loaded_bytes, traffic.loaded_seconds, traffic.loaded_pieces
