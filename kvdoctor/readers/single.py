"""Metrics pages that were saved one by one, without a time: those of one process are readings of one source."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvdoctor import __version__
from kvdoctor.exposition import Parser
from kvdoctor.frames import VERSION
from kvdoctor.model import Cost, Gap
from kvdoctor.readers.opened import Opened
from kvdoctor.readers.pages import Page, foreign
from kvdoctor.recording import Column, Recording, Source, add_reading

ASSUMED_STEP = 15.0
"""Seconds between two pages whose times nobody knows: Prometheus' usual interval."""
MIN_STEP, MAX_STEP = 1.0, 3600.0
"""Seconds between two files that are believed; files copied together lie closer, unrelated ones farther."""
ALIKE = 0.5
"""Share of names that two pages of one process have in common at least."""


@dataclass(slots=True)
class _Shelf:
    """The pages of one process."""

    source: Source
    parser: Parser
    trouble: list[str] = field(default_factory=list)
    modified: list[float] = field(default_factory=list)


class Singles:
    """Collects single pages and sorts them by the process that they are of."""

    def __init__(self) -> None:
        self._shelves: list[_Shelf] = []

    def add(self, file: Opened, path: str, page: Page) -> None:
        """Take in a page; KvdoctorError when it is none."""
        probe = Source(file.name, "prometheus")
        parser = Parser(probe.columns)
        change = parser.read(page.text)
        if not change.samples or parser.bad > change.samples:
            raise foreign(file.name, page.text)
        add_reading(probe, at=0.0, took=0.0, size=0, ids=change.ids, values=change.values)
        shelf = next((s for s in self._shelves if _same(s.source.columns, probe.columns)), None)
        if shelf is None:
            shelf = self._new(file, path)
        change = shelf.parser.read(page.text)
        at = ASSUMED_STEP * len(shelf.modified)
        size = len(page.text)
        add_reading(shelf.source, at=at, took=0.0, size=size, ids=change.ids, values=change.values)
        shelf.modified.append(file.modified)
        shelf.trouble.extend([file.trouble] if file.trouble else [])

    def recordings(self) -> list[Recording]:
        """Return one recording a process: nothing says how the clocks of two of them relate."""
        return [_recording(shelf) for shelf in self._shelves]

    def _new(self, file: Opened, path: str) -> _Shelf:
        taken = {shelf.source.name for shelf in self._shelves}
        name = file.name if file.name not in taken else f"{path} ({len(taken) + 1})"
        source = Source(name, "prometheus", file.modified)
        self._shelves.append(_Shelf(source, Parser(source.columns)))
        return self._shelves[-1]


def _recording(shelf: _Shelf) -> Recording:
    source, gaps = shelf.source, list(shelf.parser.gaps(shelf.source.name))
    steps = [b - a for a, b in zip(shelf.modified, shelf.modified[1:], strict=False)]
    cure = "kvdoctor record --url URL keeps the times"
    if not steps:
        reason = "one page: sums since the process started, and no window of time"
    elif all(MIN_STEP <= step <= MAX_STEP for step in steps):
        reason = "the times of its pages are those of the files"
        for number, modified in enumerate(shelf.modified):
            source.at[number] = modified - shelf.modified[0]
    else:
        reason = (
            f"the times of its {len(steps) + 1} pages are assumed: {ASSUMED_STEP:g} s apart; no rate is sure"
        )
    gaps.append(Gap(source.name, reason, cure))
    gaps.extend(Gap(source.name, trouble, "save it again") for trouble in shelf.trouble)
    cost = Cost(0.0, sum(source.size), 0.0)
    return Recording(VERSION, __version__, source.wall, [source], gaps, {}, cost, not shelf.trouble)


def _same(old: list[Column], new: list[Column]) -> bool:
    """Say whether a page is a later one of the process that the columns are of.

    Start times decide where both have them; else nothing that only grows may have shrunk.
    """
    before = {(c.name, frozenset(c.labels)): c for c in old}
    pairs = [(before[key], c) for c in new if (key := (c.name, frozenset(c.labels))) in before]
    names = {c.name for c in new}
    if len(names & {c.name for c in old}) < ALIKE * max(len(names), 1):
        return False
    starts = [(a, b) for a, b in pairs if a.name.endswith(("process_start_time_seconds", "_created"))]
    if starts:
        return all(a.value[-1] == b.value[-1] for a, b in starts)
    return not any(
        b.value[-1] < a.value[-1] for a, b in pairs if a.type == "counter" or a.name.endswith("_total")
    )
