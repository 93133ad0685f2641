"""Blame queueing only when requests wait by policy while pool and step have room."""

from __future__ import annotations

import itertools
import math

from kvdoctor import metrics as m
from kvdoctor.case import COST, Case
from kvdoctor.causes.common import NO_TRAFFIC, NOT_EXPORTED
from kvdoctor.ledger import KV_WAIT, QUEUE
from kvdoctor.model import Advice, Basis, Bound, Evidence, Finding, Gap, Metric, Verdict
from kvdoctor.steps import FEW_TOKENS, PACES, prefill_share, small_steps
from kvdoctor.units import count, duration, percent

MAIN = 0.5
"""Share of the waiting that must have one reason before the reason is named."""
NEARLY_FREE = 1.15
"""Step at 1.25 x the batch over the step now, below which a larger batch costs next to nothing (rule 9)."""
LARGER = 1.25
LULLS = 0.2
"""Share of the readings with nobody running or waiting, from which a queue is that of bursts: it drains."""
BURSTY = 4.0
"""Variance of the arrivals between readings over their mean, from which they come in bursts; by chance it is 1."""
RISE = 1.2
"""Waiting in the last third over the first, from which arrivals outrun the service."""


def step_growth(case: Case) -> float | None:
    """Modelled step at 1.25 x the batch over the step now; None without model and ceiling."""
    batch, context = case.batch, case.traffic.context
    if batch is None or context is None:
        return None
    now, then = case.machine.step_seconds(batch, context), case.machine.step_seconds(LARGER * batch, context)
    return then / now if now and then else None


def nearly_free(case: Case) -> tuple[bool | None, str]:
    """Say whether a larger batch would cost next to nothing, and by what reasoning; None when unknown."""
    growth, busy = step_growth(case), prefill_share(case.traffic)
    if busy is not None and busy >= PACES and not small_steps(case.traffic):
        return False, f"up to {percent(busy)} of the time already goes to prefill"
    if growth is not None:
        return growth < NEARLY_FREE, f"modelled step at 1.25 x the batch: {growth:.2f} x"
    tokens = case.traffic.steps.mean if case.traffic.steps else None
    if tokens is None:
        return None, "no tokens per step"
    return tokens < FEW_TOKENS, f"{tokens:.0f} tokens a step; no model given to compute it"


def _thirds(case: Case) -> float | None:
    """Mean waiting in the last third of the window over the first; None with too few readings, or nobody."""
    points = [v for _, v in case.timeline.series(m.WAITING)]
    third = len(points) // 3
    if third < 3:
        return None
    first, last = sum(points[:third]) / third, sum(points[-third:]) / third
    if not first:
        return math.inf if last else None
    return last / first


def _lulls(case: Case) -> float:
    """Share of the readings, since somebody first waited, at which nobody runs or waits; 0 where not told."""
    running, waiting = ([v for _, v in case.timeline.series(gauge)] for gauge in (m.RUNNING, m.WAITING))
    start = next((i for i, number in enumerate(waiting) if number > 0), None)
    if start is None or len(running) != len(waiting):
        return 0.0
    nobody = [a + b == 0 for a, b in zip(running[start:], waiting[start:], strict=True)]
    return sum(nobody) / len(nobody)


def _dispersion(case: Case) -> float:
    """Variance over mean of the requests that came between two readings; 0 where not told."""
    inside = [[v for _, v in case.timeline.series(q)] for q in (m.RUNNING, m.WAITING, m.FINISHED)]
    if not inside[0] or len({len(each) for each in inside}) > 1:
        return 0.0
    so_far = [sum(each) for each in zip(*inside, strict=True)]
    came = [max(0.0, b - a) for a, b in itertools.pairwise(so_far)]
    mean = sum(came) / len(came) if came else 0.0
    return sum((each - mean) ** 2 for each in came) / len(came) / mean if mean else 0.0


