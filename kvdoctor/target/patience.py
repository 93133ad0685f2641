"""Time limits for reads that the kernel may hold up: a busy memory map, a file server that is gone."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from kvdoctor.errors import Unavailable

EACH = 1.0
"""Seconds that one read may take."""
MOST_STUCK = 4
"""Threads that are left behind before no further read is tried."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Answer:
    value: object = None
    refused: Unavailable | None = None
    broken: bool = True


class _Worker:
    """One thread that does what it is asked, one thing after the other."""

    def __init__(self) -> None:
        self.asked: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while (task := self.asked.get()) is not None:
            answer = _Answer()
            try:
                answer = _Answer(task(), broken=False)
            except Unavailable as error:
                answer = _Answer(refused=error, broken=False)
            finally:
                self.answers.put(answer)


class Patience:
    """Calls functions with a time limit. One that does not come back is left behind in its thread."""

    def __init__(self, each_s: float = EACH) -> None:
        self.each_s = each_s
        self._worker: _Worker | None = None
        self._stuck = 0

    def call(self, task: Callable[[], T], *, seconds: float | None = None) -> T:
        """Return what the function returns; Unavailable when it takes too long, or too many did before."""
        limit = self.each_s if seconds is None else seconds
        if self._stuck >= MOST_STUCK:
            raise Unavailable(
                f"{MOST_STUCK} reads before it never came back", "look for processes in state D"
            )
        worker = self._worker or _Worker()
        self._worker = None
        worker.asked.put(task)
        try:
            answer = worker.answers.get(timeout=limit)
        except queue.Empty:
            self._stuck += 1
            worker.asked.put(None)
            raise Unavailable(
                f"no answer within {limit:g} s", "is the process, or a file server under it, stuck?"
            ) from None
        if answer.broken:
            raise RuntimeError("a read failed in a way that is not foreseen; its traceback stands above")
        self._worker = worker
        if answer.refused is not None:
            raise answer.refused
        return answer.value  # type: ignore[return-value]

    def close(self) -> None:
        """End the thread that waits for work."""
        if self._worker is not None:
            self._worker.asked.put(None)
            self._worker = None
