"""A call that may block, made in a thread of its own, so that what waits behind it is not held up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Errand(Generic[T]):
    """One piece of work, sent off again and again; while it is away it is not sent off twice."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._thread: threading.Thread | None = None
        self._result: T | None = None

    @property
    def away(self) -> bool:
        """Say whether it is still under way."""
        return self._thread is not None and self._thread.is_alive()

    def send(self) -> bool:
        """Send it off; False where it has not come back yet."""
        if self.away:
            return False
        self._result = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return True

    def back(self, seconds: float = 0.0) -> T | None:
        """Return what it brought, waiting so long at most; None while it is away, and before it ever went."""
        if self._thread is None:
            return None
        self._thread.join(max(0.0, seconds))
        return None if self._thread.is_alive() else self._result

    def _run(self) -> None:
        self._result = self._work()
