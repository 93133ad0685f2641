"""Blame capacity when the pool is full and somebody pays: preempted, kept waiting, or robbed of reusable blocks."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.case import COST, Case
from kvdoctor.causes import hostdisk
from kvdoctor.causes.common import (
    NOT_EXPORTED,
    UNCOUNTED,
    more_room,
    queue_behind_prefill,
    recomputing,
    unseen_loads,
)
from kvdoctor.ledger import QUEUE
from kvdoctor.model import Advice, Basis, Bound, Evidence, Finding, Gap, Metric, Verdict
from kvdoctor.steps import PACES, perhaps_full, prefilling
from kvdoctor.units import count, duration, percent
from kvdoctor.waiting import FULL

MAIN = 0.5
"""Share of the waiting that must be for blocks before blocks are named, as for queueing's other reasons."""

HELD = 0.8
"""Share of the readings at which exactly the highest number runs, from which a limit may hold the batch too: blocks
free up one by one and fit requests of all sizes, so that a batch which they limit goes up and down."""

_HITS = Gap(
    "prompt tokens computed",
    "how many prompt tokens hit is not told; if few do, the steps are full of them and the full pool is a symptom",
    "read the engine's log of its prefill batches beside the page, or upgrade it (SGLang counts hits from 0.4.6)",
)


def _usage(case: Case) -> Evidence:
    peak = case.traffic.usage.peak if case.traffic.usage else None
    return case.evidence(
        "KV cache usage at its fullest", peak, "ratio", threshold=FULL, of=(m.KV_CACHE_USAGE,)
    )


def _bigger_pool(case: Case, seconds: float) -> Advice:
    more = (
        "give the KV pool more room: more GPU memory for it, fp8 KV, more cards, or fewer sequences at once"
    )
    return Advice(
        more_room(case, more),
        f"up to {duration(seconds)} of each request, if the working set then fits",
        Basis.UPPER_BOUND,
        seconds,
    )


def preemption(case: Case) -> Finding:
    """Running sequences lose their blocks and must wait and recompute."""
    number, cost = case.traffic.preemptions, case.stall
    evidence = (
        case.evidence("preemptions in the window", number, "", threshold=0, of=(m.PREEMPTIONS,)),
        _usage(case),
        case.evidence(
            "stall after preemptions", cost, "seconds", threshold=COST * case.currency, of=(m.WAITING,)
        ),
    )
    if not case.timeline.has(m.PREEMPTIONS):
        why = "No preemption counter."
        gauge = case.timeline.gauge(m.PAUSED)
        paused = case.evidence("paused, peak", gauge.peak if gauge else None, "", threshold=0, of=(m.PAUSED,))
        seen = (paused, _usage(case)) if gauge else ()
        return Finding(
            Bound.CAPACITY, Verdict.NO_DATA, "preemption", why, evidence=seen, gaps=(NOT_EXPORTED,)
        )
    if not number:
        why = "No sequence was preempted in the window."
        return Finding(Bound.CAPACITY, Verdict.RULED_OUT, "preemption", why, evidence=evidence)
    if case.share(cost) < COST:
        why = (
            f"{count(number)} preemptions, but waiting after them costs under {100 * COST:.0f}% of a request."
        )
        return Finding(Bound.CAPACITY, Verdict.POSSIBLE, "preemption", why, Metric.ITL, cost, cost, evidence)
    why = f"The pool runs full: {count(number)} preemptions, each request waits {duration(cost)} because of them."
    advice = (
        _bigger_pool(case, cost),
        Advice(
            "lower the number of sequences at once, so that those running fit to their end",
            f"stalls end ({duration(cost)} of a request); some of it comes back as queue time",
            Basis.UPPER_BOUND,
            cost / 2,
        ),
    )
    return Finding(
        Bound.CAPACITY, Verdict.LIKELY, "preemption", why, Metric.ITL, cost, cost, evidence, (), advice
    )


def _limit(case: Case) -> tuple[Gap, ...]:
    """Say that a number of sequences may hold the batch as well, where it never goes up or down."""
    if case.waits.held < HELD:
        return ()
    number = count(case.waits.limit_at)
    reason = f"exactly {number} run whenever somebody waits: a limit of that many may hold them as well as the pool"
    return (Gap("limit", reason, "compare with the limit on sequences (vLLM: --max-num-seqs); raise both"),)


