"""Which of the likely findings is named for a latency: the costliest, its root, or what it is a symptom of."""

from __future__ import annotations

from kvdoctor.case import Case
from kvdoctor.health import avoidable
from kvdoctor.model import Bound, Finding, Metric, Verdict
from kvdoctor.steps import PACES, prefill_share

NAMED = 0.15
"""Share of a metric that a cause must explain to be named for it: the rest would be a bigger riddle."""
ROOT = 0.5
"""Share of the prefill that a lost hit must explain to be named in its place."""
THRASH = 0.25
"""Stall after preemptions over the costliest effect of a full pool, from which preemption is named: the
preempted come back before those that wait, who then wait for them too."""


def _whole(case: Case, metric: Metric) -> float:
    """Seconds of a request that a metric stands for."""
    if metric is Metric.TTFT:
        return case.ttft.seconds if case.ttft else 0.0
    return case.itl.seconds * (case.gaps or 1.0) if case.itl else 0.0


def _root(named: Finding, findings: tuple[Finding, ...]) -> Finding:
    """Put a lost hit in place of the prefill that it causes, in TTFT and beside decode."""
    if named.bound is not Bound.COMPUTE or named.subclass == "speculation":
        return named
    likely = [f for f in findings if f.verdict is Verdict.LIKELY]
    lost = [f for f in likely if avoidable(f)]
    best = max(lost, key=lambda f: f.share_seconds, default=None)
    if best is not None and best.share_seconds >= ROOT * named.share_seconds:
        return best
    return named


def name_bound(case: Case, metric: Metric, findings: tuple[Finding, ...]) -> Finding | None:
    """Return the likely finding that costs this metric most, None when none explains enough of it."""
    likely = [f for f in findings if f.verdict is Verdict.LIKELY and f.metric in (metric, None)]
    best = max(likely, key=lambda f: _cost(case, metric, f), default=None)
    cost = _cost(case, metric, best) if best is not None else 0.0
    if best is None or not cost or cost < NAMED * _whole(case, metric):
        return None
    slowed = _slowed_by(case, metric, best, likely) or _fed_unevenly(best, likely)
    return slowed or _root(best, findings)


def _cost(case: Case, metric: Metric, finding: Finding) -> float:
    """Seconds of a metric that a finding explains: one that costs all time alike has its share in each."""
    if finding.metric is not None or not case.currency:
        return finding.share_seconds
    return finding.share_seconds / case.currency * _whole(case, metric)


def _slowed_by(case: Case, metric: Metric, named: Finding, likely: list[Finding]) -> Finding | None:
    """Put a CPU that is taken away in place of the queue or the prefill that it makes long."""
    if named.bound not in (Bound.QUEUEING, Bound.COMPUTE):
        return None
    taken = [f for f in likely if f.bound is Bound.HOST and f.metric is None]
    best = max(taken, key=lambda f: f.share_seconds, default=None)
    if best is not None and _cost(case, metric, best) >= ROOT * _cost(case, metric, named):
        return best
    return None


def _fed_unevenly(named: Finding, likely: list[Finding]) -> Finding | None:
    """Put the router in place of a queue, or of a full pool, that one rank has while the others have room."""
    if named.bound not in (Bound.QUEUEING, Bound.CAPACITY) or named.metric is not Metric.TTFT:
        return None
    router = next((f for f in likely if f.bound is Bound.EXTERNAL and f.subclass == "router"), None)
    return router if router is not None and router.share_seconds >= ROOT * named.share_seconds else None


def same_bound(case: Case, named: Finding, findings: tuple[Finding, ...]) -> Finding:
    """Choose the subclass of the overall answer: the costliest of that bound, whichever latency it costs."""
    likely = [f for f in findings if f.verdict is Verdict.LIKELY and f.bound is named.bound]
    prefill = next((f for f in likely if f.subclass == "prefill"), None)
    if named.subclass == "interference" and prefill is not None:
        return _root(prefill, findings) if (prefill_share(case.traffic) or 0.0) >= PACES else named
    if named.bound is Bound.OFFLOAD:
        return max(likely, key=lambda f: f.share_seconds)
    if named.bound is Bound.CAPACITY:
        costliest = max(likely, key=lambda f: f.share_seconds)
        thrash = next((f for f in likely if f.subclass == "preemption"), costliest)
        return thrash if thrash.share_seconds >= THRASH * costliest.share_seconds else costliest
    return named


def symptom(case: Case, step: Finding, findings: tuple[Finding, ...]) -> Finding | None:
    """Return the queue that a step bound by compute or bandwidth builds up before it (rule 9), None without one."""
    if step.bound not in (Bound.COMPUTE, Bound.BANDWIDTH):
        return None
    limit = NAMED * _whole(case, Metric.TTFT)
    return next(
        (
            f
            for f in findings
            if f.bound is Bound.QUEUEING and f.verdict is Verdict.POSSIBLE and f.share_seconds >= limit > 0
        ),
        None,
    )
