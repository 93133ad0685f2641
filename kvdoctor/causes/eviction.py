"""Blame capacity when reusable blocks are evicted before the prompts that need them come back."""

from __future__ import annotations

import math

from kvdoctor import metrics as m
from kvdoctor.case import COST, Case
from kvdoctor.causes.common import NO_TRAFFIC, more_room
from kvdoctor.histogram import Histogram
from kvdoctor.model import Advice, Basis, Bound, Evidence, Finding, Gap, Metric, Verdict
from kvdoctor.units import duration

LOW_HITS = 0.7
"""Hit rate from which eviction cannot be the main loss: most of what could be reused is."""
MIXED = 0.1
"""Share of requests that must hit almost wholly, and share that must miss almost wholly, before the prompts are
believed to repeat: new prompts behind one common prefix all look alike."""
HIT_WHOLLY, MISS_WHOLLY = 0.4, 0.6
"""Computed over prompt tokens, below and above which a request counts as hit or missed."""
SAME_PROMPTS = 0.5
"""Cached tokens of a request that hit over the mean prompt, below which those that hit are other, shorter prompts
than those that miss: the same prompts, hit at one time and lost at another, save at least 1 - HIT_WHOLLY of it."""
CLOSE = 0.5
"""Mean reuse gap over mean idle time at eviction, from which blocks are lost just before their next use."""

_ROOM = "give the prefix cache more room: a larger pool, fp8 KV, or a CPU tier with prefetch"

_OPT_IN = Gap(
    "evictions",
    "whether evicted blocks were wanted again is not among the counters",
    "restart vLLM with --kv-cache-metrics, or watch the hit rate after giving the pool twice the blocks",
)


def retention_seconds(case: Case) -> float | None:
    """Seconds an unreferenced block stays: evictable pool over the rate at which new tokens fill it."""
    t, pool = case.traffic, pool_tokens(case)
    if not pool or t.computed is None or t.usage is None or not t.seconds > 0:
        return None
    filled = (t.computed + t.generated) / t.seconds
    return pool * max(0.0, 1 - t.usage.mean) / filled if filled else math.inf


def pool_tokens(case: Case) -> float | None:
    """Tokens that the pools of all ranks hold; None when unknown."""
    return case.traffic.pool_tokens * len(case.timeline.ranks) if case.traffic.pool_tokens else None


def ever_computed(case: Case) -> float | None:
    """Tokens that filled blocks since the engine started: prompts computed, and outputs; None when not told."""
    computed, generated = case.timeline.total(m.PROMPT_COMPUTED), case.timeline.total(m.GENERATED)
    return None if computed is None or generated is None else computed + generated


def ever_evicted(case: Case) -> bool | None:
    """Say whether the engine counts evictions, or has computed more tokens in its life than its pool holds."""
    counted = case.timeline.total(m.EVICTED)
    if counted is not None:
        return counted > 0
    computed, pool = ever_computed(case), pool_tokens(case)
    return None if computed is None or pool is None else computed > pool


def share_between(histogram: Histogram, low: float, high: float) -> float:
    """Share of observations in buckets that lie wholly between two values."""
    lows = (0.0, *histogram.bounds[:-1])
    rows = zip(lows, histogram.bounds, histogram.counts, strict=True)
    inside = sum(n for a, b, n in rows if a >= low and b <= high)
    return inside / histogram.count if histogram.count else 0.0


def hit_and_miss(case: Case) -> tuple[float, float] | None:
    """Shares of requests that were computed hardly at all, and almost wholly; None without the histogram."""
    computed, prompt = case.timeline.histogram(m.REQUEST_COMPUTED), case.traffic.prompt_per_request
    if computed is None or not computed.count or not prompt:
        return None
    hit = share_between(computed, 0.0, HIT_WHOLLY * prompt)
    miss = 1 - share_between(computed, 0.0, MISS_WHOLLY * prompt)
    return hit, miss


def saved_by_a_hit(case: Case, mixed: tuple[float, float] | None) -> float | None:
    """Cached tokens a request that hit, at most: partial hits of others are counted in. None when unknown."""
    begun, hits = case.traffic.first_tokens, case.traffic.hits
    return hits / (mixed[0] * begun) if mixed and mixed[0] and begun and hits is not None else None


def _repeats(case: Case, mixed: tuple[float, float] | None) -> bool:
    """Say whether prompts of the same kind hit wholly at some times and miss wholly at others."""
    saved, prompt = saved_by_a_hit(case, mixed), case.traffic.prompt_per_request
    if mixed is None or saved is None or not prompt:
        return False
    return min(mixed) >= MIXED and saved >= SAME_PROMPTS * prompt


