"""Ranks that stopped while requests were pending: up to the last reading, or for a good part of the window."""

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
PART = 0.25
"""Share of the window from which a silence that ended is the answer to it: what else is counted is its doing."""
LONG_PROMPTS = 5.0
"""Mean prompt after a silence over that before it, from which the silence may be a prefill of unusual length."""
LIVE = 0.5
"""Requests that began and did not end, over those that a gauge says to run, from which the gauge is believed."""

_PROGRESS = (m.GENERATED, m.PROMPT_COMPUTED, m.FINISHED, m.STEPS)
_LIFE = (m.KV_CACHE_USAGE, m.RUNNING)
"""Gauges that move while an engine runs, which tell so where counters move at the end of a request only."""


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


@dataclass(frozen=True, slots=True)
class _Silence:
    """A stretch of time in which no progress was counted."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


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


def paused(line: Timeline) -> Halt | None:
    """Return the longest silence of the whole engine that ended in the window, if it is a good part of it.

    No longer than prefills, or requests, took before the window: there it may be one more of them. Where nothing is
    known of before, no longer than the other silences, and without a prompt of unusual length at its end.
    """
    over = _silences(line, None)[:-1] if line.first >= 0 else []
    longest = max(over, key=lambda silence: silence.seconds, default=None)
    if longest is None or longest.seconds < PART * line.seconds or not _pending(line, None, longest):
        return None
    growth = _prompt_growth(line, longest)
    least = _least(line, before=True)
    if math.isinf(least) and growth:  # nothing is known of before the window: the others in it tell
        others = sorted(silence.seconds for silence in over)[:-1]
        least = max(HALT_SECONDS, REFRESHED * line.engine.gauge_period, LONGEST * max(others, default=0.0))
    if longest.seconds < least or growth >= LONG_PROMPTS:
        return None
    return Halt(longest.seconds, (), True, line.source.at[line.last] - longest.end)


def _prompt_growth(line: Timeline, silence: _Silence) -> float:
    """Mean length of the prompts counted after a silence over that of those before: a prefill of unusual length
    may have filled it. 0 where either is not told."""
    begun = line.sample_series(m.TTFT, "count") or line.series(m.FINISHED)
    means = []
    for start, end in ((-math.inf, silence.start), (silence.start, math.inf)):
        tokens, requests = (
            [value for at, value in points if start <= at <= end]
            for points in (line.series(m.PROMPT_TOKENS), begun)
        )
        number = requests[-1] - requests[0] if requests else 0.0
        means.append((tokens[-1] - tokens[0]) / number if tokens and number else 0.0)
    return means[1] / means[0] if means[0] else 0.0


def _halt(line: Timeline, rank: str | None) -> tuple[float, bool] | None:
    """Seconds that one rank stands still with requests pending, and whether its gauges moved meanwhile."""
    silences = _silences(line, rank)
    if not silences or silences[-1].seconds < _least(line):
        return None
    pending = _pending(line, rank, silences[-1])
    if not pending:
        return None
    moving = len(set(pending)) > 1
    return (silences[-1].seconds, moving) if moving or _live(line, rank, pending[-1]) else None


def _pending(line: Timeline, rank: str | None, silence: _Silence) -> list[tuple[float, float]]:
    """(running, waiting) at each reading of a silence; empty where too few tell, or nobody was there for one."""
    running, waiting = (
        [value for at, value in line.series(gauge, rank) if silence.start <= at <= silence.end]
        for gauge in (m.RUNNING, m.WAITING)
    )
    if len(running) < 3 or len(waiting) != len(running):
        return []
    pending = list(zip(running, waiting, strict=True))
    return pending if min(a + b for a, b in pending) > 0 else []


def _ends_only(line: Timeline) -> bool:
    """Say whether nothing is counted before a request ends."""
    return line.engine.at_finish and not line.has(m.STEPS)


def _silences(line: Timeline, rank: str | None) -> list[_Silence]:
    """The times between tokens, steps or requests, the last one up to the last reading; none where nothing tells.

    Where only ends are counted, a gauge that moves is a sign of life as well.
    """
    if not any(line.series(q, rank) for q in (m.GENERATED, m.STEPS)):
        return []
    signs = (*_PROGRESS, *_LIFE) if _ends_only(line) else _PROGRESS
    courses = [points for q in signs if (points := line.series(q, rank))]
    moves = {b[0] for points in courses for a, b in itertools.pairwise(points) if b[1] != a[1]}
    edges = [courses[0][0][0], *sorted(moves), line.source.at[line.last]]
    return [_Silence(a, b) for a, b in itertools.pairwise(edges)]


def _least(line: Timeline, *, before: bool = False) -> float:
    """Seconds of silence from which it is no prefill, and no request that ends late, as they are here."""
    return max(HALT_SECONDS, REFRESHED * line.engine.gauge_period, LONGEST * _longest(line, before))


def _longest(line: Timeline, before: bool) -> float:
    """Upper end of the highest bucket of what one silence may hold, since the engine started, or up to the window.

    0 where not told; infinite where it should be.
    """
    blind = _ends_only(line) and not line.has(m.KV_CACHE_USAGE)
    for quantity in (m.E2E,) if blind else (m.PREFILL, m.TTFT):
        seen = line.lifetime(quantity)
        if before:
            seen = less(seen, line.histogram(quantity))
        if seen is not None and seen.count > 0:
            rows = zip(seen.bounds, seen.counts, strict=True)
            return max((bound for bound, count in rows if count > 0 and math.isfinite(bound)), default=0.0)
    return math.inf if blind or before else 0.0


def _live(line: Timeline, rank: str | None, last: tuple[float, float]) -> bool:
    """Say whether gauges that stand still agree with what began and did not end: a stale one holds more.

    Where only ends are counted: more must be pending than ended last, with which a gauge may have stopped.
    """
    at_first = line.gauge(m.RUNNING, rank)
    begun, ended = line.histogram(m.TTFT, rank), line.delta(m.FINISHED, rank)
    if at_first is None or begun is None or ended is None:
        return False
    if _ends_only(line):
        done = [value for _, value in line.series(m.FINISHED, rank)]
        return sum(last) > max((b - a for a, b in itertools.pairwise(done) if b != a), default=0.0)
    return at_first.first + begun.count - ended >= LIVE * last[0]