def _evidence(case: Case, queue: float, why_free: str, growth: float | None) -> tuple[Evidence, ...]:
    running = case.traffic.running
    usage = case.traffic.usage
    return (
        case.evidence("queue time of a request", queue, "seconds", threshold=COST * case.currency,
                      of=(m.QUEUE, m.WAITING)),
        case.evidence("share of waiting at a full batch with room in the pool", case.waits.limit, "ratio",
                      threshold=MAIN, of=(m.WAITING, m.RUNNING, m.KV_CACHE_USAGE)),
        case.evidence("running, at most", running.peak if running else None, "", of=(m.RUNNING,)),
        case.evidence("KV cache usage at its fullest", usage.peak if usage else None, "ratio",
                      of=(m.KV_CACHE_USAGE,)),
        Evidence("a larger batch costs", growth, "x", NEARLY_FREE, why_free),
    )  # fmt: skip


def _no_data(case: Case) -> Finding:
    told = case.traffic.waiting is not None
    why = "No first token in the window." if told else "The engine does not say how many requests wait."
    gap = NO_TRAFFIC if told else NOT_EXPORTED
    return Finding(Bound.QUEUEING, Verdict.NO_DATA, None, why, gaps=(gap,))


def _untold(case: Case, waiting: float) -> Finding:
    """Requests wait now; for how long those that got through waited is not told."""
    running, usage = case.traffic.running, case.traffic.usage
    seconds = case.ttft.seconds if case.ttft else 0.0
    evidence = (
        case.evidence("waiting", waiting, "", threshold=0, of=(m.WAITING,)),
        case.evidence("running", running.last if running else None, "", of=(m.RUNNING,)),
        case.evidence("KV cache usage", usage.last if usage else None, "ratio", of=(m.KV_CACHE_USAGE,)),
        case.evidence("TTFT, of which the queue is an unknown part", seconds, "seconds", of=(m.TTFT,)),
    )
    gap = Gap(
        "queue",
        "this page has no queue times, and a gauge tells of one moment only",
        "take several readings: mean waiting over the rate of first tokens is the time in the queue",
    )
    why = f"{count(waiting)} requests wait; how much of {duration(seconds)} TTFT that is, is not told."
    return Finding(Bound.QUEUEING, Verdict.POSSIBLE, None, why, Metric.TTFT, seconds, None, evidence, (gap,))


def check(case: Case) -> tuple[Finding, ...]:
    """Waiting at the batch's limit with room in pool and step is policy; all other waiting is a symptom."""
    if case.ttft is None or case.traffic.waiting is None:
        return (_no_data(case),)
    if case.untold and case.traffic.waiting.last > 0:
        return (_untold(case, case.traffic.waiting.last),)
    queue = case.ttft.part(QUEUE) - case.ttft.part(KV_WAIT)
    free, why_free = nearly_free(case)
    evidence = _evidence(case, queue, why_free, step_growth(case))
    if not case.matters(queue):
        for_kv = case.matters(case.ttft.part(KV_WAIT))
        why = "What waits in the queue waits for KV." if for_kv else "Requests do not wait to speak of."
        return (Finding(Bound.QUEUEING, Verdict.RULED_OUT, None, why, evidence=evidence),)
    if _set_aside(case):
        return (_deferred(queue, evidence),)
    limit, arrivals = queue * case.waits.limit, queue * case.waits.other
    bursty = _lulls(case) >= LULLS and _dispersion(case) >= BURSTY
    if bursty and case.waits.blocks < MAIN and not (free and case.waits.limit >= MAIN):
        return (_bursts(case, queue, evidence),)
    if case.waits.limit >= MAIN:
        return (_limit(case, limit, free, why_free, evidence),)
    if case.waits.other >= MAIN:
        return (_arrivals(case, arrivals, free, evidence),)
    if case.waits.blocks >= MAIN:
        why = "Requests wait for blocks: see capacity."
        return (Finding(Bound.QUEUEING, Verdict.RULED_OUT, None, why, evidence=evidence),)
    gap = Gap("queue", "too few readings with someone waiting to see the reason", "a longer window")
    why = f"Requests wait {duration(queue)}; the readings do not show for what."
    return (Finding(Bound.QUEUEING, Verdict.POSSIBLE, None, why, Metric.TTFT, queue, None, evidence, (gap,)),)


