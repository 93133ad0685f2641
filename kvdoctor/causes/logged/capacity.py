"""Capacity on the word of a log: the pool is full, and somebody pays."""

from __future__ import annotations

import itertools

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.causes.logged.opinion import COST, MAIN, Grade, Opinion, likely, no_data, possible, ruled_out
from kvdoctor.logview import NOTHING, LogView
from kvdoctor.model import Bound, Evidence, Metric
from kvdoctor.units import count, duration, percent
from kvdoctor.waiting import FULL

HALF = 0.5
"""Share of its highest batch, or of the batch allowed, to which a full pool has cut the running requests."""
TREND_LINES = 5
"""Lines from which a rise is a trend."""
SOON = 600.0
"""Seconds within which a pool that fills steadily runs full: a long answer's length."""
ROOM = "give the KV pool more room (GPU memory for it, fp8 KV, more cards), or let fewer or shorter sequences run"
_OF = (m.KV_CACHE_USAGE, m.RUNNING, m.WAITING)


def _evidence(view: LogView) -> tuple[Evidence, ...]:
    return (
        view.evidence("KV cache usage at its fullest", view.usage.peak if view.usage else None, "ratio",
                      threshold=FULL, of=(m.KV_CACHE_USAGE,)),
        view.evidence("lines of preempted or retracted requests", view.preemptions, threshold=0,
                      of=(m.PREEMPTIONS,)),
        view.evidence("share of its time that a request waits", view.queue_share, "ratio", threshold=COST,
                      of=(m.WAITING, m.RUNNING)),
        view.evidence("share of waiting with no room in the pool", view.waits.blocks, "ratio", threshold=MAIN,
                      of=_OF),
    )  # fmt: skip


def _events(view: LogView, evidence: tuple[Evidence, ...]) -> Opinion | None:
    """Requests lost their blocks, or were refused some: the engine says so itself."""
    events = view.of(m.PREEMPTIONS)
    refused = view.of(lm.NO_SPACE)
    if refused and not events:
        why = f"The engine found no room in the KV cache {count(len(refused))} times."
        return likely(Bound.CAPACITY, "admission", why, Grade.PROVEN, evidence, do=ROOM)
    out = max(view.values(m.SWAPPED), default=0.0)
    if out and not events:
        subclass = "preemption" if "tensorrt_llm" in view.engines else "swap"
        why = f"Up to {count(out)} requests are paused or swapped out for want of KV blocks."
        return likely(Bound.CAPACITY, subclass, why, Grade.PROVEN, evidence, do=ROOM)
    if not events:
        return None
    swapped = bool(view.of(lm.SWAPS))
    subclass = "swap" if swapped else "preemption"
    waits = view.waiting is not None and view.waiting.last > 0
    told = view.of(m.WAITING)
    recent = not told or events[-1].at >= told[-1].at - RECENT
    if not waits and not recent:
        why = f"{count(len(events))} preemptions, none near the end of the log, and nobody waits there."
        return possible(Bound.CAPACITY, subclass, why, evidence)
    how = "swapped to CPU memory" if swapped else "preempted"
    why = f"Requests are {how} for want of KV blocks ({count(len(events))} lines say so)."
    return likely(Bound.CAPACITY, subclass, why, Grade.PROVEN, evidence, do=ROOM)


RECENT = 60.0
"""Seconds before the last line within which an event is of now."""


def _blocked(view: LogView, evidence: tuple[Evidence, ...]) -> Opinion | None:
    """Requests wait while the pool has no room."""
    share = view.queue_share
    if share is None or share < COST or view.waits.blocks < MAIN or view.usage is None:
        return None
    why = f"Requests wait {percent(share)} of their time, mostly while the pool has no room for one more."
    return likely(Bound.CAPACITY, "admission", why, Grade.MEASURED, evidence, do=ROOM, metric=Metric.TTFT)


def _squeezed(view: LogView, evidence: tuple[Evidence, ...]) -> Opinion | None:
    """The batch shrank as the pool ran full, whatever the number waiting says."""
    usage, running = view.of(m.KV_CACHE_USAGE), {s.at: s.value for s in view.of(m.RUNNING)}
    points = [(s.value, running[s.at]) for s in usage if s.at in running]
    for number, (used, now) in enumerate(points):
        before = [(u, r) for u, r in points[:number] if u < used]
        most = max(before, key=lambda point: point[1], default=(0.0, 0.0))
        if used >= FULL and 0 < now <= HALF * most[1]:
            why = (
                f"As the pool filled from {percent(most[0])} to {percent(used)}, the batch fell from "
                f"{count(most[1])} running to {count(now)}: live contexts crowd one another out."
            )
            return likely(Bound.CAPACITY, "preemption", why, Grade.MEASURED, evidence, do=ROOM)
    return None


