"""What an engine's page leaves out of its ranks and API servers, and which rank all others wait for."""

from __future__ import annotations

from collections.abc import Mapping

from kvdoctor import metrics as m
from kvdoctor.case import Case
from kvdoctor.model import Gap

MISSING = 1.5
"""Running requests by the gauge over those by the latencies (Little's law), from which the latencies lack some:
half-way between those of all API servers (1) and of one of two (2, or more of more)."""
ENOUGH = 100
"""Output gaps from which their sum is believed: four sequences at 0.5 s a token give as many in 15 s."""
AHEAD = 1.2
"""Load of the fullest rank over the mean of all, from which it sets the pace of a lockstep: with 20% more sequences
a rank reads up to 20% more KV in the same step."""
MOST = 2**16
"""Ranks or servers beyond which a number on a command line is no number of them."""


def gaps(case: Case) -> tuple[Gap, ...]:
    """Return what of the ranks and of the API servers is not in the figures (rule 16)."""
    return tuple(filter(None, (_ranks(case), _servers(case))))


def notes(case: Case) -> tuple[str, ...]:
    """Name the rank that the others wait for, where a mixture of experts runs in lockstep; else nothing."""
    loads = _loads(case)
    if len(loads) < 2 or not _lockstep(case):
        return ()
    fullest = max(loads, key=lambda rank: loads[rank])
    mean = sum(loads.values()) / len(loads)
    if mean <= 0 or loads[fullest] < AHEAD * mean:
        return (
            "A mixture of experts with data parallelism runs in lockstep; its ranks carry their load alike.",
        )
    others = (sum(loads.values()) - loads[fullest]) / (len(loads) - 1)
    return (
        "A mixture of experts with data parallelism runs in lockstep, at the pace of its fullest rank: "
        f"rank {fullest}, with {loads[fullest]:.1f} requests running against {others:.1f} on the others.",
    )


def stated(facts: Mapping[str, str], name: str) -> int:
    """Return a number of ranks, stages or servers that a command line states; 1 without."""
    text = facts.get(name, "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 1
    return number if 0 < number <= MOST else 1


def _ranks(case: Case) -> Gap | None:
    size, seen = stated(case.facts, "dp"), len(case.timeline.ranks)
    if seen >= size:
        return None
    reason = (
        f"its page names {seen} of {size} data-parallel ranks: the load and the latencies of the others are not in "
        "these figures, or cannot be told apart"
    )
    return Gap("ranks", reason, "give the page of every rank or node: --url, once each")


def _servers(case: Case) -> Gap | None:
    """Hold the latencies against the gauge: requests running are those between two tokens or before their first.

    A request that has not ended counts as well, so long streams are no reason to doubt; waiting before the first
    token is counted among what the latencies tell, so a queue is none either.
    """
    t, servers = case.traffic, stated(case.facts, "api_server_count")
    if t.lifetime or t.at_finish or t.gaps_of_requests or t.itl is None or t.running is None:
        return None
    if t.itl.count < ENOUGH or not t.seconds > 0:
        return None
    told = (t.itl.total + (t.ttft.total if t.ttft is not None else 0.0)) / t.seconds
    if t.running.mean < MISSING * max(told, 1.0):
        return None
    whose = f"one of its {servers} API servers" if servers > 1 else "one API server of several"
    reason = (
        f"its gauge holds {t.running.mean:.1f} running requests, its latencies account for {told:.1f}: counters and "
        f"histograms may be of {whose}"
    )
    return Gap("API servers", reason, "compare the rise of its finished requests with the load that was sent")


def _lockstep(case: Case) -> bool:
    """Say whether every step waits for all ranks: the model is known to have routed experts."""
    shape = case.machine.shape
    return shape is not None and any(layer.experts for layer in shape.layers)


def _loads(case: Case) -> dict[str, float]:
    """Return the mean number of running requests of each rank that tells it."""
    told = {rank: case.timeline.gauge(m.RUNNING, rank) for rank in case.timeline.ranks}
    return {rank: gauge.mean for rank, gauge in told.items() if gauge is not None}
