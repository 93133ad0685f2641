"""Blame the host only with a witness: idle SMs or stacks. Metrics alone can at most raise the question."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.case import Case
from kvdoctor.causes import hostcounters, hostcpu, hoststacks
from kvdoctor.causes.common import NO_TIER
from kvdoctor.ledger import FRONTEND, STEP_UNDER_WAY, UNEXPLAINED
from kvdoctor.model import Bound, Finding, Gap, Metric, Verdict
from kvdoctor.units import duration, percent

FRONT_SHARE = 0.25
"""Share of TTFT outside the engine core from which the front end is worth a look (rule 11 asks a quarter)."""
FRONT_SECONDS = 0.05
"""Seconds below which the front end is not worth a look whatever its share."""
BEYOND_FLOOR = 0.25
"""Share of a step beyond its modelled floor from which the host is worth a look (rule 11)."""
LOOKUP_SHARE = 0.1
"""Share of TTFT, or of an engine's time, spent on look-ups in outer tiers from which the index is worth a look."""

_STACKS = Gap(
    "stacks",
    "whether the GPU waits for Python is not among the metrics",
    "attach on the host (kvdoctor diagnose --pid N), or py-spy dump --nonblocking --pid N eight times",
)


def _unseen(case: Case) -> tuple[Gap, ...]:
    """What attaching would show; nothing where we are attached and the recording says itself what failed."""
    return () if case.host else (_STACKS,)


def front_end(case: Case) -> Finding:
    """Time between arrival and the engine's queue that no step under way explains."""
    if case.ttft is None or not case.ttft.part(FRONTEND):
        why = "The front end's share of TTFT is not seen."
        return Finding(Bound.HOST, Verdict.NO_DATA, "tokenizer", why, gaps=_unseen(case))
    alone = max(0.0, case.ttft.part(FRONTEND) - case.ttft.part(STEP_UNDER_WAY))
    limit = max(FRONT_SECONDS, FRONT_SHARE * case.ttft.seconds)
    evidence = (
        case.evidence(
            "front end, beyond a step under way", alone, "seconds", threshold=limit, of=(m.TTFT, m.QUEUE)
        ),
    )
    if alone < limit:
        why = f"Outside the engine core a request spends {duration(alone)}."
        return Finding(Bound.HOST, Verdict.RULED_OUT, "tokenizer", why, evidence=evidence)
    why = f"{duration(alone)} of TTFT pass outside the engine core: tokenizer, IPC or a busy front end."
    return Finding(
        Bound.HOST, Verdict.POSSIBLE, "tokenizer", why, Metric.TTFT, alone, None, evidence, _unseen(case)
    )


def step(case: Case) -> Finding:
    """A step that takes longer than its modelled floor may wait for the host; idle SMs must confirm it."""
    if case.itl is None or case.machine.shape is None or case.machine.bandwidth is None:
        why = "Without a modelled step and idle SMs or stacks the host cannot be judged."
        return Finding(Bound.HOST, Verdict.NO_DATA, "scheduler", why, gaps=_unseen(case))
    beyond = case.itl.part(UNEXPLAINED)
    share = beyond / case.itl.seconds
    of = (m.ITL,)
    evidence = (case.evidence("step beyond its floor", share, "ratio", threshold=BEYOND_FLOOR, of=of),)
    if share < BEYOND_FLOOR:
        why = "The step is close to its modelled floor: no room for the host."
        return Finding(Bound.HOST, Verdict.RULED_OUT, "scheduler", why, evidence=evidence)
    why = f"{percent(share)} of a step is beyond the modelled reads: host, kernels or launches."
    cost = beyond * (case.gaps or 1.0)
    return Finding(Bound.HOST, Verdict.POSSIBLE, None, why, Metric.ITL, cost, None, evidence, _unseen(case))


def kv_lookup(case: Case) -> Finding:
    """Looking prompts up in an outer tier takes a share of TTFT."""
    lookup = case.timeline.histogram(m.LOOKUP)
    if lookup is None or not lookup.count or case.ttft is None:
        why = "No look-up delays are counted."
        return Finding(Bound.HOST, Verdict.NO_DATA, "kv_lookup", why, gaps=(NO_TIER,))
    cost = lookup.total / max(1.0, case.traffic.first_tokens)
    limit = LOOKUP_SHARE * case.ttft.seconds
    evidence = (
        case.evidence("look-up in outer tiers, a request", cost, "seconds", threshold=limit, of=(m.LOOKUP,)),
    )
    if cost < limit:
        why = "Look-ups in outer tiers are short."
        return Finding(Bound.HOST, Verdict.RULED_OUT, "kv_lookup", why, evidence=evidence)
    why = f"Looking prompts up in outer tiers takes {duration(cost)} of TTFT."
    share, cost = _blocked(case), min(cost, case.ttft.seconds)
    if share * case.currency <= cost:
        return Finding(Bound.HOST, Verdict.LIKELY, "kv_lookup", why, Metric.TTFT, cost, cost, evidence)
    why = f"The engine's loop stands still for {percent(share)} of the time while prompts are looked up."
    told = case.evidence(
        "time that the loop waits for look-ups",
        share,
        "ratio",
        threshold=LOOKUP_SHARE,
        of=(m.LOOKUP_BLOCKING,),
    )
    cost = share * case.currency
    return Finding(Bound.HOST, Verdict.LIKELY, "kv_lookup", why, None, cost, cost, (*evidence, told))


def _blocked(case: Case) -> float:
    """Share of the window in which an engine's loop waits for look-ups; every request in it waits too."""
    lookup = case.timeline.histogram(m.LOOKUP_BLOCKING)
    if lookup is None or not case.traffic.seconds > 0:
        return 0.0
    share = lookup.total / case.traffic.seconds / len(case.timeline.ranks)
    return min(1.0, share) if share >= LOOKUP_SHARE else 0.0


def check(case: Case) -> tuple[Finding, ...]:
    """Ask for the front end, the step and the look-ups; with a host in view, its stacks and CPUs too."""
    if case.host is None:
        return (front_end(case), hostcounters.judge(case, step(case)), kv_lookup(case))
    cpus = (hostcpu.cpu_throttled(case), hostcpu.contended(case))
    return (
        hoststacks.front(case, front_end(case)),
        hostcounters.judge(case, hoststacks.loop(case, step(case))),
        kv_lookup(case),
        *(finding for finding in cpus if finding is not None),
    )
