"""Xid errors that the driver reports while we watch: serious faults of a card, by number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

MAX_EVENTS = 64
"""Events taken at one reading; a card in trouble can report one a millisecond."""


class XidWatch:
    """Listens for Xid events of some cards. Registering changes nothing on the card."""

    def __init__(self, nvml: Any, cards: Iterable[tuple[int, Any]]) -> None:
        """Register the cards; NVMLError when none of them can be listened to."""
        self._nvml, self._counts = nvml, Counter[tuple[int, int]]()
        self._set = nvml.nvmlEventSetCreate()
        self._indices = []
        for index, card in cards:
            nvml.nvmlDeviceRegisterEvents(card, nvml.nvmlEventTypeXidCriticalError, self._set)
            self._indices.append(index)

    def counts(self) -> dict[tuple[int, int], int]:
        """Return (card, Xid) to how many came so far; (card, 0) = 0 says that a card is listened to."""
        for _ in range(MAX_EVENTS):
            try:
                event = self._nvml.nvmlEventSetWait(self._set, 0)
                index = int(self._nvml.nvmlDeviceGetIndex(event.device))
            except self._nvml.NVMLError:  # timeout: no event is waiting
                break
            self._counts[index, int(event.eventData)] += 1
        return {**{(index, 0): 0 for index in self._indices}, **self._counts}