def _symptom(case: Case) -> Gap | None:
    """What is not told, where the steps may be so full that requests leave slowly and the pool fills for that."""
    if perhaps_full(case.traffic):
        return _HITS
    loading = unseen_loads(case) and (prefilling(case.traffic) or 0.0) >= PACES
    return UNCOUNTED if loading else None


def admission(case: Case) -> Finding:
    """Requests wait because the pool has no room for their blocks."""
    queue = case.ttft.part(QUEUE) if case.ttft else 0.0
    behind = 0.0 if recomputing(case) else queue_behind_prefill(case)
    cost = queue * case.waits.blocks * (1 - behind)
    evidence = (
        case.evidence("wait for blocks, inside the queue time", cost, "seconds", of=(m.QUEUE, m.WAITING)),
        case.evidence("queue time of a request", queue, "seconds", of=(m.QUEUE, m.WAITING)),
        case.evidence("share of waiting with no room in the pool", case.waits.blocks, "ratio", threshold=MAIN,
                      of=(m.WAITING, m.KV_CACHE_USAGE)),
        _usage(case),
    )  # fmt: skip
    if case.traffic.usage is None or case.traffic.waiting is None:
        why = "No KV cache usage, or no number of waiting requests."
        return Finding(Bound.CAPACITY, Verdict.NO_DATA, "admission", why, gaps=(NOT_EXPORTED,))
    if not case.matters(cost) or case.waits.blocks < MAIN:
        why = "Nobody to speak of waits for blocks."
        return Finding(Bound.CAPACITY, Verdict.RULED_OUT, "admission", why, evidence=evidence)
    why = f"Requests wait {duration(queue)} for a place, mostly while the pool has no room for one more."
    if behind:
        why += f" {percent(behind)} of the time goes to prefill, which a larger pool would not shorten."
    doubt = _symptom(case)
    if doubt is not None:
        what = "loads" if doubt is UNCOUNTED else "prompts"
        why += f" The steps may be full of {what}, and then a larger pool would not help."
        return Finding(
            Bound.CAPACITY, Verdict.POSSIBLE, "admission", why, Metric.TTFT, cost, None, evidence, (doubt,)
        )
    return Finding(
        Bound.CAPACITY, Verdict.LIKELY, "admission", why, Metric.TTFT, cost, cost, evidence,
        _limit(case), (_bigger_pool(case, cost),),
    )  # fmt: skip


def swap(case: Case) -> Finding:
    """Sequences were swapped to CPU memory (engines that still do so), or the engine's own memory to disk."""
    gauge = case.timeline.gauge(m.SWAPPED)
    peak = gauge.peak if gauge else None
    evidence = (case.evidence("requests swapped out, peak", peak, "", threshold=0, of=(m.SWAPPED,)),)
    paged = hostdisk.swapping(case)
    if paged is not None and (gauge is None or gauge.peak <= 0):
        return paged
    if gauge is None or gauge.peak <= 0:
        why = (
            "No request was swapped." if gauge else "This engine does not swap sequences: it recomputes them."
        )
        return Finding(Bound.CAPACITY, Verdict.RULED_OUT, "swap", why, evidence=evidence)
    cost = 0.0
    if case.traffic.seconds > 0:
        cost = gauge.mean * case.traffic.seconds / max(1.0, case.traffic.first_tokens)
    why = f"On average {gauge.mean:.2g} requests lie swapped in CPU memory."
    if case.share(cost) < COST:
        return Finding(Bound.CAPACITY, Verdict.POSSIBLE, "swap", why, Metric.ITL, cost, cost, evidence)
    advice = (_bigger_pool(case, cost),)
    return Finding(Bound.CAPACITY, Verdict.LIKELY, "swap", why, Metric.ITL, cost, cost, evidence, (), advice)


def check(case: Case) -> tuple[Finding, ...]:
    """Ask for each way in which a full pool makes somebody pay, but for lost prefixes (`eviction.py`)."""
    return (preemption(case), admission(case), swap(case))
