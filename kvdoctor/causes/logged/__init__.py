"""The causes on the word of logs and reports: the same thresholds, no latencies, so never more than a medium word."""

from __future__ import annotations

from kvdoctor.causes.logged import (
    capacity,
    cards,
    carried,
    experiment,
    formats,
    held,
    hits,
    links,
    machine,
    movement,
    named,
    numbered,
    parts,
    reads,
    steps,
    told,
    trends,
    variants,
)
from kvdoctor.causes.logged.opinion import Opinion
from kvdoctor.logview import LogView
from kvdoctor.service import Objective


def opinions(view: LogView, objective: Objective) -> tuple[Opinion, ...]:
    """Ask every cause, in the order of triage."""
    waited = steps.queued(view)
    return (
        *experiment.check(view, objective),
        *capacity.check(view),
        *movement.offload(view, objective),
        *hits.hit_rate(view),
        *movement.network(view, objective),
        *machine.check(view, objective),
        *held.check(view, objective),
        *trends.check(view, objective),
        *variants.check(view),
        *parts.check(view, objective),
        *named.check(view, objective),
        *numbered.check(view),
        *cards.check(view),
        *formats.check(view),
        *carried.check(view, objective),
        *links.check(view),
        *reads.check(view),
        *told.check(view, objective),
        *steps.compute(view),
        *(steps.queueing(view) if waited is None else (waited,)),
    )