def _few_fit(view: LogView, evidence: tuple[Evidence, ...]) -> Opinion | None:
    """A full pool holds far fewer requests than the batch may have."""
    allowed = view.last(lm.MAX_RUNNING)
    running = view.running.peak if view.running else None
    if view.usage is None or not running or not allowed or view.usage.peak < FULL:
        return None
    if running > HALF * allowed or (view.queue_share is not None and view.queue_share < COST):
        return None
    why = f"{count(running)} requests fill the pool, and the batch may have {count(allowed)}."
    more = (view.evidence("sequences allowed", allowed, of=(lm.MAX_RUNNING,)),)
    return likely(Bound.CAPACITY, "admission", why, Grade.INFERRED, evidence + more, do=ROOM)


def _full(view: LogView, evidence: tuple[Evidence, ...]) -> Opinion | None:
    """The pool is full and requests wait; how many run is not told."""
    if view.running is not None or view.usage is None or view.usage.peak < FULL:
        return None
    if view.waiting is None or not view.waiting.peak:
        return None
    why = f"The pool is full, and {count(view.waiting.peak)} requests wait."
    return likely(Bound.CAPACITY, "admission", why, Grade.INFERRED, evidence, do=ROOM, metric=Metric.TTFT)


def no_room_for_another(view: LogView) -> bool:
    """Say whether one more request as large as those that run would not fit into what the pool has left."""
    if view.usage is None or view.running is None or view.running.mean < 1:
        return False
    return view.usage.mean / view.running.mean > 1 - view.usage.low


def _too_large(view: LogView, evidence: tuple[Evidence, ...]) -> Opinion | None:
    """Requests wait beside a pool with room, but not for one more like those that run."""
    share, allowed, running = view.queue_share, view.last(lm.MAX_RUNNING), view.running
    if share is None or share < COST or running is None or not no_room_for_another(view):
        return None
    if allowed is not None and running.peak >= allowed:
        return None
    each = view.usage.mean / running.mean if view.usage else 0.0
    why = (
        f"A running request holds {percent(each)} of the pool: another as large does not fit, and requests wait "
        f"{percent(share)} of their time."
    )
    return likely(Bound.CAPACITY, "admission", why, Grade.INFERRED, evidence, do=ROOM, metric=Metric.TTFT)


def _filling(view: LogView, evidence: tuple[Evidence, ...]) -> Opinion | None:
    """The pool fills by decode alone, steadily, and runs full within minutes: then somebody is preempted."""
    said, running = view.of(m.KV_CACHE_USAGE), view.running
    if len(said) < TREND_LINES or running is None or not running.low or said[-1].value < FULL:
        return None
    if any(b.value < a.value for a, b in itertools.pairwise(said)) or said[-1].at <= said[0].at:
        return None
    slope = (said[-1].value - said[0].value) / (said[-1].at - said[0].at)
    if slope <= 0 or (view.mean(lm.PROMPT_RATE) or 0.0) > NOTHING:
        return None
    left = max(0.0, 1.0 - said[-1].value) / slope
    if left > SOON:
        return None
    why = f"No request ends, and the pool fills steadily: it is full {duration(left)} after the last line."
    more = (view.evidence("time until the pool is full", left, "seconds", threshold=SOON, of=_OF),)
    return likely(Bound.CAPACITY, "preemption", why, Grade.INFERRED, evidence + more, do=ROOM)


def check(view: LogView) -> tuple[Opinion, ...]:
    """Ask for events first, then for what gauges show."""
    evidence = _evidence(view)
    for ask in (_events, _blocked, _squeezed, _few_fit, _too_large, _filling, _full):
        opinion = ask(view, evidence)
        if opinion is not None:
            return (opinion,)
    if view.usage is None:
        return (
            no_data(
                Bound.CAPACITY, "no KV cache usage was told", "read KV usage and preemptions of /metrics"
            ),
        )
    why = "The pool has room." if view.usage.peak < FULL else "The pool is full and nobody waits for it."
    return (ruled_out(Bound.CAPACITY, why, evidence),)
