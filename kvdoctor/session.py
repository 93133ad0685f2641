"""What a live recording gathers: readings, failures, gaps, and what observing cost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kvdoctor import __version__
from kvdoctor.errors import Unanswered, Unavailable
from kvdoctor.exposition import Parser
from kvdoctor.frames import VERSION
from kvdoctor.model import Cost, Gap
from kvdoctor.recording import UNANSWERED, Recording, Source, add_reading
from kvdoctor.store import Writer
from kvdoctor.textline import Heads

Seen = Callable[[Recording, Source], None]

SHARE = 0.25
"""Of its time that a server may spend on answering us; one that needs more is read less often."""

STARVED = 0.1
"""Share of the time without a CPU from which our own clock is no measure of anybody else."""

OWN = "host"
"""The kind of sources whose pages we write ourselves: nobody sent their bytes."""

NO_SERIES = Unavailable("its page has no series in the Prometheus text format", "look at the page with curl")

NEVER = (
    "it was never read: endpoints that do not answer in time kept its turn from coming",
    "leave those out, or take a longer --interval",
)


class Page(Protocol):
    """One metrics page."""

    @property
    def text(self) -> bytes: ...

    @property
    def cut(self) -> bool: ...


class Described(Protocol):
    """What a source is called, and how to let go of it."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def role(self) -> str | None: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _Failures:
    cure: str
    first: float
    last: float = 0.0
    count: int = 0
    answered: bool = True
    """Something answered, and what it said was no page."""


