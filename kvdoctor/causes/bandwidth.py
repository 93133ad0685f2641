"""Blame HBM bandwidth when the bytes a decode step must read, over the step's time, come near the ceiling."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.case import Case
from kvdoctor.causes import hbmcounters
from kvdoctor.causes.common import NO_TRAFFIC
from kvdoctor.ledger import IMPOSSIBLE, KV_READS, WEIGHTS
from kvdoctor.model import Advice, Basis, Bound, Evidence, Finding, Gap, Metric, Verdict
from kvdoctor.units import duration, rate_bytes

NEAR = 0.6
"""Share of the ceiling from which a step is bound by its reads: whole decode steps of well-filled engines reach
0.65 to 0.85 of HBM (roofline guide, section 7)."""
FAR = 0.4
"""Share of the ceiling below which, even counting the most bytes, reads do not set the pace."""


def _unjudged(case: Case) -> tuple[Gap, ...]:
    """Why there is no step, or no ceiling to hold it against.

    Gaps of a ceiling's conditions are none of why there is none; those of a rate that was refused are.
    """
    machine = case.machine
    sources = ("gpu", "model") if machine.bandwidth is not None else ("gpu", "model", "bandwidth")
    found = tuple(gap for gap in machine.gaps if gap.source in sources)
    if found or machine.unknown is None:
        return found or (NO_TRAFFIC,)
    what, cure = machine.unknown
    reason = f"{what} {'are' if ' and ' in what else 'is'} unknown, so no step can be held against a ceiling"
    return (Gap("bandwidth", reason, f"give {cure}"),)


def _no_data(case: Case) -> Finding:
    return Finding(Bound.BANDWIDTH, Verdict.NO_DATA, argument="Bandwidth not judged.", gaps=_unjudged(case))


def steady_step(case: Case) -> float | None:
    """Seconds of a decode step without stalls and without prefill beside it; None without a gap."""
    return case.traffic.tail.typical if case.traffic.tail else None


def read_range(case: Case) -> tuple[float, float, float, float] | None:
    """Bytes of a step on one rank: (weights low, weights high, KV low, KV high); None when not known.

    KV low counts shared blocks once (what is pinned in the pool), KV high each sequence's own context.
    """
    batch, context = case.batch, case.traffic.context
    if batch is None or context is None:
        return None
    read = case.machine.step(batch, context)
    if read is None:
        return None
    own = batch * context
    pinned = own
    if case.traffic.usage is not None and case.traffic.pool_tokens:
        pinned = min(own, case.traffic.usage.mean * case.traffic.pool_tokens)
    share = pinned / own if own else 1.0
    return read.weights_low, read.weights_high, read.kv * share + read.state, read.kv_high + read.state


def _advice(case: Case, subclass: str, share: float) -> tuple[Advice, ...]:
    """Fewer bytes: what halving the larger part would give back. Offloading would add traffic, not save any."""
    what = "quantize the weights to fp8 or int4" if subclass == "weights" else "store the KV as fp8"
    part = case.itl.part(WEIGHTS if subclass == "weights" else KV_READS) if case.itl else 0.0
    gain = part / 2
    if case.itl is None or not gain:
        return ()
    after = case.itl.seconds - gain
    expect = f"ITL {duration(case.itl.seconds)} to about {duration(after)}: half of {duration(part)} a step"
    never = Advice(
        "do not offload KV to help this: a decode step would still read every byte of its context",
        f"the reads already take {100 * share:.0f}% of the ceiling",
        Basis.MODELLED,
    )
    return (Advice(what, expect, Basis.MODELLED, gain * case.gaps), never)


def _counted(case: Case) -> Finding | None:
    """Judge by the cards' own counter where no step can be modelled; None without it, or without decode."""
    cards = [gauge.mean for gauge in case.timeline.each(m.DRAM_ACTIVE)]
    if not cards or case.itl is None or case.traffic.lifetime:
        return None
    low, high = min(cards), max(cards)
    of = (m.DRAM_ACTIVE,)
    evidence = (
        case.evidence("HBM moves data, least busy card", low, "ratio", threshold=NEAR, of=of),
        case.evidence("HBM moves data, busiest card", high, "ratio", threshold=FAR, of=of),
    )
    if high < FAR:
        why = f"HBM moves data in {100 * high:.0f}% of the cycles at most: far from its ceiling."
        return Finding(Bound.BANDWIDTH, Verdict.RULED_OUT, None, why, Metric.ITL, evidence=evidence)
    why = f"HBM moves data in {100 * low:.0f} to {100 * high:.0f}% of the cycles; by whose reads is not told."
    return Finding(
        Bound.BANDWIDTH, Verdict.POSSIBLE, None, why, Metric.ITL, 0.0, None, evidence, _unjudged(case)
    )


