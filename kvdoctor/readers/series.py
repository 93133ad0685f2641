"""A series of pages of one endpoint, or of a recording's text export, as a recording."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kvdoctor import __version__
from kvdoctor.errors import KvdoctorError
from kvdoctor.exposition import Parser
from kvdoctor.frames import VERSION
from kvdoctor.model import Cost, Gap
from kvdoctor.readers.pages import Page, foreign
from kvdoctor.recording import Recording, Source, add_reading
from kvdoctor.restore import MAX_CHANGES, finite

MAX_READINGS = 1_000_000
"""Eleven days at 1 Hz: a guard."""
MAX_REASONS = 20
"""Kinds of failure that are told apart."""
USUAL_STEP = 1.0
"""Seconds between two readings when a clock that was set back leaves us to guess."""

_NO_ANSWER = re.compile(
    r"refused|timed? ?out|HTTP 50[234]|no server behind|reset by peer|no whole answer|closed the connection",
    re.IGNORECASE,
)
"""How recorders, ours and others, say that nobody answered."""


@dataclass(slots=True)
class _Failures:
    count: int = 0
    first: float = 0.0
    last: float = 0.0


class Series:
    """Takes in pages in the order of the file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.full = False
        self._recording = Recording(VERSION, __version__, 0.0)
        self._about: Mapping[str, object] | None = None
        self._noted: list[Gap] | None = None
        self._parsers: list[Parser] = []
        self._failures: dict[str, _Failures] = {}
        self._shift = 0.0
        self._set_back = 0
        self._changes = 0
        self._first = b""

    def add(self, page: Page) -> None:
        """Take in one page; a failed one is counted."""
        for key, value in page.notes:
            self._note(key, value)
        if page.failed:
            self._fail(page.failed, page.wall)
            return
        if not self._recording.sources:
            self._source(Source(self.name, "prometheus", page.wall or 0.0))
        source, parser = self._recording.sources[-1], self._parsers[-1]
        self._first = self._first or page.text[:4096]
        change = parser.read(page.text)
        if not change.samples:
            self._fail("the page had no series", page.wall)
            return
        at = self._at(source, page)
        add_reading(source, at=at, took=page.took, size=len(page.text), ids=change.ids, values=change.values)
        self._changes += len(change.ids) + 1
        self.full = self._changes > MAX_CHANGES or len(source.at) >= MAX_READINGS

    def recording(self, trouble: str) -> Recording:
        """Return the recording; `trouble` says why the file was not read whole. KvdoctorError without a reading."""
        recording = self._recording
        readings = sum(len(source.at) for source in recording.sources)
        bad = sum(parser.bad for parser in self._parsers)
        if not readings and self._failures and not bad:
            reason = trouble or next(iter(self._failures))
            raise KvdoctorError(f"{self.name} has no reading: all failed ({reason})", "record again")
        if not readings or bad > sum(len(source.columns) for source in recording.sources) * readings:
            raise foreign(self.name, self._first)
        recording.wall = recording.wall or recording.sources[0].wall
        last = max(self._failures.items(), key=lambda item: item[1].last, default=None)
        if last is not None:
            answered = not _NO_ANSWER.search(last[0])
            recording.sources[-1].unanswered(last[1].last, last[0], answered=answered)
        if not recording.cost.bytes:
            took = max((t for source in recording.sources for t in source.took), default=0.0)
            recording.cost = Cost(0.0, sum(sum(source.size) for source in recording.sources), took)
        if self._noted is None:
            recording.gaps = self._gaps()
        if trouble or self.full:
            reason = trouble or "it holds more readings than are kept; the rest was left out"
            recording.gaps.append(Gap(self.name, reason, "give a shorter one"))
            recording.complete = False
        return recording

    def _source(self, source: Source) -> None:
        self._recording.sources.append(source)
        self._parsers.append(Parser(source.columns))
        self._shift = 0.0

    def _at(self, source: Source, page: Page) -> float:
        """Return the time of a page on a clock that never goes back."""
        at = (page.wall or 0.0) - source.wall + self._shift
        if source.at and at < source.at[-1]:
            step = source.at[-1] - source.at[-2] if len(source.at) > 1 else USUAL_STEP
            self._shift += source.at[-1] + step - at
            self._set_back += 1
            at = source.at[-1] + step
        return at

    def _fail(self, reason: str, wall: float | None) -> None:
        if len(self._failures) >= MAX_REASONS and reason not in self._failures:
            reason = "other reasons"
        start = self._recording.sources[-1].wall if self._recording.sources else wall or 0.0
        at = (wall or start) - start
        known = self._failures.setdefault(reason, _Failures(first=at))
        known.count, known.last = known.count + 1, at

    def _gaps(self) -> list[Gap]:
        gaps = [
            Gap(self.name, f"{f.count} readings failed, from {f.first:.1f} s to {f.last:.1f} s: {reason}")
            for reason, f in self._failures.items()
        ]
        for source, parser in zip(self._recording.sources, self._parsers, strict=True):
            gaps.extend(parser.gaps(source.name))
        if self._set_back:
            reason = f"its clock was set back {self._set_back} times; the steps there are guessed"
            gaps.append(Gap(self.name, reason, "record with kvdoctor, which uses a monotonic clock"))
        return gaps

    def _note(self, key: str, value: object) -> None:
        """Take in a note of our own text export; one that is not as we write it is passed over."""
        try:
            if key == "source" and isinstance(value, dict):
                self._source(_source(value))
            elif key == "recording" and isinstance(value, dict):
                _about(self._recording, value)
            elif key == "gaps" and isinstance(value, list):
                self._noted = [Gap(str(g["source"]), str(g["reason"]), str(g["cure"])) for g in value]
                self._recording.gaps = self._noted
        except (KeyError, TypeError, ValueError, OverflowError):
            return


def _source(note: Mapping[str, object]) -> Source:
    role, texts = note["role"], note["texts"]
    source = Source(str(note["name"]), str(note["kind"]), finite(note["wall"]))
    source.role = None if role is None else str(role)
    if isinstance(texts, dict):
        source.texts.update({str(key): str(text) for key, text in texts.items()})
    return source


def _about(recording: Recording, note: Mapping[str, object]) -> None:
    facts, cost = note["facts"], note["cost"]
    recording.kvdoctor, recording.wall = str(note["kvdoctor"]), finite(note["wall"])
    recording.complete = bool(note["complete"])
    if isinstance(facts, dict):
        recording.facts.update({str(key): str(fact) for key, fact in facts.items()})
    if isinstance(cost, dict):
        recording.cost = Cost(
            finite(cost["cpu_seconds"]), int(cost["bytes"]), finite(cost["longest_read_seconds"])
        )
