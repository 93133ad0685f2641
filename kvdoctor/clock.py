"""Time, as one object that a test can replace."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol


class Clock(Protocol):
    """The monotonic and the wall clock, and a way to wait."""

    def monotonic(self) -> float: ...

    def wall(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def ticks(clock: Clock, *, interval_s: float, seconds: float) -> Iterator[float]:
    """Yield the monotonic time of each tick, on the grid start + k * interval_s, until `seconds` have passed.

    A tick that comes late is not followed by a burst: ticks that were missed are skipped.
    The last tick falls on `seconds`, so that the window is as long as was asked for.
    """
    start = clock.monotonic()
    step = 0
    while step * interval_s <= seconds + 1e-9:
        due = start + step * interval_s
        clock.sleep(max(0.0, due - clock.monotonic()))
        yield clock.monotonic()
        step = max(step + 1, int((clock.monotonic() - start) / interval_s))
