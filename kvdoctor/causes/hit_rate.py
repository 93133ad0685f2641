"""Blame the hit rate when prompt tokens are computed that could have been reused."""

from __future__ import annotations

import itertools

from kvdoctor import metrics as m
from kvdoctor.case import COST, Case
from kvdoctor.causes.common import (
    NO_TIER,
    NO_TRAFFIC,
    NOT_EXPORTED,
    queue_behind_prefill,
    seconds_per_computed_token,
)
from kvdoctor.ledger import AVOIDABLE, QUEUE
from kvdoctor.model import Advice, Basis, Bound, Evidence, Finding, Gap, Metric, Verdict
from kvdoctor.units import count, duration, percent

PAST_TOKENS = 10_000
"""Tokens that must have been looked up before the window for the past to be a yardstick: some twenty prompts."""
FELL_BY = 0.2
"""Drop of the hit rate, absolute, that counts as a fall."""
FELL_TO = 0.7
"""Hit rate now over before, below which a drop counts as a fall."""
LOST = 0.1
"""Share of the promised external tokens that must be missing: in-flight requests explain less."""
LOW = 0.5
"""Hit rate below which prompts that could share more are worth a look."""

_PROMPTS = Gap(
    "prompts",
    "counters cannot tell prompts that are new from prompts that differ by one early token",
    "compare the first 1,000 tokens of a few real prompts (template, date, user id, salt), or switch on KV events",
)
_PAST = Gap(
    "past",
    "too few tokens were looked up before the window to compare its hit rate with",
    "record again later and compare: kvdoctor diff A B",
)


def _finding(
    verdict: Verdict, subclass: str, why: str, cost: float = 0.0, evidence: tuple[Evidence, ...] = (),
    *, gaps: tuple[Gap, ...] = (), advice: tuple[Advice, ...] = (), gain: float | None = None,
) -> Finding:  # fmt: skip
    metric = Metric.TTFT if cost else None
    if gain is None and cost and verdict is Verdict.LIKELY:
        gain = cost
    return Finding(Bound.HIT_RATE, verdict, subclass, why, metric, cost, gain, evidence, gaps, advice)


def disabled(case: Case) -> Finding:
    """Prefix caching is switched off: every prompt is computed in full."""
    setting = case.timeline.label(m.CACHE_CONFIG, "enable_prefix_caching")
    cost = case.prefill_cost
    of = (m.CACHE_CONFIG, m.PREFIX_QUERIES)
    evidence = (
        case.evidence("tokens looked up in the prefix cache", case.traffic.queries, "tokens", of=of),
        case.evidence(
            "prefill, in TTFT and beside decode",
            cost,
            "seconds",
            threshold=COST * case.currency,
            of=(m.PREFILL,),
        ),
    )
    if setting is None and case.traffic.queries is None:
        why = "The engine does not say whether it caches prefixes."
        return _finding(Verdict.NO_DATA, "disabled", why, gaps=(NOT_EXPORTED,))
    off = setting == "False" if setting is not None else None
    if off is False or (off is None and case.traffic.queries):
        return _finding(Verdict.RULED_OUT, "disabled", "Prefix caching is on.", evidence=evidence)
    if off is None:
        why = "Nothing was looked up in the prefix cache: it is off, or no prompt came."
        return _finding(Verdict.NO_DATA, "disabled", why, evidence=evidence, gaps=(NO_TRAFFIC,))
    if case.share(cost) < COST:
        why = "Prefix caching is off; prefill is too short here for that to matter."
        return _finding(Verdict.POSSIBLE, "disabled", why, cost, evidence)
    why = f"Prefix caching is off, and computing prompts costs each request {duration(cost)}."
    advice = (
        Advice(
            "switch prefix caching on (vLLM: drop --no-enable-prefix-caching)",
            f"0 to {duration(cost)} of a request: as much as the prompts share",
            Basis.UPPER_BOUND,
            cost,
        ),
    )
    return _finding(Verdict.LIKELY, "disabled", why, cost, evidence, gaps=(_PROMPTS,), advice=advice)


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


def fell(case: Case) -> Finding:
    """The hit rate fell against this server's own past."""
    now, past, within = case.traffic.hit_rate, past_rate(case), within_rates(case)
    before = past
    if within is not None and _dropped(*within) and (past is None or not _dropped(past, now or 0.0)):
        before, now = within
    evidence = (
        case.evidence("hit rate now", now, "ratio", threshold=None if before is None else FELL_TO * before,
                      of=(m.PREFIX_HITS, m.PREFIX_QUERIES)),
        case.evidence("hit rate before", before, "ratio", of=(m.PREFIX_HITS, m.PREFIX_QUERIES)),
    )  # fmt: skip
    if now is None or before is None:
        why = "No past to compare with: too few tokens were looked up before the window."
        return _finding(Verdict.NO_DATA, "fell", why, evidence=evidence, gaps=(_PAST,))
    if not _dropped(before, now):
        why = "The hit rate is about what it was on this server."
        return _finding(Verdict.RULED_OUT, "fell", why, evidence=evidence)
    cost = _recomputed(case, before - (case.traffic.hit_rate or 0.0))
    gain = _recomputed(case, before - now)
    why = f"The hit rate fell from {percent(before)} to {percent(now)} on this very server."
    if case.share(cost) < COST:
        return _finding(Verdict.POSSIBLE, "fell", why + " It costs little so far.", cost, evidence)
    advice = (
        Advice(
            "find what changed at the front of the prompts: template, system prompt, date, tool list, salt",
            f"{duration(gain)} of a request as they are now, back to {percent(before)} hits",
            Basis.MODELLED,
            gain,
        ),
    )
    return _finding(Verdict.LIKELY, "fell", why, cost, evidence, advice=advice, gain=gain)


