"""From findings to one answer: healthy, idle, stalled, not to be told, or the bound that costs most."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvdoctor import metrics as m
from kvdoctor.case import Case
from kvdoctor.freeze import paused
from kvdoctor.halt import Halt, gone, halted
from kvdoctor.health import ailing, avoidable, misses, outside, tail, unhealthy
from kvdoctor.model import Bound, Finding, Metric, State, Verdict
from kvdoctor.silence import HALT_SECONDS
from kvdoctor.steps import PACES, prefill_share

NAMED = 0.15
"""Share of a metric that a cause must explain to be named for it: the rest would be a bigger riddle."""
ROOT = 0.5
"""Share of the prefill that a lost hit must explain to be named in its place."""
THRASH = 0.25
"""Stall after preemptions over the costliest effect of a full pool, from which preemption is named: the
preempted come back before those that wait, who then wait for them too."""
STALLED_SECONDS = HALT_SECONDS
"""Window without any token from which pending work counts as stalled."""
HALTING = (Bound.OFFLOAD, Bound.NETWORK, Bound.HOST, Bound.DEVICE)
"""Bounds that can hold up every step for seconds: loads, transfers, a lock, a CPU or a card that is taken away."""
PACING = ("engine_core", "scheduler", "worker", "loop")
"""Roles of processes that every token waits for."""

RANK = {Verdict.LIKELY: 0, Verdict.POSSIBLE: 1, Verdict.RULED_OUT: 2, Verdict.NO_DATA: 3}
"""The order of findings in a report."""
WEIGHT = {State.BOUND: 3, State.STALLED: 2, State.INSUFFICIENT: 1, State.HEALTHY: 1, State.IDLE: 0}
"""How much there is to answer for, by which of several engines one is answered for."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer, and the reasons for it that the report repeats."""

    state: State
    metric: Metric
    """The latency in question."""
    finding: Finding | None
    by_metric: dict[Metric, Finding | State]
    unhealthy: tuple[str, ...]
    findings: tuple[Finding, ...]

    def names(self) -> dict[str, str]:
        """Return the bound of each metric by name, or the state where none is named."""
        return {
            metric.value: named.bound.value if isinstance(named, Finding) else named.value
            for metric, named in self.by_metric.items()
        }

    def subclasses(self) -> dict[str, str | None]:
        """Return the subclass of each metric's bound by name; None where no bound is named, or no subclass."""
        return {
            metric.value: named.subclass if isinstance(named, Finding) else None
            for metric, named in self.by_metric.items()
        }


def metric_in_question(case: Case, slow: str | None) -> Metric:
    """The one asked for, else the one worst against its objective, else the larger in seconds of a request."""
    if slow:
        return Metric(slow)
    ratios = misses(case)
    if ratios and max(ratios.values()) > 1:
        return max(ratios, key=lambda metric: ratios[metric])
    first = case.ttft.seconds if case.ttft else 0.0
    return Metric.TTFT if first >= case.currency - first else Metric.ITL


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


def _same_bound(case: Case, named: Finding, findings: tuple[Finding, ...]) -> Finding:
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


def _quiet(case: Case) -> State | None:
    """Name the state of an engine that gave no token in the window; None when it gave some."""
    t = case.traffic
    if t.first_tokens or t.generated or (t.itl is not None and t.itl.count):
        return None
    if t.running is None or t.waiting is None:
        return State.INSUFFICIENT
    if t.running.peak == 0 and t.waiting.peak == 0:
        return State.IDLE
    steps = case.timeline.delta(m.STEPS)
    if steps or (steps is None and t.at_finish):
        return State.INSUFFICIENT
    pending = min(t.running.low + t.waiting.low, t.running.last + t.waiting.last)
    return State.STALLED if pending > 0 and t.seconds >= STALLED_SECONDS else State.INSUFFICIENT


def stopped(case: Case) -> Halt | None:
    """Return what stands still, or stood still for long, in a window in which tokens came; None where nothing does."""
    return (halted(case.timeline) or paused(case.timeline)) if _quiet(case) is None else None


