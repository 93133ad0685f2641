"""Hit rate, compute, queueing and bandwidth on the word of a log."""

from __future__ import annotations

import statistics

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.causes.logged.opinion import (
    COST,
    FEW_TOKENS,
    MAIN,
    RIDGE_TOKENS,
    Grade,
    Opinion,
    likely,
    no_data,
    possible,
    ruled_out,
)
from kvdoctor.logview import LogView, Said
from kvdoctor.model import Bound, Evidence, Gap, Metric
from kvdoctor.units import count, duration, percent
from kvdoctor.waiting import FULL

FELL_BY, FELL_TO = 0.2, 0.7
"""Drop of the hit rate, absolute and over before, that counts as a fall (hit_rate)."""
COURSE = 6
"""Lines from which a hit rate has a course; a report states its beginning and its end."""
LOW = 0.5
"""Hit rate below which prompts that could share more are worth a look."""
RISE = 1.2
"""Waiting in the last third over the first, from which arrivals outrun the service."""
BATCHES = 2
"""Prefill batches from which their size is no accident."""
FULL_STEP = 8 * RIDGE_TOKENS
"""Prompt tokens of a prefill batch far above any card's ridge: it computes at the roof, a larger one takes longer."""
_FRONT = "find what differs at the front of the prompts: template, date, user, salt; put it at their end"
_CHUNK = "give prefill its own cards, or a budget of tokens that fits the decode steps' objective"
PROMPTS = Gap(
    "prompts",
    "a hit rate alone cannot tell prompts that are new from prompts that differ by one early token",
    "compare token ids of two prompts that should share (first differing position), and cached tokens of each",
)


def prefill_share(view: LogView) -> float | None:
    """Share of a step's time that prompts take at most, by tokens against the ridge; None unknown."""
    tokens = view.prompt_step_tokens
    return None if tokens is None else min(1.0, tokens / RIDGE_TOKENS)


def _rates(view: LogView) -> list[Said]:
    """Hit rates that the engine told while tokens flowed: one over its last requests only moves with them."""
    told = [s for s in view.of(m.HITS_RATE_GAUGE) if s.labels.get("by") != "client"]
    flowing = {s.at for s in view.of(lm.PROMPT_RATE) if s.value > 0}
    return [s for s in told if s.at in flowing or "row" in s.labels or not flowing]


