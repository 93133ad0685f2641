"""Blame what lies outside the engine: a router that feeds the ranks unevenly. The client is never seen from here."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.case import COST, Case
from kvdoctor.ledger import QUEUE
from kvdoctor.model import Advice, Basis, Bound, Finding, Gap, Metric, Verdict

UNEVEN = 3.0
"""Mean waiting of the fullest rank over the mean of the others, from which the feed counts as uneven."""
SOMEONE = 1.0
"""Mean waiting below which a rank is often without anyone waiting: too few to call its feed uneven."""

_CLIENT = Gap(
    "client",
    "time before the request reaches the engine, and after a token leaves it, is not seen",
    "measure TTFT at the client too, and compare it with the engine's",
)


def check(case: Case) -> tuple[Finding, ...]:
    """Compare how many wait on each rank."""
    unseen = Finding(
        Bound.EXTERNAL, Verdict.NO_DATA, "client", "The way to the engine is not seen.", gaps=(_CLIENT,)
    )
    waits = {r: g.mean for r in case.timeline.ranks if (g := case.timeline.gauge(m.WAITING, r)) is not None}
    if len(waits) < 2:
        return (unseen,)
    fullest = max(waits, key=lambda rank: waits[rank])
    others = [w for rank, w in waits.items() if rank != fullest]
    rest = sum(others) / len(others)
    queue = case.ttft.part(QUEUE) if case.ttft else 0.0
    cost = queue * max(0.0, waits[fullest] - rest) / sum(waits.values()) if sum(waits.values()) else 0.0
    evidence = (
        case.evidence(f"mean waiting on rank {fullest}", waits[fullest], "", threshold=UNEVEN * rest, of=(m.WAITING,)),
        case.evidence("mean waiting on the other ranks", rest, "", of=(m.WAITING,)),
    )  # fmt: skip
    if waits[fullest] < UNEVEN * rest or case.share(cost) < COST or waits[fullest] < SOMEONE:
        why = "No rank has a queue to speak of while the others have none."
        return (Finding(Bound.EXTERNAL, Verdict.RULED_OUT, "router", why, evidence=evidence), unseen)
    why = f"Requests wait on rank {fullest} while the others have next to none: the router's doing."
    advice = (
        Advice("balance by load across ranks", "the uneven part of the queue", Basis.UPPER_BOUND, cost),
    )
    found = Finding(
        Bound.EXTERNAL, Verdict.LIKELY, "router", why, Metric.TTFT, cost, cost, evidence, (), advice
    )
    return (found, unseen)
