"""Where the milliseconds go: the mean TTFT and the mean ITL of a window, split into parts that sum to them."""

from __future__ import annotations

import math
from dataclasses import replace

from kvdoctor.histogram import Histogram, Split
from kvdoctor.machine import Machine
from kvdoctor.model import Basis, Ledger, Metric, Part
from kvdoctor.queue_wait import DRIFT, Wait, kv_wait, queue_wait
from kvdoctor.steps import HIDDEN, mixed_share
from kvdoctor.traffic import Traffic
from kvdoctor.units import duration, percent

FRONTEND, QUEUE, KV_WAIT, KV_LOAD = "frontend", "queue", "kv_wait", "kv_load"
PREFILL, AVOIDABLE, FIRST_STEP = "prefill", "prefill_avoidable", "first_step"
STEP_UNDER_WAY, UNEXPLAINED = "step_under_way", "unexplained"
WEIGHTS, KV_READS, COMPUTE, IN_STEP, STALL = (
    "weights",
    "kv_reads",
    "compute",
    "prefill_in_step",
    "preemption_stall",
)
KV_STALL = "kv_stall"
IMPOSSIBLE = 1.05
"""Modelled reads over the step from which an input must be wrong: nothing reads faster than the ceiling."""
ROUNDING = 1e-9
"""Share of a ledger within which its sum is a matter of rounding: a residual that small could turn negative."""


def _prefill_parts(traffic: Traffic, prefill: Wait, load: float) -> list[Part]:
    """Split scheduled-to-first-token into KV load, prefill and the step that gives the first token."""
    tail = traffic.tail
    load = min(load, prefill.seconds)
    step = min(tail.typical, prefill.seconds - load) if tail is not None else 0.0
    rest = prefill.seconds - load - step
    parts = [Part(KV_LOAD, load, Basis.UPPER_BOUND, note="loads may overlap")] if load else []
    parts.append(Part(PREFILL, rest, prefill.basis, note=prefill.note))
    if traffic.computed and traffic.first_tokens:
        kept = min(1.0, (traffic.block_size or 1.0) * traffic.first_tokens / traffic.computed)
        note = f"0 to {duration(rest * (1 - kept))}: counters cannot tell what could have been reused"
        parts.append(Part(AVOIDABLE, rest * (1 - kept), Basis.UPPER_BOUND, PREFILL, note))
    if step:
        parts.append(Part(FIRST_STEP, step, Basis.MODELLED, note="one steady decode step"))
    return parts


def _nobody_waits(traffic: Traffic, seconds: float) -> bool:
    """Say whether both figures of the queue are so small that its drift can't be what is left of TTFT."""
    figures = (traffic.little_queue, traffic.queue.mean if traffic.queue is not None else None)
    return all(figure is not None and figure < DRIFT * seconds for figure in figures)


def _rest(traffic: Traffic, seconds: float) -> list[Part]:
    """Name what is left of TTFT: the front end's where the cohorts are the same requests, else unexplained."""
    settled = traffic.short or traffic.same_requests or _nobody_waits(traffic, seconds)
    if not (traffic.cohort and settled and traffic.preemptions == 0):
        return [Part(UNEXPLAINED, seconds, Basis.RESIDUAL, note="the histograms are of other requests")]
    parts = [Part(FRONTEND, seconds, Basis.RESIDUAL, note="arrival to queued, and the way back")]
    steps = [h.mean for h in (traffic.itl, traffic.prefill) if h is not None and h.mean is not None]
    if traffic.together and traffic.itl is not None and traffic.itl.count and steps:
        # The step met on arrival may hold a whole prefill: on eight runs its mean covered the wait to 5 ms.
        wait = min(seconds, max(steps))
        parts.append(Part(STEP_UNDER_WAY, wait, Basis.UPPER_BOUND, FRONTEND, "arrives while a step runs"))
    return parts


