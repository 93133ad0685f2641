"""Hit rate on the word of a log: named only with proof, a low rate alone is a question (rule 8)."""

from __future__ import annotations

import statistics

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.causes.logged.opinion import COST, MAIN, Grade, Opinion, likely, no_data, possible, ruled_out
from kvdoctor.causes.logged.steps import FULL_STEP, prefill_share
from kvdoctor.causes.logged.turns import later, quicker_again
from kvdoctor.logview import LogView, Said
from kvdoctor.model import Bound, Gap, Metric
from kvdoctor.units import count, percent

FELL_BY, FELL_TO = 0.2, 0.7
"""Drop of the hit rate, absolute and over before, that counts as a fall (hit_rate)."""
COURSE = 6
"""Lines from which a hit rate has a course; a report states its beginning and its end."""
LOW = 0.5
"""Hit rate below which prompts that could share more are worth a look."""
_FRONT = "find what differs at the front of the prompts: template, date, user, salt; put it at their end"
PROMPTS = Gap(
    "prompts",
    "a hit rate alone cannot tell prompts that are new from prompts that differ by one early token",
    "compare token ids of two prompts that should share (first differing position), and cached tokens of each",
)


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
    took, rest = view.mean(lm.PREFILL_TIME), view.mean(lm.DECODE_TIME)
    if took and rest is not None and took >= MAIN * (took + rest):
        share = took / (took + rest)
    elif (took or view.of(lm.TTFT)) and (view.of(lm.REPEATED) or view.of(lm.SHARED_PREFIX)):
        why = "Prefix caching is switched off, and prompts are known to repeat or to share."
        do = "switch prefix caching on"
        return likely(Bound.HIT_RATE, "disabled", why, Grade.INFERRED, evidence, do=do, metric=Metric.TTFT)
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


def _no_hits_at_all(view: LogView) -> bool:
    """Say whether hits, or cached tokens, are told and none is above 0."""
    told = [*view.values(lm.HITS), *view.values(lm.BATCH_CACHED)]
    return bool(told) and not any(told)


def _plain_rate(view: LogView) -> float | None:
    """Return a hit rate that was stated, or that of one prompt; None without either."""
    gauge = view.values(m.HITS_RATE_GAUGE)
    found = view.of(lm.BATCH_CACHED)
    if not gauge and (_no_hits_at_all(view) or any(not s.value and later(s) for s in found)):
        return 0.0
    cached, whole = view.last(lm.BATCH_CACHED), view.last(lm.PROMPT_TOKENS)
    if not gauge and cached is not None and whole:
        return cached / whole
    if not gauge and view.of(lm.TIER_HIT) and not any(view.values(lm.TIER_HIT)):
        return 0.0
    return gauge[-1] if gauge else None


def _known_to_share(view: LogView) -> Opinion | None:
    """Prompts are known to share a prefix, and the cache finds none of it: evidence from prompts (rule 8)."""
    shared, queries, hits = view.last(lm.SHARED_PREFIX), view.last(lm.QUERIES), view.last(lm.HITS)
    rate = hits / queries if queries and hits is not None else _plain_rate(view)
    if (
        not (shared or view.of(lm.REPEATED))
        or rate is None
        or rate >= NO_HITS
        or view.last(lm.CACHING) == 0.0
        or quicker_again(view)
        or max([*view.values(lm.EXTERNAL_HIT_RATE), *view.values(lm.TIER_HIT)], default=0.0) >= LOW
    ):
        return None
    evidence = (
        view.evidence(
            "hit rate",
            rate,
            "ratio",
            threshold=NO_HITS,
            of=(lm.HITS, lm.QUERIES, m.HITS_RATE_GAUGE, lm.TIER_HIT),
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


def _volatile(view: LogView) -> Opinion | None:
    """Something near the front of the prompts changes with each: what follows it cannot hit (rule 8)."""
    rate = _plain_rate(view)
    if not view.of(lm.VOLATILE) or (rate is not None and rate >= LOW):
        return None
    evidence = (view.evidence("prompts that differ near their front", 1.0, of=(lm.VOLATILE,)),)
    why = "Something near the front of the prompts changes with each of them: all that follows is computed again."
    grade = Grade.INFERRED if rate is None else Grade.MEASURED
    return likely(Bound.HIT_RATE, "prefix_mismatch", why, grade, evidence, do=_FRONT, metric=Metric.TTFT)


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
    asked = (_keys_differ, _volatile, _reprocessed, _too_short, _common, _known_to_share, _disabled, _fell)
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
