"""A clock and a place that tests are masters of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvdoctor.errors import Unavailable


class FakeClock:
    """Time that passes only when somebody sleeps."""

    def __init__(self, *, monotonic: float = 100.0, wall: float = 1_000_000.0) -> None:
        self._now, self._offset = monotonic, wall - monotonic
        self._lock = threading.Lock()

    def monotonic(self) -> float:
        return self._now

    def wall(self) -> float:
        return self._now + self._offset

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self._now += seconds


@dataclass(frozen=True)
class FakePage:
    text: bytes
    cut: bool = False


class FakePlace:
    """Answers with one thing after the other, the last one again and again; each takes `took` seconds."""

    kind = "prometheus"
    role = None

    def __init__(
        self,
        answers: Sequence[bytes | Unavailable | FakePage],
        *,
        name: str = "http://fake:8000/metrics",
        clock: FakeClock | None = None,
        took: Sequence[float] = (0.0,),
        documents: dict[str, str] | None = None,
        at_read: Callable[[int], None] = lambda number: None,
    ) -> None:
        self.name, self.reads, self.closed = name, 0, False
        self._answers, self._clock, self._took = answers, clock, took
        self._documents, self._at_read = documents or {}, at_read

    def read(self) -> FakePage:
        number, self.reads = self.reads, self.reads + 1
        self._at_read(number)
        if self._clock is not None:
            self._clock.sleep(self._took[min(number, len(self._took) - 1)])
        answer = self._answers[min(number, len(self._answers) - 1)]
        if isinstance(answer, Unavailable):
            raise answer
        return FakePage(answer) if isinstance(answer, bytes) else answer

    def documents(self) -> dict[str, str]:
        return self._documents

    def close(self) -> None:
        self.closed = True
