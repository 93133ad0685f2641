"""How long requests wait before they are scheduled: the histogram where it fits, Little's law where it does not."""

from __future__ import annotations

from dataclasses import dataclass

from kvdoctor.model import Basis
from kvdoctor.traffic import Traffic

FROM_ELSEWHERE = 0.9
"""Share of the prompt tokens that must come from another instance before a queue without any other reason is
taken to be the wait for them: the decode side of a pair gets all but the last block."""
DRIFT = 0.1
"""Share of TTFT that queue and prefill histograms must leave before they are taken to be of other requests."""


@dataclass(frozen=True, slots=True)
class Wait:
    """One estimate of a part, with its basis."""

    seconds: float
    basis: Basis
    note: str = ""


def queue_wait(traffic: Traffic) -> Wait | None:
    """Mean time from queued to first scheduled, by the histogram where its cohort fits, else by Little's law.

    Preempted requests wait again, so with preemptions Little's figure is only an upper bound.
    """
    little = traffic.little_queue
    if traffic.cohort and traffic.queue is not None and traffic.queue.mean is not None:
        return _drifted(traffic, traffic.queue.mean) or Wait(
            traffic.queue.mean, Basis.MEASURED, "queue histogram"
        )
    if little is None:
        return None
    if traffic.preemptions == 0:
        return Wait(little, Basis.MEASURED, "mean waiting over the rate of first tokens")
    whole = traffic.ttft.mean if traffic.ttft is not None else None
    if traffic.prefill_guess is None or whole is None:
        return Wait(little, Basis.UPPER_BOUND, "waits after a preemption included")
    left = max(0.0, whole - traffic.prefill_guess)
    return Wait(min(little, left), Basis.RESIDUAL, "what prefill leaves: the preempted wait again")


def _drifted(traffic: Traffic, finished: float) -> Wait | None:
    """What prefill leaves of TTFT, where long requests finish while others queue: the histogram is of earlier
    ones. Never over Little's figure, which counts the waiting of now; None where nothing drifts."""
    little, whole = traffic.little_queue, traffic.ttft.mean if traffic.ttft is not None else None
    prefill = traffic.prefill.mean if traffic.prefill is not None else None
    if traffic.short or traffic.same_requests or little is None or whole is None or prefill is None:
        return None
    left = whole - prefill
    if left - finished < DRIFT * whole or little <= finished:
        return None
    note = "what prefill leaves: the queue histogram is of earlier requests"
    return Wait(max(finished, min(little, left)), Basis.RESIDUAL, note)


def kv_wait(traffic: Traffic, queue: float, transfer_seconds: float | None) -> Wait:
    """How long a request waits for its KV, inside its queue time: deferred by Little, or the transfers' own.

    Requests are deferred for other reasons too (a limit of adapters, a grammar): without any KV from outside,
    nobody waits for it. Where prompts come from elsewhere almost whole and no reading shows anybody waiting for
    another reason, all of the queue is that wait: a short one falls between the readings of a gauge.
    """
    deferred = other = 0.0
    if traffic.first_tokens and traffic.seconds > 0:
        each = traffic.seconds / traffic.first_tokens
        told = traffic.deferred is not None and traffic.kv_from_outside
        deferred = traffic.deferred.mean * each if told and traffic.deferred is not None else 0.0
        other = max(0.0, traffic.waiting.mean * each - deferred) if traffic.waiting is not None else queue
    seen = min(queue, max(deferred, transfer_seconds or 0.0))
    outside = (traffic.external_delivered or 0.0) >= FROM_ELSEWHERE * traffic.prompt_tokens > 0
    if outside and transfer_seconds and other < DRIFT * queue:
        return Wait(
            queue, Basis.RESIDUAL, "all of the queue: the prompts come from elsewhere, none waits otherwise"
        )
    return Wait(seen, Basis.MEASURED, "inside the queue time")
