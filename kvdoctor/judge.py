"""From findings to one answer: healthy, idle, stalled, not to be told, or the bound that costs most."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvdoctor import metrics as m
from kvdoctor.case import Case
from kvdoctor.freeze import paused
from kvdoctor.halt import Halt, gone, halted
from kvdoctor.health import TAILED, ailing, interrupted, misses, outside, tail, unhealthy
from kvdoctor.model import Bound, Finding, Metric, State, Verdict
from kvdoctor.naming import name_bound, same_bound, symptom
from kvdoctor.silence import HALT_SECONDS

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
    silent = gone(case.timeline)
    dead = silent is not None and not silent.answered
    if case.traffic.lifetime and not dead:
        whole = State.IDLE if quiet is State.IDLE and not case.traffic.finished else State.INSUFFICIENT
        return Judgement(whole, metric, None, dict.fromkeys(Metric, whole), (), _downgraded(findings))
    halt = stopped(case)
    if (halt is not None and not (halt.ago and _explains_halts(findings))) or ended(case) or dead:
        quiet = State.STALLED
    if quiet is not None:
        return Judgement(quiet, metric, None, dict.fromkeys(Metric, quiet), (), findings)
    return _served(case, findings, metric, slow)


def _served(case: Case, findings: tuple[Finding, ...], metric: Metric, slow: str | None) -> Judgement:
    """Weigh the findings of an engine that served requests all the time."""
    reasons, breaks = unhealthy(case, findings), interrupted(case)
    by_metric = _by_metric(case, findings)
    nameless: dict[Metric, Finding | State] = {each: _nameless(case, each) for each in Metric}
    if not reasons and (not misses(case) or case.untold):
        return Judgement(State.INSUFFICIENT, metric, None, by_metric, (), findings)
    if not reasons:
        state = State.INSUFFICIENT if breaks else State.HEALTHY
        return Judgement(state, metric, None, nameless, breaks, findings)
    for each in _to_blame(case, by_metric, metric, reasons, slow):
        named = by_metric[each]
        if isinstance(named, Finding):
            chosen = same_bound(case, named, findings)
            return Judgement(State.BOUND, each, chosen, by_metric, (*breaks, *reasons), findings)
    return Judgement(State.INSUFFICIENT, metric, None, by_metric, (*breaks, *reasons), findings)


def _by_metric(case: Case, findings: tuple[Finding, ...]) -> dict[Metric, Finding | State]:
    """Name the bound of each latency; a queue before steps that are bound is theirs (rule 9)."""
    named: dict[Metric, Finding | State] = {
        each: name_bound(case, each, findings) or _nameless(case, each) for each in Metric
    }
    step = named[Metric.ITL]
    first = isinstance(named[Metric.TTFT], Finding)
    if not first and isinstance(step, Finding) and symptom(case, step, findings):
        named[Metric.TTFT] = step
    return named


def _to_blame(
    case: Case,
    by_metric: dict[Metric, Finding | State],
    metric: Metric,
    reasons: tuple[str, ...],
    slow: str | None,
) -> tuple[Metric, ...]:
    """Order the latencies whose bound may be the answer: not the one of a latency that is well."""
    other = Metric.ITL if metric is Metric.TTFT else Metric.TTFT
    ratios = misses(case)
    if ratios.get(metric, 0.0) > 1 >= ratios.get(other, 0.0):
        return (metric,)
    if max(ratios.values(), default=0.0) > 1 or slow:
        return (metric, other)
    if reasons == (TAILED,):
        return (Metric.ITL,)
    return tuple(each for each in (metric, other) if not _only_paced(case, each, by_metric[each]))


def _only_paced(case: Case, metric: Metric, named: Finding | State) -> bool:
    """Say whether a bound only sets the pace of a latency that is well: something has to, and it is no complaint."""
    paces = isinstance(named, Finding) and named.bound in (Bound.BANDWIDTH, Bound.COMPUTE)
    return paces and not ailing(case, metric)


def _nameless(case: Case, metric: Metric) -> State:
    """The state of a metric for which no bound is named."""
    ratio = misses(case).get(metric)
    if ratio is None or (metric is Metric.TTFT and outside(case) >= case.objective.ttft_p95):
        return State.INSUFFICIENT
    tailed = metric is Metric.ITL and tail(case.traffic.itl)
    return State.HEALTHY if ratio <= 1 and not tailed else State.INSUFFICIENT