def check(case: Case) -> tuple[Finding, ...]:
    """Hold the bytes of a steady step against the ceiling, and the answer against the cards' own counters."""
    step, reads = steady_step(case), read_range(case)
    if not step or case.itl is None or reads is None or case.machine.bandwidth is None:
        counted = hbmcounters.confirm(case, _no_data(case), None)
        return (counted if counted.verdict is not Verdict.NO_DATA else _counted(case) or counted,)
    low, high = (reads[0] + reads[2]) / case.itl.seconds, (reads[1] + reads[3]) / case.itl.seconds
    return tuple(hbmcounters.confirm(case, found, (low, high)) for found in _modelled(case, step, reads))


def _modelled(case: Case, step: float, reads: tuple[float, float, float, float]) -> tuple[Finding, ...]:
    """Judge by the model alone: likely only by the lower count of the bytes."""
    ceiling = case.machine.bandwidth
    if case.itl is None or ceiling is None:
        return (_no_data(case),)
    weights_low, weights_high, kv_low, kv_high = reads
    low, high = (weights_low + kv_low) / step, (weights_high + kv_high) / step
    subclass = "weights" if weights_low >= kv_low else "kv_reads"
    evidence = _evidence(case, low, high, ceiling)
    share = (case.itl.part(WEIGHTS) + case.itl.part(KV_READS)) * (case.gaps or 1.0)
    if low > IMPOSSIBLE * ceiling:
        why = (
            f"The step would read {rate_bytes(low)}, over the ceiling: model, card or layout is not as told."
        )
        return (Finding(Bound.BANDWIDTH, Verdict.POSSIBLE, subclass, why, Metric.ITL, evidence=evidence),)
    if low >= NEAR * ceiling:
        verdict, why = Verdict.LIKELY, "The reads of a step alone come near what memory delivers."
    elif high >= FAR * ceiling:
        verdict, why = Verdict.POSSIBLE, "The reads are a large part of the step, not clearly its pace."
    else:
        verdict, why = Verdict.RULED_OUT, "Even counting the most bytes, the step is far from the ceiling."
    if verdict is Verdict.RULED_OUT:
        return (Finding(Bound.BANDWIDTH, verdict, None, why, Metric.ITL, evidence=evidence),)
    advice = _advice(case, subclass, low / ceiling)
    gain = max((a.gain_seconds or 0.0 for a in advice), default=0.0)
    return (Finding(Bound.BANDWIDTH, verdict, subclass, why, Metric.ITL, share, gain, evidence, (), advice),)


def _evidence(case: Case, low: float, high: float, ceiling: float) -> tuple[Evidence, ...]:
    of = (m.ITL, m.GENERATED)
    basis = Evidence("HBM read ceiling", ceiling, "bytes/s", None, case.machine.bandwidth_basis)
    return (
        case.evidence("HBM read, at least", low, "bytes/s", threshold=NEAR * ceiling, of=of),
        case.evidence("HBM read, at most", high, "bytes/s", threshold=FAR * ceiling, of=of),
        basis,
        case.evidence("steady decode step", steady_step(case), "seconds", of=(m.ITL,)),
        case.evidence("sequences in decode", case.traffic.decode_batch, "", of=(m.ITL,)),
    )
