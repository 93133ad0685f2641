"""Blame the hit rate when it fell against a server's own past, and the prompts look like those of before."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from kvdoctor import metrics as m
from kvdoctor.case import COST, Case
from kvdoctor.causes.eviction import MIXED, share_between
from kvdoctor.histogram import Histogram, less
from kvdoctor.model import Advice, Basis, Bound, Evidence, Finding, Gap, Metric, Verdict
from kvdoctor.timeline import Timeline
from kvdoctor.units import count, duration, percent

PAST_TOKENS = 10_000
"""Tokens that must have been looked up before the window for the past to be a yardstick: some twenty prompts."""
FELL_BY = 0.2
"""Drop of the hit rate, absolute, that counts as a fall."""
FELL_TO = 0.7
"""Hit rate now over before, below which a drop counts as a fall."""
OTHER_PROMPTS = 1.25
"""Mean prompt over that of before, either way, from which other prompts come than before. Of the same load the mean
of a window moved by under 2% on the lab's runs and on the recordings of vLLM."""
OTHER_OUTPUTS = 2.0
"""Mean output likewise: lengths of answers scatter, and a window holds few."""
OTHER_LOAD = 2.0
"""Requests per second, and requests at a time, likewise: from both on the load is another one. Lost hits alone slow
closed loops down, to a third of the rate in the lab, with up to 1.6 times as many at a time."""
AS_BEFORE = 1.5
"""Tokens computed for a request over the mean before the fall, up to which it hits as before."""

PROMPTS = Gap(
    "prompts",
    "counters cannot tell prompts that are new from prompts that differ by one early token",
    "compare the first 1,000 tokens of a few real prompts (template, date, user id, salt), or switch on KV events",
)
LOAD = Gap("load", "the load changed as well, and prompts that are new cannot hit", PROMPTS.cure)
_PAST = Gap(
    "past",
    "too few tokens were looked up before the window to compare its hit rate with",
    "record again later and compare: kvdoctor diff A B",
)


@dataclass(frozen=True, slots=True)
class _Load:
    """What came in a stretch of time. Zero where not told."""

    rate: float
    """Requests per second."""
    at_a_time: float
    """Requests that ran or waited at a time, by those that ended (Little's law)."""
    prompt: float
    """Tokens of a prompt in the mean."""
    output: float
    """Tokens of an output in the mean, by the requests that ended."""


@dataclass(frozen=True, slots=True)
class _Fall:
    """The hit rate before and now, and the stretch that is now."""

    before: float
    now: float
    old: _Load
    new: _Load
    part: Timeline


def hit_finding(
    verdict: Verdict, subclass: str, why: str, cost: float = 0.0, evidence: tuple[Evidence, ...] = (),
    *, gaps: tuple[Gap, ...] = (), advice: tuple[Advice, ...] = (), gain: float | None = None,
) -> Finding:  # fmt: skip
    """Build a finding on the hit rate; what it costs is TTFT."""
    metric = Metric.TTFT if cost else None
    if gain is None and cost and verdict is Verdict.LIKELY:
        gain = cost
    return Finding(Bound.HIT_RATE, verdict, subclass, why, metric, cost, gain, evidence, gaps, advice)


def past_rate(case: Case) -> float | None:
    """Hit rate from the engine's start to the window's start; None over too few tokens to be a yardstick."""
    hits, queries = case.timeline.total(m.PREFIX_HITS), case.timeline.total(m.PREFIX_QUERIES)
    t = case.traffic
    if hits is None or queries is None or t.hits is None or t.queries is None:
        return None
    before = queries - t.queries
    return (hits - t.hits) / before if before >= PAST_TOKENS else None


