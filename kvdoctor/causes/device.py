"""Blame the device when a card is not what it should be. From metrics only a slow rank can be seen."""

from __future__ import annotations

import statistics

from kvdoctor import metrics as m
from kvdoctor.case import Case
from kvdoctor.causes import cards
from kvdoctor.model import Bound, Finding, Gap, Metric, Verdict

SLOW = 1.3
"""Mean ITL of a rank over the median of all, from which it stands out (and its load must not explain it)."""
SAME_LOAD = 1.15
"""Output tokens of that rank over the median's, above which its load explains a longer ITL."""

_COUNTERS = Gap(
    "gpu counters",
    "clocks, throttling, ECC and link width are not among the engine's metrics",
    "attach on the host (kvdoctor diagnose --pid N), or nvidia-smi -q -d PERFORMANCE,ECC,CLOCK",
)


def check(case: Case) -> tuple[Finding, ...]:
    """Compare the ranks' mean ITL, and look at the cards where the host shows any."""
    return (*_ranks(case), *(cards.check(case) or (_unseen(case),)))


def _unseen(case: Case) -> Finding:
    gaps = () if case.host else (_COUNTERS,)
    return Finding(Bound.DEVICE, Verdict.NO_DATA, "throttled", "No card is seen from here.", gaps=gaps)


def _ranks(case: Case) -> tuple[Finding, ...]:
    """Compare the ranks' mean ITL; empty for a single rank."""
    means, tokens = {}, {}
    for rank in case.timeline.ranks:
        itl = case.timeline.histogram(m.ITL, rank)
        if itl is not None and itl.mean:
            means[rank] = itl.mean
            tokens[rank] = case.timeline.delta(m.GENERATED, rank) or 0.0
    if len(means) < 2:
        return ()
    middle, load = statistics.median(means.values()), statistics.median(tokens.values())
    slowest = max(means, key=lambda rank: means[rank])
    ratio = means[slowest] / middle
    evidence = (
        case.evidence(f"ITL of rank {slowest} over the median", ratio, "x", threshold=SLOW, of=(m.ITL,)),
    )
    if ratio < SLOW or tokens[slowest] > SAME_LOAD * load:
        why = "The ranks decode alike." if ratio < SLOW else f"Rank {slowest} carries more load."
        return (Finding(Bound.DEVICE, Verdict.RULED_OUT, "slow_rank", why, evidence=evidence),)
    cost = (means[slowest] - middle) * (case.gaps or 1.0) / len(means)
    why = f"Rank {slowest} decodes {ratio:.2f} x slower than the median with no more load."
    return (
        Finding(
            Bound.DEVICE, Verdict.POSSIBLE, "slow_rank", why, Metric.ITL, cost, None, evidence, (_COUNTERS,)
        ),
    )
