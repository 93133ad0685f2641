"""Whether the card itself waits: idle time by its counters turns a slow step into the host's, or clears the host."""

from __future__ import annotations

from dataclasses import replace

from kvdoctor.case import Case
from kvdoctor.causes.counters import Witness, witness
from kvdoctor.causes.hoststacks import IDLE
from kvdoctor.model import Advice, Basis, Evidence, Finding, Gap, Metric, Verdict
from kvdoctor.units import percent

LINK = 0.5
"""Share of what PCIe can carry, from which a card that stands idle may wait for data and not for the host."""

_WHERE = Gap(
    "stacks",
    "the card waits for the host, and what the host does meanwhile is not seen",
    "py-spy dump --nonblocking --pid N, eight times or more",
)
_ADVICE = "see what the engine's loop does (stacks), then: graphs for decode, async scheduling, more CPU"


def judge(case: Case, known: Finding) -> Finding:
    """Weigh a finding on the step by the card's own idle time; unchanged where nobody counts.

    Idle time of the card is by itself at least as much as the step holds beyond its floor and its collectives:
    both of these are kernels. So it needs no model.
    """
    seen = witness(case)
    if seen is None or seen.idle_low is None or seen.idle_high is None or case.itl is None:
        return known
    evidence = (*known.evidence, *_evidence(seen))
    if seen.idle_low >= IDLE:
        return _idle(case, replace(known, evidence=evidence), seen, seen.idle_low)
    if seen.idle_high >= IDLE:
        return replace(known, evidence=evidence)
    busy = f"By {seen.source}'s counters kernels run {percent(1 - seen.idle_high)} of the time while requests run"
    if known.verdict is Verdict.LIKELY:
        why = f"{known.argument} But {busy[0].lower()}{busy[1:]}: the card does not wait for it."
        return replace(
            known, verdict=Verdict.POSSIBLE, argument=why, recoverable_seconds=None, evidence=evidence
        )
    return replace(
        known, verdict=Verdict.RULED_OUT, argument=f"{busy}: the card does not wait for the host.", share_seconds=0.0,
        recoverable_seconds=None, evidence=evidence, gaps=(), advice=(),
    )  # fmt: skip


def _idle(case: Case, known: Finding, seen: Witness, idle: float) -> Finding:
    """Name the host for a card that stands idle, unless its link is busy, or the host was named already."""
    if known.verdict is Verdict.LIKELY:
        return known
    told = f"By {seen.source}'s counters no kernel runs for {percent(idle)} of the time while requests run"
    if seen.link is not None and seen.link >= LINK:
        why = f"{told}, and the PCIe link is {percent(seen.link)} busy: it may wait for data."
        return replace(known, verdict=Verdict.POSSIBLE, subclass=None, metric=Metric.ITL, argument=why)
    cost = idle * case.itl.seconds * (case.gaps or 1.0) if case.itl else 0.0
    advice = Advice(_ADVICE, f"up to {percent(idle)} of a step", Basis.UPPER_BOUND, cost)
    sampled = case.host is not None and case.host.sampled
    return replace(
        known, verdict=Verdict.LIKELY, subclass=None, argument=f"{told}.", metric=Metric.ITL, share_seconds=cost,
        recoverable_seconds=cost, gaps=() if sampled else (_WHERE,), advice=(*known.advice, advice),
    )  # fmt: skip


def _evidence(seen: Witness) -> tuple[Evidence, ...]:
    rows = (
        ("time without any kernel, least idle card", seen.idle_low, IDLE),
        ("time without any kernel, most idle card", seen.idle_high, IDLE),
        ("SMs busy, counted", seen.sm, None),
        ("PCIe traffic over what the link carries", seen.link, LINK),
    )
    return tuple(seen.evidence(name, value, limit) for name, value, limit in rows if value is not None)
