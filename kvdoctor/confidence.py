"""How sure an answer is, made only of things that can be stated."""

from __future__ import annotations

from kvdoctor import around
from kvdoctor.case import COST, OF_TTFT, Case
from kvdoctor.halt import Halt, gone
from kvdoctor.judge import Judgement, ended, stopped
from kvdoctor.model import Basis, Bound, Confidence, Metric, State, Verdict
from kvdoctor.queue_wait import queue_wait
from kvdoctor.service import Quantile
from kvdoctor.units import count, duration, percent

FEW, MANY = 20, 100
"""Requests under which an answer is at most a hint (the cohort rule's number), and from which it may be high."""
SHORT_SECONDS = 10.0
"""Window under which an answer is at most a hint: one burst or one log interval can fill it."""
MEASURED_MOST = 0.8
"""Measured share of the ledger from which an answer may be high: what is left could hide no second cause."""
AGREE = 1.25
"""Ratio of two independent figures up to which they agree (rule 10 asks a quarter)."""
COMPARABLE = 0.05
"""Seconds of queue under which two figures for it are not compared: gauges tell whole requests at a moment."""
CLEAR = 2.0
"""Share of a cause over the share at which it is named, from which it is clear of the threshold."""

_ORDER = (Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH)


def _cap(level: Confidence, highest: Confidence) -> Confidence:
    return _ORDER[min(_ORDER.index(level), _ORDER.index(highest))]


def measured_share(case: Case, metric: Metric) -> float | None:
    """Share of a ledger's seconds that was measured; None without a ledger."""
    ledger = case.ttft if metric is Metric.TTFT else case.itl
    if ledger is None or not ledger.seconds:
        return None
    return sum(p.seconds for p in ledger.top() if p.basis is Basis.MEASURED) / ledger.seconds


def _queue_agreement(case: Case) -> tuple[bool, str] | None:
    """Hold the queue histogram against Little's law; None where only one of them speaks."""
    wait, little = queue_wait(case.traffic), case.traffic.little_queue
    if wait is None or little is None or wait.note != "queue histogram" or case.traffic.preemptions:
        return None
    low, high = sorted((wait.seconds, little))
    if high < COMPARABLE:
        return None
    agree = high <= AGREE * low
    verb = "agree" if agree else "disagree"
    return agree, f"queue histogram ({duration(wait.seconds)}) and Little's law ({duration(little)}) {verb}"


def _straddles(quantile: Quantile | None, goal: float) -> bool:
    return quantile is not None and quantile.low < goal < quantile.high


def _objective_unsure(case: Case) -> str | None:
    """Name the objective that lies inside the bucket of its quantile, if the verdict hangs on it."""
    pairs = (
        ("TTFT", case.traffic.ttft, case.objective.ttft_p95),
        ("ITL", case.traffic.itl, case.objective.itl_p95),
    )
    for name, histogram, goal in pairs:
        if histogram is not None and _straddles(histogram.quantile(0.95), goal):
            return f"the {name} objective lies inside the bucket that holds p95"
    return None


def confidence(case: Case, judgement: Judgement, restarts: int) -> tuple[Confidence, tuple[str, ...]]:
    """Return the level and every reason for it, best known facts first."""
    if case.traffic.lifetime and judgement.state is not State.STALLED:
        return Confidence.LOW, ("one reading: sums since the engine started, which may be days ago",)
    if judgement.state in (State.IDLE, State.STALLED):
        return _quiet(case, judgement)
    level, reasons = Confidence.HIGH, []
    for cap, reason in _limits(case, judgement, restarts):
        level = _cap(level, cap)
        reasons.append(reason)
    return level, tuple(reasons)


def _quiet(case: Case, judgement: Judgement) -> tuple[Confidence, tuple[str, ...]]:
    """A gauge is believed only if a counter moved: a stall that nothing but standing gauges shows is a hint."""
    if judgement.state is State.STALLED and ended(case):
        return Confidence.HIGH, ("a process of the engine is gone",)
    if judgement.state is State.STALLED and (found := gone(case.timeline)) and not found.answered:
        level = Confidence.HIGH if "refused" in found.reason.lower() else Confidence.MEDIUM
        return level, (f"no answer for {duration(found.seconds)}, up to the end",)
    halt = stopped(case) if judgement.state is State.STALLED else None
    if halt is not None:
        return _halted(halt)
    reason = f"no token in {duration(case.traffic.seconds)}"
    moved = any(g is not None and g.changes for g in (case.traffic.running, case.traffic.waiting))
    if judgement.state is State.STALLED and not moved and not case.timeline.counters_moved():
        return Confidence.LOW, (reason, "gauges and counters all stand still, so the gauges may be stale")
    return (Confidence.HIGH if case.traffic.seconds >= SHORT_SECONDS else Confidence.MEDIUM), (reason,)


