"""A token bucket: limits a tier to a rate, so that a slow link can be had on a fast machine."""

from __future__ import annotations

import time
from collections.abc import Callable


class TokenBucket:
    """Lets `bytes_per_s` through on average, `burst` bytes at once."""

    def __init__(
        self,
        bytes_per_s: float,
        *,
        burst: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.bytes_per_s = bytes_per_s
        self.burst = burst
        self._clock = clock
        self._sleep = sleep
        self._ready = clock()

    def take(self, count: int) -> float:
        """Wait until `count` bytes may pass; returns the seconds waited."""
        now = self._clock()
        self._ready = max(self._ready, now - self.burst / self.bytes_per_s) + count / self.bytes_per_s
        wait = max(0.0, self._ready - now)
        if wait:
            self._sleep(wait)
        return wait
