"""Ranks that stand still with requests pending, up to the last reading."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass

from kvdoctor import metrics as m
from kvdoctor.recording import UNANSWERED
from kvdoctor.silence import HALT_SECONDS, LONGEST, ends_only, flowed, least, longest, pending_in, silences
from kvdoctor.timeline import Timeline

GONE_SECONDS = 5.0
"""Time without any answer, up to the end, from which whoever asks for tokens gets none either."""
MOST_SECONDS, MOST_WORDS = 1e7, 200
"""A recording's length, and characters of a reason, beyond which a note was not written by a recorder."""
LIVE = 0.5
"""Requests that began and did not end, over those that a gauge says to run, from which the gauge is believed."""


@dataclass(frozen=True, slots=True)
class Halt:
    """What stands still, or stood still for a while."""

    seconds: float
    """Since the last token of the rank that stands still for the shortest time."""
    ranks: tuple[str, ...]
    """Which ranks; empty for the whole engine."""
    moving: bool
    """Whether a gauge of each still moved: standing ones may be stale."""
    ago: float = 0.0
    """Seconds from its end to the last reading; 0 while it lasts."""
    times: int = 1
    """How often it stood still, if it went on each time; `seconds` are those of all times together."""


@dataclass(frozen=True, slots=True)
class Gone:
    """An address that answered, and then no more."""

    seconds: float
    """From the last answer to the last attempt."""
    reason: str
    answered: bool
    """Something answers, such as a proxy or a login page, and what it says is no page of the engine."""


def gone(line: Timeline) -> Gone | None:
    """Return since when an engine's address has given no page; None where it has, or for a moment only."""
    try:
        noted = json.loads(line.source.texts.get(UNANSWERED, "{}"))
        seconds, reason, answered = float(noted["seconds"]), noted["reason"], noted["answered"]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    if not isinstance(reason, str) or not GONE_SECONDS <= seconds <= MOST_SECONDS:
        return None
    return Gone(seconds, reason[:MOST_WORDS], answered is not False)


def halted(line: Timeline) -> Halt | None:
    """Return the ranks that stand still with requests pending; None where none does, or nothing tells."""
    if line.first < 0:
        return None
    if len(line.ranks) < 2:
        found = _halt(line, None)
        return Halt(found[0], (), found[1]) if found else None
    still = {rank: found for rank in line.ranks if (found := _halt(line, rank)) is not None}
    if not still:
        return None
    names = () if len(still) == len(line.ranks) else tuple(still)
    return Halt(min(s for s, _ in still.values()), names, all(moving for _, moving in still.values()))


def _halt(line: Timeline, rank: str | None) -> tuple[float, bool] | None:
    """Seconds that one rank stands still with requests pending, and whether its gauges moved meanwhile."""
    found = silences(line, rank)
    if not found or found[-1].seconds < HALT_SECONDS:
        return None
    alike = [each for each in found[:-1] if LONGEST * each.seconds > found[-1].seconds]
    late = max((each.seconds for each in alike if flowed(line, rank, each)), default=0.0)
    if found[-1].seconds < least(line, HALT_SECONDS, max(late, longest(line))):
        return None
    pending = pending_in(line, rank, found[-1])
    if not pending:
        return None
    moving = len(set(pending)) > 1
    return (found[-1].seconds, moving) if moving or _live(line, rank, pending[-1]) else None


def _live(line: Timeline, rank: str | None, last: tuple[float, float]) -> bool:
    """Say whether gauges that stand still agree with what began and did not end: a stale one holds more.

    Where only ends are counted: more must be pending than ended last, with which a gauge may have stopped.
    """
    at_first = line.gauge(m.RUNNING, rank)
    begun, ended = line.histogram(m.TTFT, rank), line.delta(m.FINISHED, rank)
    if at_first is None or begun is None or ended is None:
        return False
    if ends_only(line):
        done = [value for _, value in line.series(m.FINISHED, rank)]
        return sum(last) > max((b - a for a, b in itertools.pairwise(done) if b != a), default=0.0)
    return at_first.first + begun.count - ended >= LIVE * last[0]
