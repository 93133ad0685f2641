"""The sampling loop: endpoints, read side by side on one grid of ticks, become a recording."""

from __future__ import annotations

import math
import queue
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Protocol

from kvdoctor.clock import Clock
from kvdoctor.crew import attend, shares
from kvdoctor.errors import KvdoctorError, Refused, Unavailable
from kvdoctor.model import Gap
from kvdoctor.recording import Recording
from kvdoctor.session import SHARE, Described, Page, Seen, Session
from kvdoctor.store import Writer

NAP = 0.1
"""Seconds until a stop is noticed."""

GRACE = 1.0
"""Seconds that a reading under way has to end after a stop."""


OVERTIME = 10.0
"""Seconds behind the last tick at which no reading begins any more: twice the deadline of one. Only endpoints that
hang, many more than there are threads, keep others waiting for so long."""


class Place(Described, Protocol):
    """What can be read again and again, for example an Endpoint."""

    def read(self) -> Page:
        """Return a page; Unavailable says why there is none now, Refused why there will be none."""

    def documents(self) -> dict[str, str]:
        """Return small documents that are read once."""


@dataclass(frozen=True, slots=True)
class _Plan:
    clock: Clock
    start: float
    seconds: float
    interval_s: float
    stop: threading.Event

    @property
    def last(self) -> int:
        """The number of the last tick, which falls on `seconds`."""
        return math.ceil(self.seconds / self.interval_s - 1e-9)

    def wait(self, tick: int) -> bool:
        """Wait for a tick; False when we were stopped instead, or when all should long have ended."""
        if self.clock.monotonic() - self.start > self.seconds + OVERTIME:
            return False
        due = self.start + min(tick * self.interval_s, self.seconds)
        while not self.stop.is_set():
            remaining = due - self.clock.monotonic()
            if remaining <= 0:
                return True
            self.clock.sleep(min(remaining, NAP))
        return False

    def after(self, tick: int, took: float) -> int:
        """Return the next tick: late ones are skipped, and the last one is never left out."""
        passed = int((self.clock.monotonic() - self.start) / self.interval_s)
        return min(max(tick + self.stretch(took), passed + 1), self.last)

    def stretch(self, took: float) -> int:
        """Return how many ticks to go on, so that answering us takes at most a share of the time."""
        return max(1, math.ceil(took / SHARE / self.interval_s - 1e-9))


@dataclass(frozen=True, slots=True)
class _Visit:
    """What one visit to a place brought."""

    number: int
    at: float
    took: float
    page: Page | None = None
    failure: Unavailable | None = None
    documents: Mapping[str, str] = field(default_factory=dict)
    waited: float = 0.0
    """Of `took`, what our own thread waited for a CPU."""


def record(
    places: Sequence[Place],
    *,
    seconds: float,
    interval_s: float,
    clock: Clock,
    writer: Writer | None = None,
    facts: Mapping[str, str] | None = None,
    gaps: Sequence[Gap] = (),
    on_scrape: Seen | None = None,
    stop: threading.Event | None = None,
) -> Recording:
    """Read every place from now until `seconds` have passed, the first and the last moment included.

    A place that fails is a gap and is tried again at the next tick. When no place answers its first reading,
    the recording ends at once, without a reading. SIGINT, SIGTERM and `stop` end it early with what there is.
    `gaps` are known before the first reading and are saved with it. `on_scrape` is called in the caller's
    thread, after each reading has been saved.
    """
    _check(seconds, interval_s)
    plan = _Plan(clock, clock.monotonic(), seconds, interval_s, stop or threading.Event())
    session = Session(
        places,
        wall=clock.wall(),
        interval_s=interval_s,
        writer=writer,
        facts=facts or {},
        gaps=gaps,
        on_scrape=on_scrape,
    )
    _watch(places, plan, session)
    return session.finish()


def _check(seconds: float, interval_s: float) -> None:
    """Refuse what is no grid of ticks."""
    if not (0 < interval_s < math.inf and seconds >= 0 and math.isfinite(seconds / interval_s)):
        raise KvdoctorError(
            "the interval must be above 0 s, the duration 0 s or more", "--seconds 15 --interval 1"
        )


def _watch(places: Sequence[Place], plan: _Plan, session: Session) -> None:
    """Attend to every place, in a thread of its own while they are few, until the last tick or a stop."""
    visits: queue.Queue[_Visit] = queue.Queue(maxsize=2 * len(places))
    turns = [_Turn(number, place, plan, visits) for number, place in enumerate(places)]
    threads = [
        threading.Thread(target=attend, args=(share, plan.wait), daemon=True) for share in shares(turns)
    ]
    with _signals() as signals:
        for thread in threads:
            thread.start()
        try:
            _collect(threads, visits, session, plan, signals)
            if plan.stop.is_set() and not session.hopeless:
                session.interrupted(plan.clock.monotonic() - plan.start, plan.seconds)
        finally:
            plan.stop.set()
            session.close_places()


def _collect(
    threads: Sequence[threading.Thread],
    visits: queue.Queue[_Visit],
    session: Session,
    plan: _Plan,
    signals: Sequence[int],
) -> None:
    """Hand over every visit until all threads have ended; after a stop they have a grace to do so."""
    grace = math.inf
    while (any(t.is_alive() for t in threads) and time.monotonic() < grace) or not visits.empty():
        if grace == math.inf and (signals or session.hopeless or plan.stop.is_set()):
            grace = time.monotonic() + GRACE
            plan.stop.set()
            session.close_places()
        asked = time.monotonic()
        try:
            visit = visits.get(timeout=NAP)
        except queue.Empty:
            session.late(time.monotonic() - asked - NAP)
            continue
        session.late(time.monotonic() - asked - NAP)
        if visit.page is not None:
            session.page(visit.number, visit.at, visit.took, visit.page, visit.waited)
        elif visit.failure is None:
            session.documents(visit.number, visit.documents)
        elif grace == math.inf:
            session.failure(visit.number, visit.at, visit.failure)


class _Turn:
    """Visits one place at its ticks. One that refuses us before it ever answered is not asked again."""

    def __init__(self, number: int, place: Place, plan: _Plan, visits: queue.Queue[_Visit]) -> None:
        self.tick = 0
        self._number, self._place, self._plan, self._visits = number, place, plan, visits
        self._answered = False

    def take(self) -> bool:
        """Visit the place now; say whether there is another tick for it."""
        plan, place = self._plan, self._place
        visit = _visit(self._number, place, plan)
        self._visits.put(visit)
        if visit.page is not None and not self._answered:
            self._answered = True
            self._visits.put(_Visit(self._number, visit.at, 0.0, documents=place.documents()))
        if self.tick == plan.last or (isinstance(visit.failure, Refused) and not self._answered):
            return False
        self.tick = plan.after(self.tick, visit.took - visit.waited if visit.page is not None else 0.0)
        return True


def _visit(number: int, place: Place, plan: _Plan) -> _Visit:
    begin, waited = plan.clock.monotonic(), _cpu_wait()
    at = begin - plan.start
    try:
        page = place.read()
    except Unavailable as failure:
        return _Visit(number, at, plan.clock.monotonic() - begin, failure=failure)
    took = plan.clock.monotonic() - begin
    return _Visit(number, at, took, page, waited=min(took, _cpu_wait() - waited))


def _cpu_wait() -> float:
    """Seconds that this thread has been ready to run without a CPU (sched-stats.rst); 0 where that is not told."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM instead of dying of them; the second one of a kind acts as ever."""
    seen: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        signal.signal(number, before[signal.Signals(number)] or signal.SIG_DFL)

    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
