"""The same service over a range of batches or contexts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline.fit import fit_of
from kvdoctor.roofline.question import Question
from kvdoctor.roofline.rates import decode_of
from kvdoctor.roofline.step import Limit, micro_batches

Over = Literal["batch", "context"]
# The sweep's ends where the service itself lies inside: one sequence; the batch of a large prefill-free engine.
_LEAST_BATCH, _MOST_BATCH = 1.0, 512.0
_LEAST_CONTEXT, _MOST_CONTEXT = 1024.0, 131072.0


@dataclass(frozen=True, slots=True)
class Point:
    """One batch and context."""

    batch: float
    context: float
    seconds_floor: float
    ceiling: float
    """Tokens/s over the batch."""
    expected: tuple[float, float]
    kv_bytes: float
    """KV and states that one rank holds."""
    fits: bool | None
    """None where no pool is known."""
    limit: Limit
    intensity: float
    """FLOPs per byte, of one rank."""
    flops_per_s: float
    """At the floor, of one rank."""
    is_this: bool
    """Whether it is the service that was asked about."""


def sweep(question: Question, over: Over) -> tuple[Point, ...]:
    """Points at powers of two, the service itself among them. Raises KvdoctorError without a bandwidth."""
    if question.machine is None:
        raise KvdoctorError("a sweep needs a bandwidth", "name the card: --gpu H100")
    if question.load.mix and over == "context":
        raise KvdoctorError("a mix of contexts can't be swept over context", "give one --context")
    load = question.load
    if over == "batch":
        values = _doublings(_LEAST_BATCH, max(_MOST_BATCH, 4 * load.batch), load.batch)
        return tuple(_point(question, replace(question, load=replace(load, batch=v))) for v in values)
    limit = float(question.shape.max_positions or 0) or _MOST_CONTEXT
    values = _doublings(min(_LEAST_CONTEXT, load.context), max(limit, load.context), load.context)
    return tuple(_point(question, replace(question, load=replace(load, context=v))) for v in values)


def _doublings(low: float, high: float, also: float) -> list[float]:
    """Powers of two from `low` to `high`, and `also`."""
    first, last = math.floor(math.log2(low)), math.ceil(math.log2(high))
    return sorted({2.0**e for e in range(first, last + 1) if 2.0**e <= high * 1.0001} | {also})


def _point(asked: Question, question: Question) -> Point:
    """One point of the sweep."""
    decode, fit, layout = decode_of(question), fit_of(question), question.layout
    seconds, step = decode.seconds_floor or 0.0, decode.step
    if step is None or decode.ceiling is None or decode.expected is None:
        raise KvdoctorError("a sweep needs a bandwidth", "name the card: --gpu H100")
    work = decode.flops / micro_batches(question.load.batch, layout) / (layout.gpus / layout.pp)
    return Point(
        question.load.batch,
        question.load.context,
        seconds,
        decode.ceiling,
        decode.expected,
        fit.live,
        None if fit.sequences is None else not fit.misfits,
        step.limit,
        work / decode.bytes.total,
        work / seconds,
        question.load == asked.load,
    )
