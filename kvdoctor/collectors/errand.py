"""A call that may block, made in a thread of its own, so that what waits behind it is not held up."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Errand(Generic[T]):
    """One piece of work, sent off again and again; while it is away it is not sent off twice.

    Its thread is kept, and ends with the process: a call that hangs can't be ended.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._thread: threading.Thread | None = None
        self._asked: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._brought: queue.SimpleQueue[T] = queue.SimpleQueue()
        self._sent = False

    @property
    def away(self) -> bool:
        """Say whether it is still under way."""
        return self._sent and self._brought.empty()

    def send(self) -> bool:
        """Send it off; False where it has not come back yet. What was not fetched is dropped."""
        if self.away:
            return False
        self.back()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self._sent = True
        self._asked.put(None)
        return True

    def back(self, seconds: float = 0.0) -> T | None:
        """Return what it brought, once, waiting so long at most; None while it is away, and before it ever went."""
        if not self._sent:
            return None
        try:
            found = self._brought.get(block=seconds > 0, timeout=seconds)
        except queue.Empty:
            return None
        self._sent = False
        return found

    def _run(self) -> None:
        while True:
            self._asked.get()
            self._brought.put(self._work())
