"""Times in which an engine stood still with requests pending, and after which it went on."""

from __future__ import annotations

import itertools
import math
import statistics

from kvdoctor import metrics as m
from kvdoctor.halt import Halt
from kvdoctor.histogram import less
from kvdoctor.silence import (
    HALT_SECONDS,
    LONGEST,
    Silence,
    flowed,
    gained,
    least,
    longest,
    pending_in,
    silences,
)
from kvdoctor.timeline import Timeline

PART = 0.15
"""Share of the window in silences that ended, from which they are the answer to it, as for a cause."""
ONCE_SECONDS, AGAIN_SECONDS = 5.0, 3.0
"""Silence that counts by itself, and where there are several: a single short one may be a reading that came late."""
COMPUTED = 0.25
"""Seconds of prefill that the tokens computed in a silence take as those before the window took, over the silence,
under which it is not theirs. Prefills overlap, so that this time is rather too long."""
REFRESHES = 3.0
"""Silence over the usual time between changes of anything on the page: a page may be kept, and given out again."""
LONG_PROMPTS = 5.0
"""Mean prompt after a silence over that before it, from which the silence may be a prefill of unusual length."""
LONGER_PROMPTS = 2.0
"""Mean prompt whose first token ends one of several silences over that of the others, likewise."""

Silences = tuple[Silence, ...]


def paused(line: Timeline) -> Halt | None:
    """Return the silences of the whole engine that ended in the window, if together they are a good part of it."""
    found = frozen(line)
    seconds = sum(silence.seconds for silence in found)
    if not found or seconds < PART * line.seconds:
        return None
    return Halt(seconds, (), True, line.source.at[line.last] - found[-1].end, len(found))


def frozen(line: Timeline) -> Silences:
    """Return the silences that ended in the window with requests pending, and that no prefill explains.

    No longer than prefills, or requests, took before the window: there it may be one more of them. Where nothing is
    known of before, no longer than the other silences, and without a prompt of unusual length at its end.
    """
    if line.first < 0:
        return ()
    long = [silence for silence in silences(line, None)[:-1] if silence.seconds >= AGAIN_SECONDS]
    over = [silence for silence in long if not flowed(line, None, silence)]
    return _short(line, over) or _long(line, over)


def _long(line: Timeline, over: list[Silence]) -> Silences:
    """The longest silence, if it is long whatever nobody knows of the time before the window."""
    found = max(over, key=lambda silence: silence.seconds, default=None)
    if found is None or not pending_in(line, None, found):
        return ()
    growth, before = _prompt_growth(line, found), longest(line, before=True)
    if math.isinf(before) and growth:  # nothing is known of before the window: the others in it tell
        before = max((silence.seconds for silence in over if silence is not found), default=0.0)
    long = found.seconds >= least(line, HALT_SECONDS, before) and growth < LONG_PROMPTS
    return (found,) if long else ()


def _short(line: Timeline, over: list[Silence]) -> Silences:
    """All that are longer than any prefill before, unless those that were computed meanwhile had long prompts."""
    enough, before = least(line, AGAIN_SECONDS, 0.0), LONGEST * longest(line, before=True)
    found = tuple(
        s
        for s in over
        if s.seconds >= min(max(enough, before), max(enough, _prompts_take(line, s) / COMPUTED))
        and pending_in(line, None, s)
    )
    long_prompts = _longer_than_before(line) if line.engine.at_finish else _end_with_long_prompts(line, found)
    if found:
        least_now = REFRESHES * _refresh(line)
        found = tuple(s for s in found if s.seconds >= least_now)
    counts = len(found) > 1 or any(silence.seconds >= ONCE_SECONDS for silence in found)
    return found if counts and not long_prompts else ()


def _refresh(line: Timeline) -> float:
    """Median seconds between readings at which anything on the page had changed; 0 with too few."""
    changed = {i for column in line.source.columns for i in column.index if line.first <= i <= line.last}
    times = sorted(line.source.at[i] for i in changed)
    steps = [b - a for a, b in itertools.pairwise(times)]
    return statistics.median(steps) if steps else 0.0


def _prompts_take(line: Timeline, silence: Silence) -> float:
    """Seconds that the prompts that were through when a silence ended take, by those before the window.

    Infinite where not told, where tokens are counted only when requests end, and with an encoder, whose time goes
    with no tokens.
    """
    seen, tokens = less(line.lifetime(m.PREFILL), line.histogram(m.PREFILL)), line.total(m.PROMPT_COMPUTED)
    if line.engine.at_finish or line.delta(m.MM_QUERIES) or seen is None or tokens is None:
        return math.inf
    before = tokens - (line.delta(m.PROMPT_COMPUTED) or 0.0)
    taken = gained(line.series(m.PROMPT_COMPUTED), silence.start, silence.end)
    return taken * seen.total / before if before > 0 and seen.count > 0 else math.inf


def _begun(line: Timeline) -> list[tuple[float, float]]:
    return line.sample_series(m.TTFT, "count") or line.series(m.FINISHED)


def _prompt_growth(line: Timeline, silence: Silence) -> float:
    """Mean length of the prompts counted after a silence over that of those before: a prefill of unusual length
    may have filled it. 0 where either is not told."""
    before = _mean_prompt(line, ((-math.inf, silence.start),))
    return _mean_prompt(line, ((silence.start, math.inf),)) / before if before else 0.0


def _end_with_long_prompts(line: Timeline, found: Silences) -> bool:
    """Say whether the prompts that were through when the silences ended are longer than the others."""
    ends = [-math.inf, *(edge for silence in found for edge in (silence.start, silence.end)), math.inf]
    others = _mean_prompt(line, tuple(zip(ends[::2], ends[1::2], strict=True)))
    return _mean_prompt(line, tuple((s.start, s.end) for s in found)) >= LONGER_PROMPTS * others


def _longer_than_before(line: Timeline) -> bool:
    """Say whether prompts are longer than before the window, where they are counted long after their prefill; so
    they may be where nothing tells."""
    tokens, ended = (line.total(quantity) for quantity in (m.PROMPT_TOKENS, m.FINISHED))
    now = [line.delta(quantity) for quantity in (m.PROMPT_TOKENS, m.FINISHED)]
    if not tokens or not ended or now[0] is None or not now[1] or ended <= now[1]:
        return True
    before = (tokens - now[0]) / (ended - now[1])
    return now[0] / now[1] >= LONGER_PROMPTS * before


def _mean_prompt(line: Timeline, times: tuple[tuple[float, float], ...]) -> float:
    """Mean length of the prompts counted in stretches of time; 0 where none was."""
    tokens, begun = line.series(m.PROMPT_TOKENS), _begun(line)
    number = sum(gained(begun, *each) for each in times)
    return sum(gained(tokens, *each) for each in times) / number if number else 0.0