def _halted(halt: Halt) -> tuple[Confidence, tuple[str, ...]]:
    """Gauges that stand still as well agree with what began and did not end, and may yet be stale."""
    if halt.times > 1:
        total = duration(halt.seconds)
        return Confidence.MEDIUM, (f"no token {halt.times} times, {total} in all, and some between",)
    if halt.ago:
        return Confidence.HIGH, (f"no token for {duration(halt.seconds)}, and then some again",)
    reason = f"no token in the last {duration(halt.seconds)}"
    if halt.moving:
        return Confidence.HIGH, (reason, "the gauges of pending requests still move")
    return Confidence.MEDIUM, (reason, "the gauges stand still as well, so they may be stale")


def _limits(case: Case, judgement: Judgement, restarts: int) -> list[tuple[Confidence, str]]:
    """Each stated fact with the highest confidence that it allows."""
    n, limits = case.traffic.first_tokens, []
    cap = Confidence.LOW if n < FEW else Confidence.MEDIUM if n < MANY else Confidence.HIGH
    limits.append((cap, f"{count(n)} requests in the window"))
    if case.traffic.seconds < SHORT_SECONDS:
        limits.append((Confidence.LOW, f"only {duration(case.traffic.seconds)} observed"))
    share = measured_share(case, judgement.metric)
    if share is not None:
        cap = Confidence.HIGH if share >= MEASURED_MOST else Confidence.MEDIUM
        limits.append((cap, f"{percent(share)} of the {judgement.metric.value.upper()} ledger is measured"))
    agreement = _queue_agreement(case)
    if agreement is not None:
        limits.append((Confidence.HIGH if agreement[0] else Confidence.MEDIUM, agreement[1]))
    if restarts:
        limits.append((Confidence.MEDIUM, "the engine restarted: only the newest stretch is judged"))
    limits += around.limits(case)
    unsure = _objective_unsure(case)
    if unsure and judgement.state is not State.BOUND:
        limits.append((Confidence.MEDIUM, unsure))
    limits += _verdict_limits(case, judgement)
    return limits


def _verdict_limits(case: Case, judgement: Judgement) -> list[tuple[Confidence, str]]:
    """What the answer itself leaves open."""
    limits = []
    if judgement.state is State.HEALTHY and case.machine.bandwidth is None:
        limits.append((Confidence.MEDIUM, "bandwidth not judged: model or card unknown"))
    finding = judgement.finding
    if judgement.state is State.INSUFFICIENT:
        limits.append((Confidence.LOW, "no cause explains enough of the latency in question"))
    if finding is None:
        return limits
    part = case.share(finding.share_seconds)
    first = case.of_ttft(finding.share_seconds) if finding.metric is Metric.TTFT else 0.0
    clear = part >= CLEAR * COST or first >= CLEAR * OF_TTFT
    limits.append(
        (Confidence.HIGH if clear else Confidence.LOW, f"the cause explains {percent(part)} of a request")
    )
    if finding.gaps:
        hint = finding.subclass == "prefix_eviction" or finding.gaps[0].source == "load"
        cap = Confidence.LOW if hint else Confidence.MEDIUM
        limits.append((cap, finding.gaps[0].reason))
    if finding.bound is Bound.COMPUTE and case.multimodal:
        reason = f"the encoder of {count(case.multimodal)} multimodal inputs counts as prefill"
        limits.append((Confidence.LOW, reason))
    rival = _rival(judgement)
    if rival:
        limits.append((Confidence.MEDIUM, rival))
    if finding.bound is Bound.QUEUEING and case.machine.shape is None:
        limits.append((Confidence.MEDIUM, "what a larger batch costs is assumed: no model given"))
    return limits


def _rival(judgement: Judgement) -> str | None:
    """Name a possible loss of hits that would explain the same prefill."""
    if judgement.finding is None or judgement.finding.bound is not Bound.COMPUTE:
        return None
    for finding in judgement.findings:
        if finding.bound is Bound.HIT_RATE and finding.verdict is Verdict.POSSIBLE and finding.share_seconds:
            return "hit_rate could be behind it: counters cannot tell new prompts from mismatched ones"
        if (
            finding.subclass == "prefix_eviction"
            and finding.verdict is Verdict.POSSIBLE
            and finding.share_seconds
        ):
            return (
                "prefix_eviction could be behind it: whether evicted blocks were wanted again is not counted"
            )
    return None