def _fell(view: LogView) -> Opinion | None:
    said = _rates(view)
    rates = [s.value for s in said]
    told = len({s.labels.get("row") for s in said}) == 1 and "row" in said[0].labels if said else False
    if len(rates) < (2 if told else COURSE):
        return None
    third = max(1, len(rates) // 3)
    middle = rates[third:-third] or rates[:third]
    before, now = max(statistics.fmean(rates[:third]), statistics.fmean(middle)), rates[-1]
    evidence = (
        view.evidence(
            "hit rate at the end", now, "ratio", threshold=FELL_TO * before, of=(m.HITS_RATE_GAUGE,)
        ),
        view.evidence("hit rate before", before, "ratio", of=(m.HITS_RATE_GAUGE,)),
    )
    if before - now < FELL_BY or now >= FELL_TO * before:
        return None
    why = f"The hit rate of this server fell from {percent(before)} to {percent(now)}."
    return likely(Bound.HIT_RATE, "fell", why, Grade.MEASURED, evidence, do=_FRONT, metric=Metric.TTFT)


def _disabled(view: LogView) -> Opinion | None:
    share = prefill_share(view)
    if view.last(lm.CACHING) != 0.0:
        return None
    evidence = (
        view.evidence("prefix caching switched on", 0.0, of=(lm.CACHING,)),
        view.evidence("share of a step's time for prompts, at most", share, "ratio", threshold=COST,
                      of=(lm.PROMPT_RATE, lm.GENERATION_RATE)),
    )  # fmt: skip
    if share is None or share < COST:
        return possible(Bound.HIT_RATE, "disabled", "Prefix caching is switched off.", evidence)
    why = f"Prefix caching is switched off, and prompts take up to {percent(share)} of the steps."
    do = "switch prefix caching on"
    return likely(Bound.HIT_RATE, "disabled", why, Grade.MEASURED, evidence, do=do, metric=Metric.TTFT)


def _common(view: LogView) -> Opinion | None:
    """The prompt itself says how much it shares with the one before: evidence from prompts (rule 8)."""
    shared, whole = view.values(lm.COMMON_PREFIX), view.values(lm.PROMPT_TOKENS)
    if not shared or not whole or not whole[-1]:
        return None
    part = min(1.0, shared[-1] / whole[-1])
    evidence = (
        view.evidence("common prefix of two prompts", shared[-1], "tokens", of=(lm.COMMON_PREFIX,)),
        view.evidence("tokens of the prompt", whole[-1], "tokens", of=(lm.PROMPT_TOKENS,)),
    )
    if part > FELL_TO or (1 - part) * whole[-1] < FULL_STEP:
        return ruled_out(Bound.HIT_RATE, "Prompts share most of their tokens with those before.", evidence)
    why = f"Prompts of {count(whole[-1])} tokens part after {count(shared[-1])}: what follows is computed again."
    return likely(
        Bound.HIT_RATE, "prefix_mismatch", why, Grade.PROVEN, evidence, do=_FRONT, metric=Metric.TTFT
    )


def _too_short(view: LogView) -> Opinion | None:
    """What prompts share is shorter than the smallest piece that can hit: arithmetic, whatever the counters say."""
    block, shared = view.last(lm.BLOCK), view.values(lm.SHARED_PREFIX) or view.values(lm.PROMPT_TOKENS)
    if not block or not shared or max(shared) >= block:
        return None
    evidence = (
        view.evidence("tokens that prompts share, at most", max(shared), "tokens", threshold=block,
                      of=(lm.SHARED_PREFIX, lm.PROMPT_TOKENS)),
        view.evidence("smallest piece that can hit", block, "tokens", of=(lm.BLOCK,)),
    )  # fmt: skip
    why = f"Prompts share {count(max(shared))} tokens at most, and the smallest piece that can hit has {count(block)}."
    do = "longer shared prefixes, or a model, a release or a setting with a smaller unit to match"
    return likely(Bound.HIT_RATE, "short_prefix", why, Grade.PROVEN, evidence, do=do, metric=Metric.TTFT)


NO_HITS = 0.05
"""Hit rate under which a prefix that is known to be shared is not found."""


def _plain_rate(view: LogView) -> float | None:
    """Return a hit rate that was stated, but for SGLang's gauge: that is the last batch's, and 0 between batches."""
    gauge = [s.value for s in view.of(m.HITS_RATE_GAUGE) if "sglang:" not in s.labels.get("as", "")]
    cached, whole = view.last(lm.BATCH_CACHED), view.last(lm.PROMPT_TOKENS)
    if not gauge and cached is not None and whole:
        return cached / whole
    return gauge[-1] if gauge else None


def _known_to_share(view: LogView) -> Opinion | None:
    """Prompts are known to share a prefix, and the cache finds none of it: evidence from prompts (rule 8)."""
    shared, queries, hits = view.last(lm.SHARED_PREFIX), view.last(lm.QUERIES), view.last(lm.HITS)
    rate = hits / queries if queries and hits is not None else view.last(m.HITS_RATE_GAUGE)
    if (
        not (shared or view.of(lm.REPEATED))
        or rate is None
        or rate >= NO_HITS
        or view.last(lm.CACHING) == 0.0
    ):
        return None
    evidence = (
        view.evidence(
            "hit rate", rate, "ratio", threshold=NO_HITS, of=(lm.HITS, lm.QUERIES, m.HITS_RATE_GAUGE)
        ),
        view.evidence("tokens that prompts are known to share", shared, "tokens", of=(lm.SHARED_PREFIX,)),
    )
    known = f"share {count(shared)} tokens" if shared else "repeat"
    why = f"Prompts {known}, and {percent(rate)} of what was looked up hit."
    do = "compare the unit that can hit (attention block size, chunk) with the shared length, then the token ids"
    return likely(Bound.HIT_RATE, None, why, Grade.MEASURED, evidence, do=do, metric=Metric.TTFT)


def _reprocessed(view: LogView) -> Opinion | None:
    """The engine found a match and computed all of it anew: its cache cannot be rolled back to that place."""
    times = len(view.of(lm.REPROCESSED))
    if not times:
        return None
    evidence = (view.evidence("prompts computed anew although they matched", times, of=(lm.REPROCESSED,)),)
    why = f"{count(times)} prompts that matched were computed anew in full: the cache cannot go back to the match."
    do = "keep the whole cache (llama.cpp: --swa-full), or checkpoints of it, or a model without such layers"
    return likely(
        Bound.HIT_RATE, "promised_not_delivered", why, Grade.PROVEN, evidence, do=do, metric=Metric.TTFT
    )


def _keys_differ(view: LogView) -> Opinion | None:
    """Equal tokens get unequal keys: what one process stores, no other finds."""
    if not view.of(lm.KEYS_DIFFER):
        return None
    evidence = (view.evidence("equal tokens with unequal keys", 1.0, of=(lm.KEYS_DIFFER,)),)
    why = "The keys of equal tokens differ: nothing that is stored can be found."
    do = "one deterministic hash on all processes and ranks (sha256), and the same template everywhere"
    return likely(Bound.HIT_RATE, "prefix_mismatch", why, Grade.PROVEN, evidence, do=do, metric=Metric.TTFT)


def hit_rate(view: LogView) -> tuple[Opinion, ...]:
    """Name lost reuse only with proof; a low rate alone is a question (rule 8)."""
    asked = (_keys_differ, _reprocessed, _too_short, _common, _known_to_share, _disabled, _fell)
    for opinion in (ask(view) for ask in asked):
        if opinion is not None:
            return (opinion,)
    rates, share = [s.value for s in _rates(view)], prefill_share(view)
    new, cached = sum(view.values(lm.BATCH_NEW)), sum(view.values(lm.BATCH_CACHED))
    rate = cached / (new + cached) if new + cached else rates[-1] if rates else None
    evidence = (
        view.evidence("hit rate", rate, "ratio", threshold=LOW, of=(m.HITS_RATE_GAUGE, lm.BATCH_CACHED)),
        view.evidence("share of a step's time for prompts, at most", share, "ratio", threshold=COST,
                      of=(lm.PROMPT_RATE, lm.GENERATION_RATE)),
    )  # fmt: skip
    if rate is None:
        return (no_data(Bound.HIT_RATE, "no hit rate was told", "read prefix hits and queries, as counters"),)
    if rate >= LOW or (share is not None and share < COST):
        why = "Most of the prompts hit." if rate >= LOW else "Prompts take too little of the steps to matter."
        return (ruled_out(Bound.HIT_RATE, why, evidence),)
    why = f"{percent(rate)} of the prompt tokens hit; whether they could is not told."
    return (possible(Bound.HIT_RATE, "prefix_mismatch", why, evidence, PROMPTS),)


def compute(view: LogView) -> tuple[Opinion, ...]:
    """Prompts fill the steps: the step's own bound is compute, and whoever waits, waits for it (rule 9)."""
    batches, tokens = view.values(lm.BATCH_NEW), view.step_tokens
    prompt = view.prompt_step_tokens
    size = statistics.fmean(batches) if batches else None
    evidence = (
        view.evidence("tokens of a mean step, at least", tokens, "tokens", threshold=RIDGE_TOKENS,
                      of=(lm.PROMPT_RATE, lm.GENERATION_RATE, m.RUNNING)),
        view.evidence("prompt tokens of a prefill batch", size, "tokens", threshold=FULL_STEP, of=(lm.BATCH_NEW,)),
    )  # fmt: skip
    room = view.usage is None or view.usage.peak < FULL
    waits = view.waiting is not None and view.waiting.peak > 0
    several = len(batches) >= BATCHES or any("row" in s.labels for s in view.of(lm.BATCH_NEW))
    if size is not None and several and size >= FULL_STEP and waits and room:
        why = (
            f"Prefill batches of {count(size)} tokens follow one another while requests queue and the pool has "
            "room: prefill computes as fast as it can."
        )
        return (
            likely(Bound.COMPUTE, "prefill", why, Grade.MEASURED, evidence, do=_CHUNK, metric=Metric.TTFT),
        )
    if tokens is not None and prompt is not None and tokens >= RIDGE_TOKENS and prompt >= MAIN * tokens:
        why = f"A mean step carries {count(tokens)} tokens, most of them of prompts: prefill sets its pace."
        return (likely(Bound.COMPUTE, "prefill", why, Grade.MEASURED, evidence, do=_CHUNK),)
    slow = _long_prefill(view, evidence)
    if slow is not None:
        return (slow,)
    accepted = view.mean(lm.ACCEPT_LENGTH)
    if accepted is not None and accepted < RISE:
        why = f"A speculative step gives {accepted:.2f} tokens: the draft hardly pays."
        return (possible(Bound.COMPUTE, "speculation", why, evidence),)
    if tokens is None and size is None:
        cure = "read prompt and output tokens, and the steps, of /metrics"
        return (no_data(Bound.COMPUTE, "how full the steps are was not told", cure),)
    return (ruled_out(Bound.COMPUTE, "Steps carry few prompt tokens.", evidence),)


LONG = 2.0
"""Seconds of prefill from which TTFT misses the usual objective by prefill alone."""


def _long_prefill(view: LogView, evidence: tuple[Evidence, ...]) -> Opinion | None:
    """Requests' own lines put most of their time, and a whole objective, into computing the prompt."""
    took, rest = view.values(lm.PREFILL_TIME), view.mean(lm.DECODE_TIME) or 0.0
    prompt, rate, ttft = view.last(lm.PROMPT_TOKENS), view.mean(lm.PREFILL_RATE), view.last(lm.TTFT)
    seconds = statistics.fmean(took) if took else prompt / rate if prompt and rate and ttft else None
    if seconds is None or seconds < max(LONG, MAIN * (ttft if ttft is not None else seconds + rest)):
        return None
    more = (view.evidence("prefill of a request", seconds, "seconds", threshold=LONG,
                          of=(lm.PREFILL_TIME, lm.PREFILL_RATE, lm.PROMPT_TOKENS)),)  # fmt: skip
    why = f"Computing the prompt takes {duration(seconds)}, most of what a request waits for."
    return likely(
        Bound.COMPUTE, "prefill", why, Grade.INFERRED, evidence + more, do=_CHUNK, metric=Metric.TTFT
    )


def _thirds(view: LogView) -> float | None:
    """Mean waiting in the last third of the lines over the first; None with too few."""
    values = view.values(m.WAITING)
    third = len(values) // 3
    if third < 3:
        return None
    first, last = statistics.fmean(values[:third]), statistics.fmean(values[-third:])
    return last / first if first else None


def queueing(view: LogView) -> tuple[Opinion, ...]:
    """Requests wait at the batch's limit while pool and steps have room; all other waiting is a symptom."""
    share, tokens, waits = view.queue_share, view.step_tokens, view.waits
    if share is None:
        return (no_data(Bound.QUEUEING, "running and waiting were not told", "read both gauges of /metrics"),)
    evidence = (
        view.evidence("share of its time that a request waits", share, "ratio", threshold=COST,
                      of=(m.WAITING, m.RUNNING)),
        view.evidence("share of waiting at a full batch with room in the pool", waits.limit, "ratio",
                      threshold=MAIN, of=(m.WAITING, m.KV_CACHE_USAGE)),
        view.evidence("tokens of a mean step, at least", tokens, "tokens", threshold=FEW_TOKENS,
                      of=(lm.PROMPT_RATE, lm.GENERATION_RATE)),
    )  # fmt: skip
    if share < COST:
        return (ruled_out(Bound.QUEUEING, "Requests do not wait to speak of.", evidence),)
    room = view.usage is not None and view.usage.peak < FULL
    free = tokens is not None and tokens < FEW_TOKENS
    allowed = view.last(lm.MAX_RUNNING)
    at_limit = allowed is not None and waits.limit_at >= allowed
    if waits.limit >= MAIN and room and (free or (at_limit and tokens is None)):
        why = (
            f"{count(waits.limit_at)} run, others wait, and pool and step have room: a limit, not a resource."
        )
        do = "raise the limit on running sequences, as long as the steps stay short"
        return (
            likely(
                Bound.QUEUEING, "admission_limit", why, Grade.MEASURED, evidence, do=do, metric=Metric.TTFT
            ),
        )
    rise = _thirds(view)
    if waits.other >= MAIN and room and free and rise is not None and rise >= RISE:
        why = "Requests wait with room in the pool, and more of them at the end than at the start."
        do = "add replicas, or shed load at the door"
        return (likely(Bound.QUEUEING, "arrivals", why, Grade.INFERRED, evidence, do=do, metric=Metric.TTFT),)
    why = f"Requests wait {percent(share)} of their time; the log does not show that pool and step have room."
    return (possible(Bound.QUEUEING, None, why, evidence),)


def queued(view: LogView) -> Opinion | None:
    """Requests' own lines put most of their time into the queue: for what, they do not say."""
    waited, whole = view.mean(lm.QUEUED), view.mean(lm.REQUEST_TIME)
    if waited is None or (whole is not None and waited < MAIN * whole):
        return None
    evidence: tuple[Evidence, ...] = (
        view.evidence("time in the queue", waited, "seconds", of=(lm.QUEUED,)),
        view.evidence("time of the whole request", whole, "seconds", of=(lm.REQUEST_TIME,)),
    )
    gap = Gap(
        "queue",
        "why requests are held is not told",
        "read queue size and batch size during the wait, and stacks of the process that admits requests (py-spy)",
    )
    return possible(Bound.QUEUEING, None, "Most of a request's time is the queue.", evidence, gap)
