"""Latencies that an engine does not export as such, put together from what it does export."""

from __future__ import annotations

import math
from dataclasses import replace

from kvdoctor import metrics as m
from kvdoctor.histogram import Histogram
from kvdoctor.timeline import Timeline


def first_tokens(timeline: Timeline) -> Histogram | None:
    """Return the TTFT histogram; else that of queue times, each plus the mean prefill; None without either."""
    told = timeline.histogram(m.TTFT)
    queue, prefill = timeline.histogram(m.QUEUE), timeline.histogram(m.PREFILL)
    if told is not None or queue is None or prefill is None or prefill.mean is None:
        return told
    bounds = tuple(bound + prefill.mean for bound in queue.bounds)
    return replace(queue, bounds=bounds, total=queue.total + queue.count * prefill.mean)


def gaps(timeline: Timeline) -> Histogram | None:
    """Return the ITL histogram; else one of as many gaps as were, spread as decode steps or as requests' means.

    The sum is that of the decode times where they are told. None where nothing tells of steps or gaps.
    """
    told = timeline.histogram(m.ITL)
    if told is not None:
        return told
    number = (timeline.delta(m.GENERATED) or 0.0) - (timeline.delta(m.FINISHED) or 0.0)
    if (
        timeline.engine.at_finish
        and timeline.delta(m.FINISHED)
        and timeline.delta(m.GENERATED)
        and number <= 0
    ):
        return None  # requests of one token each
    shape = timeline.histogram(m.STEP_SECONDS)
    if shape is not None:
        return _spread(shape, number, shape.mean)
    shape, decode = timeline.histogram(m.TPOT), timeline.histogram(m.DECODE)
    if shape is not None:
        mean = decode.total / number if decode is not None and number > 0 else shape.mean
        return _spread(shape, number, mean)
    seconds, tokens = timeline.delta(m.OUTPUT_SECONDS), timeline.delta(m.GENERATED)
    return Histogram((math.inf,), (tokens,), seconds, tokens) if seconds and tokens else None


def of_requests(timeline: Timeline) -> bool:
    """Say whether the gaps are spread as the means of requests, which say nothing of single steps."""
    return not timeline.has(m.ITL) and not timeline.has(m.STEP_SECONDS)


def _spread(shape: Histogram, number: float, mean: float | None) -> Histogram | None:
    """Scale a histogram to a number of observations and a mean; as it is where the number is not told."""
    if mean is None or not shape.count:
        return None
    number = number if number > 0 else shape.count
    counts = tuple(count * number / shape.count for count in shape.counts)
    return Histogram(shape.bounds, counts, mean * number, number)
