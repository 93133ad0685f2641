"""The times in which no token came, who was pending in them, and how long one must be to be no prefill."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from kvdoctor import metrics as m
from kvdoctor.histogram import less
from kvdoctor.timeline import Timeline

HALT_SECONDS = 10.0
"""Time without any token from which pending work counts as stalled: a long prefill can take seconds."""
LONGEST = 2.0
"""Silence over the longest prefill (else TTFT) in the engine's life, from which it is no prefill as they are here.
Where only the end of a request is counted, over the longest request."""
REFRESHED = 1.2
"""Silence over the period of an engine's gauges, from which they were read anew in it: who is pending then and not
counted as ended stays pending."""

FLOWED = 0.6
"""Tokens a second over a silence, its end included, over those of the window, from which they flowed and only their
counter stood still: one that is brought up to date every few seconds, or a page that is kept for a while."""
_PROGRESS = (m.GENERATED, m.PROMPT_COMPUTED, m.FINISHED, m.STEPS)
_LIFE = (m.KV_CACHE_USAGE, m.RUNNING)
"""Gauges that move while an engine runs, which tell so where counters move at the end of a request only."""


@dataclass(frozen=True, slots=True)
class Silence:
    """A stretch of time in which no progress was counted."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


def pending_in(line: Timeline, rank: str | None, silence: Silence) -> list[tuple[float, float]]:
    """(running, waiting) at each reading of a silence; empty where too few tell, or nobody was there for one."""
    running, waiting = (
        [value for at, value in line.series(gauge, rank) if silence.start <= at <= silence.end]
        for gauge in (m.RUNNING, m.WAITING)
    )
    if len(running) < 3 or len(waiting) != len(running):
        return []
    pending = list(zip(running, waiting, strict=True))
    return pending if min(a + b for a, b in pending) > 0 else []


def ends_only(line: Timeline) -> bool:
    """Say whether nothing is counted before a request ends."""
    return line.engine.at_finish and not line.has(m.STEPS)


def silences(line: Timeline, rank: str | None) -> list[Silence]:
    """The times between tokens, steps or requests, the last one up to the last reading; none where nothing tells.

    Where only ends are counted, a gauge that moves is a sign of life as well.
    """
    if not any(line.series(q, rank) for q in (m.GENERATED, m.STEPS)):
        return []
    signs = (*_PROGRESS, *_LIFE) if ends_only(line) else _PROGRESS
    courses = [points for q in signs if (points := line.series(q, rank))]
    moves = {b[0] for points in courses for a, b in itertools.pairwise(points) if b[1] != a[1]}
    edges = [courses[0][0][0], *sorted(moves), line.source.at[line.last]]
    return [Silence(a, b) for a, b in itertools.pairwise(edges)]


def least(line: Timeline, seconds: float, longest: float) -> float:
    """Seconds of silence from which it is no prefill, and no request that ends late, as they are here."""
    return max(seconds, REFRESHED * line.engine.gauge_period, LONGEST * longest)


def longest(line: Timeline, *, before: bool = False) -> float:
    """Upper end of the highest bucket of what one silence may hold, since the engine started, or up to the window.

    0 where not told; infinite where it should be.
    """
    blind = ends_only(line) and not line.has(m.KV_CACHE_USAGE)
    for quantity in (m.E2E,) if blind else (m.PREFILL, m.TTFT):
        seen = line.lifetime(quantity)
        if before:
            seen = less(seen, line.histogram(quantity))
        if seen is not None and seen.count > 0:
            rows = zip(seen.bounds, seen.counts, strict=True)
            return max((bound for bound, count in rows if count > 0 and math.isfinite(bound)), default=0.0)
    return math.inf if blind or before else 0.0


def gained(points: list[tuple[float, float]], start: float, end: float) -> float:
    """What a counter gained from one time to another, both among those of its readings."""
    inside = [value for at, value in points if start <= at <= end]
    return inside[-1] - inside[0] if inside else 0.0


def flowed(line: Timeline, rank: str | None, silence: Silence) -> bool:
    """Say whether as many tokens are counted at the end of a silence as came of it if there was none."""
    tokens = line.delta(m.GENERATED, rank)
    if not tokens or not line.seconds > 0:
        return False
    rate = gained(line.series(m.GENERATED, rank), silence.start, silence.end) / silence.seconds
    return rate >= FLOWED * tokens / line.seconds