def ttft_ledger(traffic: Traffic, *, load: float = 0.0, transfer: float | None = None) -> Ledger | None:
    """Split the mean TTFT. `load` and `transfer` are seconds per request. None without a first token.

    A mean of nothing at all is no latency: then the sum was not told.
    """
    if traffic.ttft is None or not traffic.ttft.mean:
        return None
    whole, left = traffic.ttft.mean, traffic.ttft.mean
    parts: list[Part] = []
    queue = queue_wait(traffic)
    if queue is not None:
        seconds = min(queue.seconds, left)
        parts.append(Part(QUEUE, seconds, queue.basis, note=queue.note))
        left -= seconds
        waited = kv_wait(traffic, seconds, transfer)
        if waited.seconds:
            parts.append(Part(KV_WAIT, waited.seconds, waited.basis, QUEUE, waited.note))
    measured = traffic.cohort and traffic.prefill is not None and traffic.prefill.mean is not None
    if measured and traffic.prefill is not None and traffic.prefill.mean is not None:
        prefill = Wait(min(traffic.prefill.mean, left), Basis.MEASURED, "prefill histogram")
    elif traffic.prefill_guess is not None:
        prefill = Wait(
            min(traffic.prefill_guess, left), Basis.MODELLED, "as of requests that finished before"
        )
    elif queue is None:
        parts.append(Part(UNEXPLAINED, left, Basis.RESIDUAL, note="neither queue nor prefill is told"))
        return Ledger(Metric.TTFT, whole, traffic.ttft.count, _exact(parts, whole))
    else:
        prefill = Wait(left, Basis.RESIDUAL, "what the queue leaves: no request has finished yet")
    parts += _prefill_parts(traffic, prefill, load)
    left -= prefill.seconds
    if left > 0:
        parts += _rest(traffic, left)
    return Ledger(Metric.TTFT, whole, traffic.ttft.count, _exact(parts, whole))


def preemption_stall(traffic: Traffic) -> float:
    """Seconds per output gap spent waiting after a preemption (rule 6).

    (Integral of waiting - first queue times) / generated tokens; no more than the ITL's tail holds, and than so many
    preempted requests can have waited: each for one gap between two of its tokens.
    """
    tail, queue = traffic.tail, queue_wait(traffic)
    if not traffic.preemptions or traffic.waiting is None or tail is None or traffic.itl is None:
        return 0.0
    if not traffic.generated or not traffic.seconds > 0 or not traffic.itl.count:
        return 0.0
    deferred = traffic.deferred.mean if traffic.deferred is not None else 0.0
    waited = max(0.0, traffic.waiting.mean - deferred) * traffic.seconds
    first = queue.seconds * traffic.first_tokens if queue and queue.basis is Basis.MEASURED else 0.0
    again = min(max(0.0, waited - first), traffic.preemptions * _longest_gap(traffic.itl, traffic.seconds))
    return min(again / traffic.generated, tail.excess / traffic.itl.count)


def _longest_gap(itl: Histogram, most: float) -> float:
    """Upper end of the highest bucket that holds a gap, at most the window's length."""
    held = (bound for bound, count in zip(itl.bounds, itl.counts, strict=True) if count > 0)
    return min(most, max(held, default=most))


def itl_ledger(traffic: Traffic, machine: Machine, ranks: int = 1, *, loads: float = 0.0) -> Ledger | None:
    """Split the mean ITL. Reads are modelled only where shape and ceiling are known. None without a gap.

    `loads` are seconds per gap that loads for sequences in decode took: a stall as far as the tail shows one.
    """
    itl, tail = traffic.itl, traffic.tail
    if itl is None or not itl.mean or tail is None:
        return None
    stall = preemption_stall(traffic)
    parts = []
    if stall:
        parts.append(Part(STALL, stall, Basis.MEASURED, note="waiting after preemptions over output tokens"))
    waited = min(loads, max(0.0, tail.excess / itl.count - stall))
    if waited:
        parts.append(Part(KV_STALL, waited, Basis.UPPER_BOUND, note="loads for sequences in decode"))
    beside = _beside(traffic, itl, tail, stall + waited)
    if beside.basis is Basis.MODELLED:
        read = sum(p.seconds for p in _reads(traffic, machine, itl.mean - stall - waited, ranks))
        beside = replace(beside, seconds=min(beside.seconds, max(0.0, itl.mean - stall - waited - read)))
    if beside.seconds:
        parts.append(Part(IN_STEP, beside.seconds, beside.basis, note=beside.note))
    steady = itl.mean - stall - waited - beside.seconds
    parts += _reads(traffic, machine, steady, ranks)
    left = max(0.0, itl.mean - sum(p.seconds for p in parts))
    split = any(p.name == WEIGHTS for p in parts)
    why = (
        "the reads told would not fit into it"
        if machine.shape and machine.bandwidth
        else "model or bandwidth unknown"
    )
    note = "" if split else f"the steady decode step, not split: {why}"
    parts.append(Part(UNEXPLAINED, left, Basis.RESIDUAL, note=note))
    return Ledger(Metric.ITL, itl.mean, itl.count, _exact(parts, itl.mean))