def _evidence(case: Case, kept: float | None, mixed: tuple[float, float] | None) -> tuple[Evidence, ...]:
    of = (m.CACHE_CONFIG, m.PROMPT_COMPUTED, m.GENERATED, m.KV_CACHE_USAGE)
    evicted = case.timeline.delta(m.EVICTED)
    counted = case.evidence("tokens evicted in the window", evicted, "tokens", of=(m.EVICTED,))
    rows = (
        case.evidence("tokens computed since the start", ever_computed(case), "tokens",
                      threshold=pool_tokens(case), of=(m.PROMPT_COMPUTED, m.GENERATED)),
        case.evidence("an unreferenced block stays", kept, "seconds", threshold=case.traffic.seconds, of=of),
        case.evidence("prefix cache hit rate", case.traffic.hit_rate, "ratio", threshold=LOW_HITS,
                      of=(m.PREFIX_HITS, m.PREFIX_QUERIES)),
        case.evidence("requests that hit almost wholly", mixed[0] if mixed else None, "ratio",
                      threshold=MIXED, of=(m.REQUEST_COMPUTED,)),
        case.evidence("requests that miss almost wholly", mixed[1] if mixed else None, "ratio",
                      threshold=MIXED, of=(m.REQUEST_COMPUTED,)),
        case.evidence("cached tokens of a request that hit", saved_by_a_hit(case, mixed), "tokens",
                      threshold=SAME_PROMPTS * (case.traffic.prompt_per_request or 0),
                      of=(m.PREFIX_HITS, m.REQUEST_COMPUTED)),
    )  # fmt: skip
    return rows if evicted is None else (counted, *rows)


def _sampled(case: Case) -> bool:
    """Say whether sampled evictions show blocks lost just before their next use."""
    gap, idle = case.timeline.histogram(m.REUSE_GAP), case.timeline.histogram(m.IDLE_BEFORE_EVICT)
    if gap is None or idle is None or gap.mean is None or idle.mean is None:
        return False
    return gap.mean >= CLOSE * idle.mean


def _finding(verdict: Verdict, why: str, evidence: tuple[Evidence, ...] = (), cost: float = 0.0,
             *, gaps: tuple[Gap, ...] = (), advice: tuple[Advice, ...] = ()) -> Finding:  # fmt: skip
    metric = Metric.TTFT if cost else None
    gain = cost or None
    return Finding(
        Bound.CAPACITY, verdict, "prefix_eviction", why, metric, cost, gain, evidence, gaps, advice
    )


def check(case: Case) -> tuple[Finding, ...]:
    """Rule out by arithmetic first; then ask how long a block stays, and whether the prompts repeat at all."""
    evicted, kept, hits = ever_evicted(case), retention_seconds(case), case.traffic.hit_rate
    mixed = hit_and_miss(case)
    evidence = _evidence(case, kept, mixed)
    if evicted is False:
        why = "All tokens ever computed fit into the pool: nothing was evicted."
        if case.timeline.has(m.EVICTED):
            why = "The engine counts evictions, and there was none since it started."
        return (_finding(Verdict.RULED_OUT, why, evidence),)
    if evicted is None:
        return (_finding(Verdict.NO_DATA, "Pool size or token counters are missing.", gaps=(_OPT_IN,)),)
    if kept is None:
        why = "How long a block stays is told only by a window and the pool's usage."
        return (_finding(Verdict.NO_DATA, why, gaps=(NO_TRAFFIC,)),)
    if hits is None:
        return (_finding(Verdict.RULED_OUT, "Nothing was looked up in the prefix cache.", evidence),)
    if kept > case.traffic.seconds and not _sampled(case):
        why = f"An unreferenced block stays {duration(kept)}: only prompts that come back later lose it."
        return (_finding(Verdict.RULED_OUT, why, evidence),)
    if hits >= LOW_HITS:
        return (_finding(Verdict.RULED_OUT, "The pool turns over, and prompts still hit.", evidence),)
    return (_judge(case, kept, mixed, evidence),)


def _judge(
    case: Case, kept: float, mixed: tuple[float, float] | None, evidence: tuple[Evidence, ...]
) -> Finding:
    cost = case.prefill_cost * (mixed[1] if mixed else 1.0)
    advice = (
        Advice(
            more_room(case, _ROOM),
            f"up to {duration(cost)} of a request, if the prompts' working set then fits",
            Basis.UPPER_BOUND,
            cost,
        ),
        Advice(
            "route requests with the same prefix to the same replica, which shrinks the working set of each",
            "the same prefill, with no memory bought",
            Basis.UPPER_BOUND,
        ),
    )
    if case.share(cost) >= COST and (_repeats(case, mixed) or _sampled(case)):
        why = (
            f"Prompts repeat, some hit wholly and others not at all, and the pool turns over: "
            f"an unreferenced block stays only {duration(kept)}."
        )
        return _finding(Verdict.LIKELY, why, evidence, cost, gaps=() if _sampled(case) else (_OPT_IN,),
                        advice=advice)  # fmt: skip
    why = f"Blocks are evicted after {duration(kept)}; that they were wanted again is not shown."
    return _finding(Verdict.POSSIBLE, why, evidence, cost if case.traffic.hits else 0.0, gaps=(_OPT_IN,))
