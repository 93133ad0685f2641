"""Blame an outer tier when blocks of sequences in decode lie there: their steps wait for loads, and ITL stutters."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.case import COST, Case
from kvdoctor.causes.common import NO_TIER, NO_TRAFFIC, TAIL_GAPS
from kvdoctor.ledger import KV_STALL
from kvdoctor.model import Advice, Basis, Bound, Evidence, Finding, Gap, Metric, Verdict
from kvdoctor.units import duration, percent

CLEAR = 0.2
"""Share of the mean ITL in such stalls from which decode clearly suffers, as beside prefill."""
_LOADED = (m.LOAD_SECONDS, m.TIER_READ_SECONDS)


def check(case: Case) -> tuple[Finding, ...]:
    """Loads that no prompt asked for are for sequences in decode; the ITL's tail shows whether these waited."""
    if not any(case.timeline.has(q) for q in _LOADED):
        return (_finding(Verdict.NO_DATA, "No outer KV tier counts its loads.", gaps=(NO_TIER,)),)
    if case.itl is None or case.traffic.tail is None:
        return (_finding(Verdict.NO_DATA, "No output gap in the window.", gaps=(NO_TRAFFIC,)),)
    part, cost = case.itl.part(KV_STALL), case.kv_stall
    evidence = (
        case.evidence("ITL lost to loads that no prompt asked for, at most", part, "seconds",
                      threshold=CLEAR * case.itl.seconds, of=(m.ITL, *_LOADED)),
        case.evidence("gaps above twice the usual one", case.traffic.tail.tail, "", threshold=TAIL_GAPS, of=(m.ITL,)),
        case.evidence("bytes loaded", case.timeline.delta(m.LOAD_BYTES), "bytes", of=(m.LOAD_BYTES,)),
        case.evidence("prompt tokens that came from outside", case.traffic.external_delivered, "tokens",
                      of=(m.PROMPT_EXTERNAL,)),
    )  # fmt: skip
    if case.share(cost) < COST or case.traffic.tail.tail < TAIL_GAPS:
        why = "Decode does not wait for loads to speak of."
        return (_finding(Verdict.RULED_OUT, why, evidence=evidence),)
    verdict = Verdict.LIKELY if part >= CLEAR * case.itl.seconds else Verdict.POSSIBLE
    why = (
        f"Blocks of running sequences are loaded back from an outer tier: {percent(part / case.itl.seconds)} of "
        f"the mean ITL of {duration(case.itl.seconds)} is waiting for them."
    )
    advice = Advice(
        "keep the blocks of running sequences in GPU memory: fewer sequences at once, a larger pool, or fp8 KV",
        f"ITL falls to about {duration(case.itl.seconds - part)}",
        Basis.UPPER_BOUND,
        cost,
    )
    return (_finding(verdict, why, cost, evidence=evidence, advice=(advice,)),)


def _finding(
    verdict: Verdict,
    why: str,
    cost: float = 0.0,
    *,
    evidence: tuple[Evidence, ...] = (),
    gaps: tuple[Gap, ...] = (),
    advice: tuple[Advice, ...] = (),
) -> Finding:
    metric = Metric.ITL if cost else None
    return Finding(
        Bound.OFFLOAD, verdict, "decode_stall", why, metric, cost, cost or None, evidence, gaps, advice
    )