def _beside(traffic: Traffic, itl: Histogram, tail: Split, stall: float) -> Wait:
    """Seconds per gap that prefill of others takes inside the steps: the tail's excess, or, where every step is
    so full that its time goes with its tokens, the prompt tokens' share of it."""
    seen = min(max(0.0, tail.excess / itl.count - stall), _prefill_limit(traffic))
    share = mixed_share(traffic)
    full = share * ((itl.mean or 0.0) - stall)
    if HIDDEN * full > seen:
        return Wait(full, Basis.MODELLED, f"{percent(share)} of the tokens of full steps are prompt tokens")
    return Wait(seen, Basis.MEASURED, f"{tail.tail:.0f} gaps above {duration(tail.limit)}")


def _prefill_limit(traffic: Traffic) -> float:
    """Most seconds per gap that prefill can have taken: its own seconds, for each sequence in decode."""
    if traffic.computed == 0:
        return 0.0
    if traffic.itl is None or traffic.prefill_guess is None:
        return math.inf
    seconds = traffic.prefill_guess * traffic.first_tokens
    if traffic.cohort and traffic.prefill_seconds is not None:
        seconds = traffic.prefill_seconds
    return seconds * max(1.0, traffic.decode_batch or 1.0) / traffic.itl.count


def _reads(traffic: Traffic, machine: Machine, steady: float, ranks: int) -> list[Part]:
    """Weights and KV of a step over the ceiling; nothing where they exceed the step itself by more than noise:
    then model, card or layout is not as told."""
    batch, context = traffic.batch_of_a_rank(ranks), traffic.context
    if batch is None or context is None or machine.bandwidth is None:
        return []
    read = machine.step(batch, context)
    floor = machine.step_seconds(batch, context)
    if read is None or floor is None:
        return []
    weights, kv = read.weights / machine.bandwidth, (read.kv + read.state) / machine.bandwidth
    if weights + kv > IMPOSSIBLE * steady:
        return []
    shrink = min(1.0, steady / (weights + kv)) if weights + kv else 1.0
    parts = [
        Part(WEIGHTS, weights * shrink, Basis.MODELLED, note=machine.bandwidth_basis),
        Part(KV_READS, kv * shrink, Basis.MODELLED, note=f"batch {batch:.3g}, context {context:.0f} tokens"),
    ]
    over = min(steady, floor) - (weights + kv) * shrink
    if over > 0:
        parts.append(Part(COMPUTE, over, Basis.MODELLED, note="FLOPs beyond the time of the reads"))
    return parts


def _exact(parts: list[Part], whole: float) -> tuple[Part, ...]:
    """Drop empty parts, and let the largest residual (else the largest part) take the rounding of the sum."""
    kept = [p for p in parts if p.seconds > 0 or p.name == UNEXPLAINED]
    top = [i for i, p in enumerate(kept) if p.parent is None]
    if not top:
        return tuple(kept)
    slack = ROUNDING * whole
    taker = max(
        top, key=lambda i: (kept[i].basis is Basis.RESIDUAL and kept[i].seconds > slack, kept[i].seconds)
    )
    others = sum(kept[i].seconds for i in top if i != taker)
    part = kept[taker]
    kept[taker] = Part(part.name, whole - others, part.basis, part.parent, part.note)
    return tuple(kept)