def promised(case: Case) -> Finding:
    """Hits that a KV connector promised at admission did not arrive, and were computed after all."""
    t = case.traffic
    promise, delivered = t.external_hits, t.external_delivered
    evidence = (
        case.evidence("external tokens promised at admission", promise, "tokens", of=(m.EXTERNAL_HITS,)),
        case.evidence("external tokens there at the first token", delivered, "tokens", of=(m.PROMPT_EXTERNAL,)),
        case.evidence("failed transfers", case.timeline.delta(m.TRANSFER_FAILURES), "", threshold=0,
                      of=(m.TRANSFER_FAILURES,)),
    )  # fmt: skip
    if not promise or delivered is None:
        name = "promised_not_delivered"
        if promise is None and delivered is None:
            return _finding(Verdict.NO_DATA, name, "No KV connector counts external hits.", gaps=(NO_TIER,))
        if promise:
            why = "Hits of an outer tier are counted; what of them arrived is not."
            return _finding(Verdict.NO_DATA, name, why, evidence=evidence, gaps=(NOT_EXPORTED,))
        return _finding(Verdict.RULED_OUT, name, "No external hit was promised.", evidence=evidence)
    in_flight = max((g.first + g.last for g in (t.waiting, t.running) if g is not None), default=0.0)
    slack = in_flight * promise / max(1.0, t.first_tokens)
    missing = promise - delivered
    if missing - slack < LOST * promise:
        why = "What the connector promised was there at the first token."
        return _finding(Verdict.RULED_OUT, "promised_not_delivered", why, evidence=evidence)
    per_token = seconds_per_computed_token(case)
    cost = min(case.prefill, per_token * missing / max(1.0, t.first_tokens)) if per_token else 0.0
    why = f"{count(missing)} of {count(promise)} promised external tokens were computed after all."
    advice = (
        Advice(
            "find out why loads fail: references dropped before the load, expiry, timeouts "
            "(vLLM: kv_load_failure_policy=fail shows them as errors)",
            f"{duration(cost)} of TTFT",
            Basis.MODELLED,
            cost,
        ),
    )
    return _finding(Verdict.LIKELY, "promised_not_delivered", why, cost, evidence, advice=advice)


def short_prefix(case: Case) -> Finding:
    """Prompts shorter than a block can never hit: only whole blocks are matched."""
    prompt, block = case.traffic.prompt_per_request, case.traffic.block_size
    of = (m.PROMPT_TOKENS, m.CACHE_CONFIG)
    evidence = (case.evidence("mean prompt", prompt, "tokens", threshold=block, of=of),)
    if prompt is None or block is None:
        gap = NO_TRAFFIC if prompt is None else NOT_EXPORTED
        return _finding(Verdict.NO_DATA, "short_prefix", "Prompt length or block size unknown.", gaps=(gap,))
    if prompt > 2 * block or case.traffic.hits:
        why = f"Prompts span several blocks of {block:.0f} tokens, or hit."
        return _finding(Verdict.RULED_OUT, "short_prefix", why, evidence=evidence)
    why = f"A mean prompt of {prompt:.0f} tokens has hardly one whole block of {block:.0f} to match."
    verdict = Verdict.POSSIBLE if case.share(case.prefill) >= COST else Verdict.RULED_OUT
    why += "" if verdict is Verdict.POSSIBLE else " Prefill costs too little for that to matter."
    return _finding(verdict, "short_prefix", why, case.prefill, evidence)


def prefix_mismatch(case: Case) -> Finding:
    """Prompts may differ early on. Counters alone can never make this likely."""
    rate, avoidable = case.traffic.hit_rate, case.ttft.part(AVOIDABLE) if case.ttft else 0.0
    if case.ttft is not None and queue_behind_prefill(case):
        avoidable += case.ttft.part(QUEUE) * queue_behind_prefill(case)
    evidence = (
        case.evidence("prefix cache hit rate", rate, "ratio", threshold=LOW,
                      of=(m.PREFIX_HITS, m.PREFIX_QUERIES)),
        case.evidence("avoidable prefill, at most", avoidable, "seconds", of=(m.PREFILL, m.PROMPT_COMPUTED)),
    )  # fmt: skip
    if rate is None:
        why = "Nothing was looked up: the rate is undefined."
        return _finding(Verdict.NO_DATA, "prefix_mismatch", why, evidence=evidence, gaps=(NO_TRAFFIC,))
    if rate >= LOW or case.share(avoidable) < COST:
        why = "Most of the prompts hit." if rate >= LOW else "Prefill is too short for hits to matter."
        return _finding(Verdict.RULED_OUT, "prefix_mismatch", why, evidence=evidence)
    why = (
        f"{percent(rate)} of the prompt tokens hit. If the prompts share text, 0 to {duration(avoidable)} "
        "of TTFT is avoidable; counters cannot tell."
    )
    return _finding(Verdict.POSSIBLE, "prefix_mismatch", why, avoidable, evidence, gaps=(_PROMPTS,))


def check(case: Case) -> tuple[Finding, ...]:
    """Ask for each way in which reuse is lost before it begins."""
    return (disabled(case), fell(case), promised(case), short_prefix(case), prefix_mismatch(case))
