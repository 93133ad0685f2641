"""Why requests wait, reading by reading: for blocks, for a slot, or behind what the steps already hold."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from kvdoctor import metrics as m
from kvdoctor.timeline import Timeline
from kvdoctor.traffic import Traffic, kv_in_flight

FULL = 0.9
"""KV cache usage from which a pool counts as full: with 10 blocks a request, under one request's room in ten."""
AT_LIMIT = 0.95
"""Running over its peak from which the batch counts as at its limit: a slot in twenty may be changing hands."""
PLATEAU = 0.4
"""Share of the waiting readings at the very peak from which that peak is a limit. A batch whose requests end
together is below it between steps (two thirds of the readings stood at it in a run at a limit of 4); one
that nothing limits touches its own highest value now and then only."""


@dataclass(frozen=True, slots=True)
class WaitShares:
    """Shares of all waiting (deferred requests left out); they sum to 1, or are all 0 without waiting."""

    blocks: float = 0.0
    """The pool had no room for one more request."""
    limit: float = 0.0
    """The pool had room, and the batch stood at its highest."""
    other: float = 0.0
    """Neither: tokens of the step, or arrivals in a burst."""
    unknown: float = 0.0
    """The pool's usage was not told."""
    readings: int = 0
    """Readings with someone waiting."""
    limit_at: float = 0.0
    """Highest number running while someone waited."""
    held: float = 0.0
    """Share of the readings with someone waiting at which exactly that many ran."""


def _blocked(usage: float, need: float, running: float, peak: float, preempting: bool) -> bool:
    """Say whether the pool had no room: full, too little for a prompt, or just emptied by a preemption."""
    return usage >= FULL or 1 - usage < need or (preempting and running < peak)


def _moved(timeline: Timeline, rank: str) -> set[float] | None:
    """Times of the readings by which tokens had come since the one before; None where they are not told at once.

    A batch that stands still because nothing moves shows no limit.
    """
    points = timeline.series(m.STEPS, rank) or timeline.series(m.GENERATED, rank)
    if not points or (timeline.engine.at_finish and not timeline.has(m.STEPS)):
        return None
    return {points[0][0], *(b[0] for a, b in itertools.pairwise(points) if b[1] != a[1])}


def wait_shares(timeline: Timeline, traffic: Traffic) -> WaitShares:
    """Sort the waiting of all ranks by what stood in its way."""
    totals = {"blocks": 0.0, "limit": 0.0, "other": 0.0, "unknown": 0.0}
    readings, at_limit, held, highest = 0, 0, 0, 0.0
    need = 0.0
    if traffic.pool_tokens and traffic.prompt_per_request:
        need = traffic.prompt_per_request / traffic.pool_tokens
    for rank in timeline.ranks:
        deferred = dict(timeline.series(kv_in_flight(timeline), rank))
        running = dict(timeline.series(m.RUNNING, rank))
        usage = dict(timeline.series(m.KV_CACHE_USAGE, rank))
        waits = [(t, w - deferred.get(t, 0.0)) for t, w in timeline.series(m.WAITING, rank)]
        moved = _moved(timeline, rank)
        peak = max((running.get(t, 0.0) for t, w in waits if w > 0), default=0.0)
        highest = max(highest, peak)
        for t, waiting in waits:
            if waiting <= 0:
                continue
            still = moved is not None and t not in moved
            readings += not still
            near = not still and peak > 0 and running.get(t, 0.0) >= AT_LIMIT * peak
            at_limit += near
            held += near and running[t] == peak
            if t not in usage:
                reason = "unknown"
            elif _blocked(usage[t], need, running.get(t, 0.0), peak, traffic.preemptions > 0):
                reason = "blocks"
            else:
                reason = "limit" if near else "other"
            totals[reason] += waiting
    other, name = totals.pop("limit") + totals.pop("other"), "other"
    if readings and at_limit >= PLATEAU * readings:
        name = "limit"
    totals[name] = other
    whole = sum(totals.values())
    shares = {k: v / whole for k, v in totals.items()} if whole else {}
    return WaitShares(
        **shares, readings=readings, limit_at=highest, held=held / readings if readings else 0.0
    )