def within_rates(case: Case) -> tuple[float, float] | None:
    """Best and last hit rate over thirds of the window; None where a third looked up too little."""
    hits, queries = case.timeline.series(m.PREFIX_HITS), case.timeline.series(m.PREFIX_QUERIES)
    if len(hits) != len(queries) or len(hits) < 7:
        return None
    edges = [0, len(hits) // 3, 2 * len(hits) // 3, len(hits) - 1]
    rates = []
    for a, b in itertools.pairwise(edges):
        looked = queries[b][1] - queries[a][1]
        if looked < PAST_TOKENS / 3:
            return None
        rates.append((hits[b][1] - hits[a][1]) / looked)
    return max(rates[:-1]), rates[-1]


def _recomputed(case: Case, lost: float) -> float:
    """Seconds of a request for computing a share of its prompt that used to hit."""
    t = case.traffic
    if not t.computed or not t.prompt_tokens:
        return 0.0
    return case.prefill_cost / t.computed * t.prompt_tokens * lost


def _dropped(before: float, now: float) -> bool:
    return before - now >= FELL_BY and now < FELL_TO * before


def _load(line: Timeline) -> _Load:
    """What came between the two ends of a stretch."""
    return _sums(line.seconds, line.histogram(m.TTFT), line.histogram(m.E2E), line.histogram(m.OUTPUT_LENGTH),
                 line.delta(m.PROMPT_TOKENS) or 0.0)  # fmt: skip


def _past_load(line: Timeline) -> _Load:
    """What came from the engine's start to the window's start."""
    start = line.gauge(m.PROCESS_START)
    lived = line.source.wall + line.source.at[max(0, line.first)] - start.last if start is not None else 0.0
    first, ended, outputs = (
        less(line.lifetime(q), line.histogram(q)) for q in (m.TTFT, m.E2E, m.OUTPUT_LENGTH)
    )
    prompts = (line.total(m.PROMPT_TOKENS) or 0.0) - (line.delta(m.PROMPT_TOKENS) or 0.0)
    return _sums(lived, first, ended, outputs, prompts)


def _sums(
    seconds: float,
    first: Histogram | None,
    ended: Histogram | None,
    outputs: Histogram | None,
    prompts: float,
) -> _Load:
    begun, held = first.count if first is not None else 0.0, ended.total if ended is not None else 0.0
    return _Load(
        rate=begun / seconds if seconds > 0 else 0.0,
        at_a_time=held / seconds if seconds > 0 else 0.0,
        prompt=prompts / begun if begun else 0.0,
        output=(outputs.mean or 0.0) if outputs is not None else 0.0,
    )


def _fall(case: Case) -> _Fall | None:
    """Return the fall within the window, else that against the past; with no fall, what would have been one.

    None without anything to compare with.
    """
    now, past, within = case.traffic.hit_rate, past_rate(case), within_rates(case)
    line = case.timeline
    if within is not None and _dropped(*within):
        cut = line.first + 2 * (line.last - line.first) // 3
        first = Timeline(line.source, line.engine, line.first, cut)
        last = Timeline(line.source, line.engine, cut, line.last)
        return _Fall(*within, _load(first), _load(last), last)
    if now is None or past is None:
        return None
    return _Fall(past, now, _past_load(line), _load(line), line)


def _apart(one: float, other: float, most: float) -> bool:
    """Say whether two figures differ by more than a factor; never where one is not told."""
    return one > 0 < other and max(one, other) > most * min(one, other)


def _other_rate(fall: _Fall) -> bool:
    return _apart(fall.old.rate, fall.new.rate, OTHER_LOAD)


def _doubt(fall: _Fall) -> str:
    """Say why the prompts of now may be other ones than those that hit before; empty where they look the same."""
    old, new = fall.old, fall.new
    if _apart(old.prompt, new.prompt, OTHER_PROMPTS):
        return f"prompts of {count(new.prompt)} tokens came where {count(old.prompt)} were the mean"
    if _apart(old.output, new.output, OTHER_OUTPUTS):
        return f"outputs have {count(new.output)} tokens where {count(old.output)} were the mean"
    if _other_rate(fall) and _apart(old.at_a_time, new.at_a_time, OTHER_LOAD):
        return f"{new.at_a_time:.2g} requests run at a time where {old.at_a_time:.2g} were the mean"
    computed = fall.part.histogram(m.REQUEST_COMPUTED)
    few = AS_BEFORE * (1 - fall.before) * new.prompt
    hit = share_between(computed, 0.0, few) if computed is not None else 0.0
    if hit >= MIXED:
        return f"{percent(hit)} of the requests still hit as before"
    return ""


def fell(case: Case) -> Finding:
    """The hit rate fell against this server's own past, for prompts that look like those of before."""
    fall = _fall(case)
    now = fall.now if fall else case.traffic.hit_rate
    before = fall.before if fall else past_rate(case)
    evidence = (
        case.evidence("hit rate now", now, "ratio", threshold=None if before is None else FELL_TO * before,
                      of=(m.PREFIX_HITS, m.PREFIX_QUERIES)),
        case.evidence("hit rate before", before, "ratio", of=(m.PREFIX_HITS, m.PREFIX_QUERIES)),
    )  # fmt: skip
    if fall is None:
        why = "No past to compare with: too few tokens were looked up before the window."
        return hit_finding(Verdict.NO_DATA, "fell", why, evidence=evidence, gaps=(_PAST,))
    if not _dropped(fall.before, fall.now):
        why = "The hit rate is about what it was on this server."
        return hit_finding(Verdict.RULED_OUT, "fell", why, evidence=evidence)
    return _fallen(case, fall, evidence)


def _fallen(case: Case, fall: _Fall, evidence: tuple[Evidence, ...]) -> Finding:
    cost = _recomputed(case, fall.before - (case.traffic.hit_rate or 0.0))
    gain = _recomputed(case, fall.before - fall.now)
    why = f"The hit rate fell from {percent(fall.before)} to {percent(fall.now)} on this very server."
    if case.share(cost) < COST:
        return hit_finding(Verdict.POSSIBLE, "fell", why + " It costs little so far.", cost, evidence)
    lengths = (
        case.evidence("mean prompt now", fall.new.prompt, "tokens", of=(m.PROMPT_TOKENS,)),
        case.evidence("mean prompt before", fall.old.prompt or None, "tokens", of=(m.PROMPT_TOKENS,)),
    )
    doubt = _doubt(fall)
    if doubt:
        why += f" But {doubt}: the prompts are new, as far as counters tell, and new ones cannot hit."
        return hit_finding(Verdict.POSSIBLE, "fell", why, cost, evidence + lengths, gaps=(PROMPTS,))
    why += " If the prompts are not new ones of the same length, their front has changed."
    what = "find what changed at the front of the prompts: template, system prompt, date, tool list, salt"
    back = f"{duration(gain)} of a request as they are now, back to {percent(fall.before)} hits"
    gap = LOAD if _other_rate(fall) else PROMPTS
    return hit_finding(Verdict.LIKELY, "fell", why, cost, evidence + lengths, gaps=(gap,),
                       advice=(Advice(what, back, Basis.MODELLED, gain),), gain=gain)  # fmt: skip