def _set_aside(case: Case) -> bool:
    """Say whether most of the waiting is set aside by the scheduler although no KV comes from outside."""
    t = case.traffic
    if t.deferred is None or t.waiting is None or t.kv_from_outside:
        return False
    return t.deferred.mean >= MAIN * t.waiting.mean > 0


def _deferred(queue: float, evidence: tuple[Evidence, ...]) -> Finding:
    gap = Gap(
        "deferred requests",
        "why requests are deferred is not told, and no KV comes from outside: LoRA, grammar or encoder",
        "look at the limit of adapters (vLLM: --max-loras, vllm:lora_requests_info) and at structured output",
    )
    why = f"Requests wait {duration(queue)}, most of them set aside by the scheduler, and not for KV."
    return Finding(Bound.QUEUEING, Verdict.POSSIBLE, None, why, Metric.TTFT, queue, None, evidence, (gap,))


def _limit(
    case: Case, cost: float, free: bool | None, why_free: str, evidence: tuple[Evidence, ...]
) -> Finding:
    number = count(case.waits.limit_at)
    if not free:
        why = f"Requests wait at {number} running, but a larger batch would cost: {why_free}."
        return Finding(
            Bound.QUEUEING, Verdict.POSSIBLE, "admission_limit", why, Metric.TTFT, cost, None, evidence
        )
    why = f"The batch stands at {number} while requests wait and the pool has room: a limit, not a resource."
    advice = (
        Advice(
            "raise the limit on running sequences (vLLM: --max-num-seqs)",
            f"up to {duration(cost)} of TTFT; each step grows little ({why_free})",
            Basis.UPPER_BOUND,
            cost,
        ),
    )
    return Finding(
        Bound.QUEUEING, Verdict.LIKELY, "admission_limit", why, Metric.TTFT, cost, cost, evidence, (), advice
    )


def _bursts(case: Case, cost: float, evidence: tuple[Evidence, ...]) -> Finding:
    lulls, waiting = _lulls(case), case.traffic.waiting
    most = waiting.peak if waiting is not None else 0.0
    why = f"Requests come in bursts: up to {count(most)} wait at a time, and "
    why += f"{percent(lulls)} of the time nobody is there."
    more = (
        case.evidence(
            "time with nobody running or waiting", lulls, "ratio", threshold=LULLS, of=(m.RUNNING, m.WAITING)
        ),
        case.evidence("waiting, at most", most, "", of=(m.WAITING,)),
    )
    advice = (
        Advice("spread the requests over time at the client, or shed load at the door",
               f"up to {duration(cost)} of TTFT, as far as they can be spread", Basis.UPPER_BOUND, cost),
        Advice("add replicas for the bursts", "the queue, as far as it goes", Basis.UPPER_BOUND),
    )  # fmt: skip
    return Finding(
        Bound.QUEUEING,
        Verdict.LIKELY,
        "arrivals",
        why,
        Metric.TTFT,
        cost,
        cost,
        (*evidence, *more),
        (),
        advice,
    )


def _arrivals(case: Case, cost: float, free: bool | None, evidence: tuple[Evidence, ...]) -> Finding:
    rise = _thirds(case)
    outrun = rise is not None and rise >= RISE
    verdict = Verdict.LIKELY if free and outrun else Verdict.POSSIBLE
    why = f"Requests wait {duration(cost)} with room in the pool and no limit in sight"
    why += ", and more wait at the end than at the start." if outrun else "."
    more = (case.evidence("waiting, last third over first", rise, "x", threshold=RISE, of=(m.WAITING,)),)
    advice = (
        Advice(
            "add replicas, or shed load at the door", "the queue, as far as it goes", Basis.UPPER_BOUND, cost
        ),
    )
    return Finding(
        Bound.QUEUEING, verdict, "arrivals", why, Metric.TTFT, cost, None, evidence + more, (), advice
    )