class Session:
    """A recording under way. All its calls come from one thread."""

    def __init__(
        self,
        places: Sequence[Described],
        *,
        wall: float,
        interval_s: float,
        writer: Writer | None,
        facts: Mapping[str, str],
        gaps: Sequence[Gap] = (),
        on_scrape: Seen | None,
    ) -> None:
        sources = [Source(p.name, p.kind, wall, p.role) for p in places]
        self.recording = Recording(VERSION, __version__, wall, sources, facts=dict(facts))
        self._places, self._writer, self._on_scrape, self._interval = places, writer, on_scrape, interval_s
        heads = Heads()
        self._parsers = [Parser(source.columns, heads) for source in sources]
        self._attempts = [0] * len(sources)
        self._failures: list[dict[str, _Failures]] = [{} for _ in sources]
        self._slowest = [0.0] * len(sources)
        self._late = self._span = 0.0
        self._told = [(0, 0, False)] * len(sources)
        self._said_starved = self._ended = False
        self._known = tuple(gaps)
        self._stopped: list[Gap] = []
        self._cpu = _cpu_seconds()
        if writer is not None:
            writer.begin(self.recording)

    @property
    def hopeless(self) -> bool:
        """True when every place was tried and none has ever answered."""
        return all(self._attempts) and not any(source.at for source in self.recording.sources)

    def page(self, number: int, at: float, took: float, page: Page, waited: float = 0.0) -> None:
        """Take in a page: save what changed, then tell who listens. Of `took` we waited so long for a CPU."""
        source = self.recording.sources[number]
        change = self._parsers[number].read(page.text, cut=page.cut)
        if not change.samples:
            self.failure(number, at, NO_SERIES)
            return
        self._attempts[number] += 1
        self._slowest[number] = max(self._slowest[number], took - waited)
        add_reading(source, at=at, took=took, size=len(page.text), ids=change.ids, values=change.values)
        if self._writer is not None:
            self._writer.reading(number, source, (change.ids, change.values))
        self._span = max(self._span, at + took)
        self._look(number)
        if self._on_scrape is not None:
            self._on_scrape(self.recording, source)

    def failure(self, number: int, at: float, failure: Unavailable) -> None:
        """Take in a reading that failed; the same failure again is counted, not repeated."""
        self._attempts[number] += 1
        known = self._failures[number].setdefault(failure.reason, _Failures(failure.cure, at))
        known.answered = not isinstance(failure, Unanswered)
        known.last = at
        known.count += 1
        self._look(number)

    def documents(self, number: int, documents: Mapping[str, str]) -> None:
        """Take in the small documents of a source."""
        self.recording.sources[number].texts.update(documents)
        if self._writer is not None:
            for key, text in documents.items():
                self._writer.text(number, key, text)

    def late(self, seconds: float) -> None:
        """Take in how much later than due our own thread woke up: it got no CPU."""
        self._late += max(0.0, seconds)

    def interrupted(self, after: float, seconds: float) -> None:
        """Note that somebody ended it early."""
        reason = f"stopped after {after:.1f} s of {seconds:g} s"
        self._stopped = [Gap("kvdoctor", reason, "let it run to its end")]

    def close_places(self) -> None:
        """End the readings under way."""
        for place in self._places:
            place.close()

    def finish(self) -> Recording:
        """Return the recording, its gaps and its cost filled in, and the file closed."""
        recording, self._ended = self.recording, True
        self._note_unanswered()
        recording.cost = Cost(
            cpu_seconds=_cpu_seconds() - self._cpu,
            bytes=sum(sum(source.size) for source in recording.sources if source.kind != OWN),
            longest_read_seconds=max((max(s.took, default=0.0) for s in recording.sources), default=0.0),
        )
        recording.gaps = self._gaps()
        if self._writer is not None:
            self._writer.end(recording)
            recording.gaps = self._gaps()
        return recording

    def _note_unanswered(self) -> None:
        for number, source in enumerate(self.recording.sources):
            failed = sorted(self._failures[number].items(), key=lambda item: item[1].last)
            if failed:
                reason, last = failed[-1]
                source.unanswered(last.last, reason, answered=last.answered)
            if self._writer is not None and UNANSWERED in source.texts:
                self._writer.text(number, UNANSWERED, source.texts[UNANSWERED])

    def _look(self, number: int) -> None:
        """Save the gaps where a source has one of a new kind, or we ourselves: only then are all gone through."""
        slow = self._slowest[number] > SHARE * self._interval
        told = (len(self._failures[number]), self._parsers[number].kinds, slow)
        starved = bool(self._starved())
        if told != self._told[number] or starved != self._said_starved:
            self._told[number], self._said_starved = told, starved
            self._save_gaps()

    def _save_gaps(self) -> None:
        """Save the gaps when one of a new kind came up; counts are brought up to date at the end."""
        gaps = self._gaps()
        if len(gaps) != len(self.recording.gaps):
            self.recording.gaps = gaps
            if self._writer is not None:
                self._writer.gaps(gaps)

    def _gaps(self) -> list[Gap]:
        starved = self._starved()
        gaps = [*self._known, *self._stopped, *starved]
        for number, source in enumerate(self.recording.sources):
            if self._ended and not self._attempts[number] and not self._stopped:
                gaps.append(Gap(source.name, *NEVER))
            gaps.extend(self._failed(number, source))
            gaps.extend(self._parsers[number].gaps(source.name))
            if self._slowest[number] > SHARE * self._interval and not starved:
                gaps.append(_slow(source.name, self._slowest[number], self._interval))
        if self._writer is not None and self._writer.failure is not None:
            reason = f"the recording could not be saved to its end: {self._writer.failure}"
            gaps.append(Gap(str(self._writer.path), reason, "make room, or name another file with --save"))
        return gaps

    def _starved(self) -> list[Gap]:
        """The gap that names ourselves, where readings were late because we got no CPU."""
        if self._late <= max(STARVED * self._span, self._interval):
            return []
        reason = (
            f"it got no CPU itself for {self._late:.1f} s: readings are few and late, which is not the engine"
        )
        return [
            Gap("kvdoctor", reason, "the host's CPUs are full: watch from another host with --url, or longer")
        ]

    def _failed(self, number: int, source: Source) -> list[Gap]:
        gaps = []
        for reason, failed in self._failures[number].items():
            if source.at:
                span = f"from {failed.first:.1f} s to {failed.last:.1f} s"
                reason = f"{failed.count} of {self._attempts[number]} readings failed ({span}): {reason}"
            gaps.append(Gap(source.name, reason, failed.cure))
        return gaps


def _cpu_seconds() -> float:
    """CPU seconds of this process and of the children that have ended, py-spy above all."""
    spent = os.times()
    return time.process_time() + spent.children_user + spent.children_system


def _slow(name: str, slow: float, interval_s: float) -> Gap:
    reason = f"it took up to {slow:.2g} s to answer, so it was read less often than every {interval_s:g} s"
    return Gap(name, reason, f"--interval {slow / SHARE:.2g}")
