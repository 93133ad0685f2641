"""Ranks that stopped in mid-window: requests are pending there, and nothing moves any more up to the last reading."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from kvdoctor import metrics as m
from kvdoctor.timeline import Timeline

HALT_SECONDS = 10.0
"""Time without any token from which pending work counts as stalled: a long prefill can take seconds."""
LONGEST = 2.0
"""Silence over the longest prefill (else TTFT) in the engine's life, from which it is no prefill as they are here.
Where only the end of a request is counted, over the longest request."""
LIVE = 0.5
"""Requests that began and did not end, over those that a gauge says to run, from which the gauge is believed."""

_PROGRESS = (m.GENERATED, m.PROMPT_COMPUTED, m.FINISHED, m.STEPS)


@dataclass(frozen=True, slots=True)
class Halt:
    """What stands still at the end of a window."""

    seconds: float
    """Since the last token of the rank that stands still for the shortest time."""
    ranks: tuple[str, ...]
    """Which ranks; empty for the whole engine."""
    moving: bool
    """Whether a gauge of each still moved: standing ones may be stale."""


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
    since, end = _last_move(line, rank), line.source.at[line.last]
    if since is None or end - since < max(HALT_SECONDS + line.engine.gauge_period, LONGEST * _longest(line)):
        return None
    running, waiting = (
        [point for point in line.series(gauge, rank) if point[0] >= since] for gauge in (m.RUNNING, m.WAITING)
    )
    if len(running) < 3 or len(waiting) != len(running):
        return None
    pending = [(a, b) for (_, a), (_, b) in zip(running, waiting, strict=True)]
    if min(a + b for a, b in pending) <= 0:
        return None
    moving = len(set(pending)) > 1
    return (end - since, moving) if moving or _live(line, rank, pending[-1]) else None


def _last_move(line: Timeline, rank: str | None) -> float | None:
    """When a token, a step or a request was last counted; None where nothing tells."""
    courses = [points for q in _PROGRESS if (points := line.series(q, rank))]
    if not any(line.series(q, rank) for q in (m.GENERATED, m.STEPS)):
        return None
    moves = [b[0] for points in courses for a, b in itertools.pairwise(points) if b[1] != a[1]]
    return max(moves, default=courses[0][0][0])


def _longest(line: Timeline) -> float:
    """Upper end of the highest bucket of what one silence may hold, since the engine started; 0 where not told."""
    ends_only = line.engine.at_finish and not line.has(m.STEPS)
    for quantity in (m.E2E,) if ends_only else (m.PREFILL, m.TTFT):
        seen = line.lifetime(quantity)
        if seen is not None and seen.count > 0:
            rows = zip(seen.bounds, seen.counts, strict=True)
            return max((bound for bound, count in rows if count and math.isfinite(bound)), default=0.0)
    return math.inf if ends_only else 0.0


def _live(line: Timeline, rank: str | None, last: tuple[float, float]) -> bool:
    """Say whether gauges that stand still agree with what began and did not end: a stale one holds more."""
    at_first = line.gauge(m.RUNNING, rank)
    begun, ended = line.histogram(m.TTFT, rank), line.delta(m.FINISHED, rank)
    if at_first is None or begun is None or ended is None:
        return False
    return at_first.first + begun.count - ended >= LIVE * last[0]
