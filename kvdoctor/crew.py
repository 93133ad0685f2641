"""Few threads for many recurring tasks: each task is done when its tick has come, by whoever is free."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

WORKERS = 64
"""Threads of one recording. With more of them 1,000 endpoints are read no sooner on two cores; with fewer, some
that do not answer within their deadline hold the others up."""


class Turn(Protocol):
    """A task that comes again and again."""

    tick: int
    """When it is due next."""

    def take(self) -> bool:
        """Do it; say whether it comes again."""


@dataclass(slots=True)
class Share:
    """Tasks that some threads share, the earliest first."""

    heap: list[tuple[int, int, Turn]]
    lock: threading.Lock = field(default_factory=threading.Lock)

    def pop(self) -> tuple[int, int, Turn] | None:
        """Take the earliest task out; None when there is none that nobody holds."""
        with self.lock:
            return heapq.heappop(self.heap) if self.heap else None

    def push(self, number: int, turn: Turn) -> None:
        """Put a task back."""
        with self.lock:
            heapq.heappush(self.heap, (turn.tick, number, turn))


def shares(turns: Sequence[Turn]) -> list[Share]:
    """Return what each thread works on: a task of its own while there are few, else one heap for all of them."""
    heap = [(turn.tick, number, turn) for number, turn in enumerate(turns)]
    if len(turns) <= WORKERS:
        return [Share([entry]) for entry in heap]
    heapq.heapify(heap)
    return [Share(heap)] * WORKERS


def attend(share: Share, wait: Callable[[int], bool]) -> None:
    """Do tasks until none is left, or until `wait` says that we were stopped instead of a tick coming."""
    while (entry := share.pop()) is not None:
        tick, number, turn = entry
        if not wait(tick):
            return
        if turn.take():
            share.push(number, turn)
