"""Compute and queueing on the word of a log: how full the steps are, and who waits for what."""

from __future__ import annotations

import statistics

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.causes.logged.capacity import no_room_for_another
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
from kvdoctor.logview import LogView
from kvdoctor.model import Bound, Evidence, Gap, Metric
from kvdoctor.units import count, duration, percent
from kvdoctor.waiting import FULL

RISE = 1.2
"""Waiting in the last third over the first, from which arrivals outrun the service."""
BATCHES = 2
"""Prefill batches from which their size is no accident."""
FULL_STEP = 8 * RIDGE_TOKENS
"""Prompt tokens of a prefill batch far above any card's ridge: it computes at the roof, a larger one takes longer."""
_CHUNK = "give prefill its own cards, or a budget of tokens that fits the decode steps' objective"


def prefill_share(view: LogView) -> float | None:
    """Share of a step's time that prompts take at most, by tokens against the ridge; None unknown."""
    tokens = view.prompt_step_tokens
    return None if tokens is None else min(1.0, tokens / RIDGE_TOKENS)


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
    if (
        waits.limit >= MAIN
        and room
        and (at_limit or not no_room_for_another(view))
        and (free or (at_limit and tokens is None))
    ):
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
