"""Xid errors that the driver reports while we watch: serious faults of a card, by number."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterable
from typing import Any

from kvdoctor.collectors.nvml_error import kinds, kinds_and_absence

MAX_EVENTS = 64
"""Events taken at one reading; a card in trouble can report one a millisecond."""


class XidWatch:
    """Listens for Xid events of some cards. Registering changes nothing on the card."""

    def __init__(self, nvml: Any, cards: Iterable[tuple[int, Any]]) -> None:
        """Register the cards; `deaf` names those that cannot be listened to."""
        self._nvml, self._counts = nvml, Counter[tuple[int, int]]()
        self._indices: dict[int, int] = {}
        self.deaf: list[int] = []
        self._set: Any = None
        for index, card in cards:
            try:
                self._set = self._set or nvml.nvmlEventSetCreate()
                nvml.nvmlDeviceRegisterEvents(card, nvml.nvmlEventTypeXidCriticalError, self._set)
            except kinds_and_absence(nvml):
                self.deaf.append(index)
                continue
            self._indices[_address(card)] = index

    def counts(self) -> dict[tuple[int, int], int]:
        """Return (card, Xid) to how many came so far; (card, 0) = 0 says that a card is listened to."""
        for _ in range(MAX_EVENTS if self._indices else 0):
            try:
                event = self._nvml.nvmlEventSetWait(self._set, 0)
            except kinds(self._nvml):  # timeout: no event is waiting
                break
            index = self._indices.get(_address(event.device), -1)
            self._counts[index, int(event.eventData)] += 1
        return {**{(index, 0): 0 for index in self._indices.values()}, **self._counts}


def _address(card: Any) -> int:
    """Return what tells handles apart: a lost card no longer tells its index, and Xid 79 is when one is lost."""
    if isinstance(card, int):
        return card
    return ctypes.cast(card, ctypes.c_void_p).value or 0