def _explains_halts(findings: tuple[Finding, ...]) -> bool:
    """Say whether something is seen for which an engine stands still for a while, and goes on: it is the answer."""
    likely = [f for f in findings if f.verdict is Verdict.LIKELY]
    return any(f.bound in HALTING or (f.bound, f.subclass) == (Bound.CAPACITY, "swap") for f in likely)


def ended(case: Case) -> tuple[tuple[int, str], ...]:
    """(pid, role) of the engine's processes without which no token comes, and which died in the window."""
    return tuple(pair for pair in case.host.ended if pair[1] in PACING) if case.host else ()


def _downgraded(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """A lifetime figure never names a cause of now: likely becomes possible."""
    return tuple(replace(f, verdict=Verdict.POSSIBLE) if f.verdict is Verdict.LIKELY else f for f in findings)


def judge(case: Case, findings: tuple[Finding, ...], slow: str | None = None) -> Judgement:
    """Weigh the findings of one engine in one window."""
    metric = metric_in_question(case, slow)
    quiet = _quiet(case)
    if case.traffic.lifetime and not gone(case.timeline):
        whole = State.IDLE if quiet is State.IDLE and not case.traffic.finished else State.INSUFFICIENT
        return Judgement(whole, metric, None, dict.fromkeys(Metric, whole), (), _downgraded(findings))
    halt = stopped(case)
    if (
        (halt is not None and not (halt.ago and _explains_halts(findings)))
        or ended(case)
        or gone(case.timeline)
    ):
        quiet = State.STALLED
    if quiet is not None:
        return Judgement(quiet, metric, None, dict.fromkeys(Metric, quiet), (), findings)
    reasons = unhealthy(case, findings)
    by_metric: dict[Metric, Finding | State] = {}
    for each in Metric:
        by_metric[each] = name_bound(case, each, findings) or _nameless(case, each, reasons)
    step = by_metric[Metric.ITL]
    if (
        not isinstance(by_metric[Metric.TTFT], Finding)
        and isinstance(step, Finding)
        and symptom(case, step, findings)
    ):
        by_metric[Metric.TTFT] = step
    if not reasons and (not misses(case) or case.untold):
        return Judgement(State.INSUFFICIENT, metric, None, by_metric, (), findings)
    if not reasons:
        by_metric = {each: _nameless(case, each, reasons) for each in Metric}
        return Judgement(State.HEALTHY, metric, None, by_metric, (), findings)
    other = Metric.ITL if metric is Metric.TTFT else Metric.TTFT
    ratios = misses(case)
    blame: tuple[Metric, ...] = (metric, other)
    if ratios.get(metric, 0.0) > 1 >= ratios.get(other, 0.0):
        blame = (metric,)
    elif max(ratios.values(), default=0.0) <= 1 and not slow:
        blame = tuple(each for each in blame if not _only_paced(case, each, by_metric[each]))
    for each in blame:
        named = by_metric[each]
        if isinstance(named, Finding):
            chosen = _same_bound(case, named, findings)
            return Judgement(State.BOUND, each, chosen, by_metric, reasons, findings)
    return Judgement(State.INSUFFICIENT, metric, None, by_metric, reasons, findings)


def _only_paced(case: Case, metric: Metric, named: Finding | State) -> bool:
    """Say whether a bound only sets the pace of a latency that is well: something has to, and it is no complaint."""
    paces = isinstance(named, Finding) and named.bound in (Bound.BANDWIDTH, Bound.COMPUTE)
    return paces and not ailing(case, metric)


def _nameless(case: Case, metric: Metric, reasons: tuple[str, ...]) -> State:
    """The state of a metric for which no bound is named."""
    ratio = misses(case).get(metric)
    if ratio is None or (metric is Metric.TTFT and outside(case) >= case.objective.ttft_p95):
        return State.INSUFFICIENT
    tailed = metric is Metric.ITL and tail(case.traffic.itl)
    return State.HEALTHY if ratio <= 1 and not tailed else State.INSUFFICIENT
