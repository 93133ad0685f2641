"""Blame the hit rate when prompt tokens are computed that could have been reused."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.case import COST, Case
from kvdoctor.causes.common import (
    NO_TIER,
    NO_TRAFFIC,
    NOT_EXPORTED,
    queue_behind_prefill,
    seconds_per_computed_token,
)
from kvdoctor.causes.fell import PROMPTS, fell, hit_finding
from kvdoctor.ledger import AVOIDABLE, QUEUE
from kvdoctor.model import Advice, Basis, Finding, Verdict
from kvdoctor.units import count, duration, percent

LOST = 0.1
"""Share of the promised external tokens that must be missing: in-flight requests explain less."""
LOW = 0.5
"""Hit rate below which prompts that could share more are worth a look."""


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
        return hit_finding(Verdict.NO_DATA, "disabled", why, gaps=(NOT_EXPORTED,))
    off = setting == "False" if setting is not None else None
    if off is False or (off is None and case.traffic.queries):
        return hit_finding(Verdict.RULED_OUT, "disabled", "Prefix caching is on.", evidence=evidence)
    if off is None:
        why = "Nothing was looked up in the prefix cache: it is off, or no prompt came."
        return hit_finding(Verdict.NO_DATA, "disabled", why, evidence=evidence, gaps=(NO_TRAFFIC,))
    if case.share(cost) < COST:
        why = "Prefix caching is off; prefill is too short here for that to matter."
        return hit_finding(Verdict.POSSIBLE, "disabled", why, cost, evidence)
    why = f"Prefix caching is off, and computing prompts costs each request {duration(cost)}."
    advice = (
        Advice(
            "switch prefix caching on (vLLM: drop --no-enable-prefix-caching)",
            f"0 to {duration(cost)} of a request: as much as the prompts share",
            Basis.UPPER_BOUND,
            cost,
        ),
    )
    return hit_finding(Verdict.LIKELY, "disabled", why, cost, evidence, gaps=(PROMPTS,), advice=advice)


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
            return hit_finding(
                Verdict.NO_DATA, name, "No KV connector counts external hits.", gaps=(NO_TIER,)
            )
        if promise:
            why = "Hits of an outer tier are counted; what of them arrived is not."
            return hit_finding(Verdict.NO_DATA, name, why, evidence=evidence, gaps=(NOT_EXPORTED,))
        return hit_finding(Verdict.RULED_OUT, name, "No external hit was promised.", evidence=evidence)
    in_flight = max((g.first + g.last for g in (t.waiting, t.running) if g is not None), default=0.0)
    slack = in_flight * promise / max(1.0, t.first_tokens)
    missing = promise - delivered
    if missing - slack < LOST * promise:
        why = "What the connector promised was there at the first token."
        return hit_finding(Verdict.RULED_OUT, "promised_not_delivered", why, evidence=evidence)
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
    return hit_finding(Verdict.LIKELY, "promised_not_delivered", why, cost, evidence, advice=advice)


def short_prefix(case: Case) -> Finding:
    """Prompts shorter than a block can never hit: only whole blocks are matched."""
    prompt, block = case.traffic.prompt_per_request, case.traffic.block_size
    of = (m.PROMPT_TOKENS, m.CACHE_CONFIG)
    evidence = (case.evidence("mean prompt", prompt, "tokens", threshold=block, of=of),)
    if prompt is None or block is None:
        gap = NO_TRAFFIC if prompt is None else NOT_EXPORTED
        return hit_finding(
            Verdict.NO_DATA, "short_prefix", "Prompt length or block size unknown.", gaps=(gap,)
        )
    if prompt > 2 * block or case.traffic.hits:
        why = f"Prompts span several blocks of {block:.0f} tokens, or hit."
        return hit_finding(Verdict.RULED_OUT, "short_prefix", why, evidence=evidence)
    why = f"A mean prompt of {prompt:.0f} tokens has hardly one whole block of {block:.0f} to match."
    verdict = Verdict.POSSIBLE if case.share(case.prefill) >= COST else Verdict.RULED_OUT
    why += "" if verdict is Verdict.POSSIBLE else " Prefill costs too little for that to matter."
    return hit_finding(verdict, "short_prefix", why, case.prefill, evidence)


def _avoidable(case: Case) -> float:
    """Seconds of a request, at most, that full reuse would save: of its own prefill, of the steps that others'
    prefill fills, and of the queue behind it."""
    if case.ttft is None:
        return 0.0
    own, part = case.prefill, case.ttft.part(AVOIDABLE)
    everywhere = case.prefill_cost * part / own if own > 0 else part
    return everywhere + case.ttft.part(QUEUE) * queue_behind_prefill(case)


def prefix_mismatch(case: Case) -> Finding:
    """Prompts may differ early on. Counters alone can never make this likely."""
    rate, avoidable = case.traffic.hit_rate, _avoidable(case)
    evidence = (
        case.evidence("prefix cache hit rate", rate, "ratio", threshold=LOW,
                      of=(m.PREFIX_HITS, m.PREFIX_QUERIES)),
        case.evidence("avoidable prefill, at most", avoidable, "seconds", of=(m.PREFILL, m.PROMPT_COMPUTED)),
    )  # fmt: skip
    if rate is None:
        why = "Nothing was looked up: the rate is undefined."
        return hit_finding(Verdict.NO_DATA, "prefix_mismatch", why, evidence=evidence, gaps=(NO_TRAFFIC,))
    if rate >= LOW or case.share(avoidable) < COST:
        why = "Most of the prompts hit." if rate >= LOW else "Prefill is too short for hits to matter."
        return hit_finding(Verdict.RULED_OUT, "prefix_mismatch", why, evidence=evidence)
    why = (
        f"{percent(rate)} of the prompt tokens hit. If the prompts share text, 0 to {duration(avoidable)} "
        "of a request is avoidable; counters cannot tell."
    )
    return hit_finding(Verdict.POSSIBLE, "prefix_mismatch", why, avoidable, evidence, gaps=(PROMPTS,))


def check(case: Case) -> tuple[Finding, ...]:
    """Ask for each way in which reuse is lost before it begins."""
    return (disabled(case), fell(case), promised(case), short_prefix(case), prefix_mismatch(case))
