"""What was observed, and no opinion: raw series as columns of changes, with the clock of each reading."""

from __future__ import annotations

import json
import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from kvdoctor.model import Cost, Gap

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Column:
    """One raw series. Only the readings at which its value changed are kept.

    `index[i]` is the number of the reading in its source, `value[i]` what it read from there on;
    NaN where the series was gone (or was NaN itself).
    """

    name: str
    labels: Labels
    type: str = ""
    """The `# TYPE` of its family as read, empty when the text gave none."""
    index: array[int] = field(default_factory=lambda: array("I"))
    value: array[float] = field(default_factory=lambda: array("d"))

    def at(self, reading: int) -> float:
        """Return the value at a reading, NaN before its first one."""
        low = bisect_right(self.index, reading)
        return self.value[low - 1] if low else math.nan

    def known(self, reading: int, since: int = 0) -> float:
        """Return the newest number at or before a reading: a series that is gone keeps its last one.

        NaN where the last one was read before `since`.
        """
        low, last = bisect_right(self.index, reading), reading
        while low and math.isnan(self.value[low - 1]):
            low -= 1
            last = self.index[low] - 1
        return self.value[low - 1] if low and last >= since else math.nan


UNANSWERED = "unanswered"
"""Under which a source's texts say since when, and why, it answered no more: {"seconds", "reason", "answered"}."""


@dataclass(slots=True)
class Source:
    """One place that was read again and again: an endpoint, a saved text, a log."""

    name: str
    """Where: a URL without credentials, or a file name."""
    kind: str
    """`prometheus`, `log`, `proc`, ..."""
    wall: float = 0.0
    """Wall clock at `at` = 0, seconds since 1970."""
    role: str | None = None
    at: array[float] = field(default_factory=lambda: array("d"))
    """Seconds since the recording began, monotonic, one a reading."""
    took: array[float] = field(default_factory=lambda: array("d"))
    """Seconds each reading took."""
    size: array[int] = field(default_factory=lambda: array("Q"))
    """Bytes of each reading."""
    columns: list[Column] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    """Small documents read once, for example `version` and `models`; no secrets in them."""

    def unanswered(self, until: float, reason: str, *, answered: bool = False) -> None:
        """Note that it has given no page since its last reading, up to a moment; nothing where it has.

        `answered` if something answers there, and not with a page.
        """
        if self.at and until > self.at[-1]:
            note = {"seconds": until - self.at[-1], "reason": reason, "answered": answered}
            self.texts[UNANSWERED] = json.dumps(note)

    def nearest(self, moment: float) -> int:
        """Return the number of the reading nearest to a moment of the recording; there must be one."""
        right = min(bisect_left(self.at, moment), len(self.at) - 1)
        left = max(0, right - 1)
        return left if moment - self.at[left] < self.at[right] - moment else right


@dataclass(slots=True)
class Recording:
    """Everything seen in one run. Saved before anything judges it."""

    version: int
    kvdoctor: str
    wall: float
    """Wall clock when it began, seconds since 1970."""
    sources: list[Source] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    """What the user told us: `gpu`, `bandwidth`, `model_config`, `slow`, `slo_ttft`, `slo_itl`, ..."""
    cost: Cost = field(default_factory=Cost)
    complete: bool = True
    """False when the file was cut: the process that wrote it was killed."""


def add_reading(
    source: Source, *, at: float, took: float, size: int, ids: Iterable[int], values: Iterable[float]
) -> None:
    """Append one reading: its time, its length, its bytes, the columns that changed and their values."""
    reading = len(source.at)
    source.at.append(at)
    source.took.append(took)
    source.size.append(size)
    columns = source.columns
    for number, value in zip(ids, values, strict=True):
        column = columns[number]
        column.index.append(reading)
        column.value.append(value)
