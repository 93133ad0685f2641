"""Whether a service is well: objectives met, hardly a wait, little avoidable prefill, no ITL tail (rule 3)."""

from __future__ import annotations

import math

from kvdoctor import metrics as m
from kvdoctor.case import NOTICED, Case
from kvdoctor.freeze import frozen
from kvdoctor.halt import gone
from kvdoctor.histogram import Histogram, interpolated
from kvdoctor.ledger import KV_LOAD, QUEUE
from kvdoctor.model import Bound, Finding, Metric, Verdict
from kvdoctor.units import count, duration

WAITS = 0.05
"""Share of a request's seconds in waits and stalls, from which a service is not healthy (rule 3). Where requests
end with their first token they are so short that nobody notices as much: there such waits must be noticed too."""
AVOIDABLE = 0.10
"""Share of a request's seconds in prefill that is known to be avoidable, likewise (rule 3)..."""
AVOIDABLE_SECONDS = 0.05
"""...unless it is fewer seconds than this."""
OUTSIDE = 0.5
"""Share of a request's own clock that TTFT and ITL leave out, from which something is not told: steps overlap, and
each of the two is a mean."""
LATE = 0.05
"""Share of requests still without a first token after TTFT's objective, from which its p95 is missed."""
SLOW_ANSWER = 5.0
"""Seconds for a page from which its front end hangs, however busy the processors of whoever reads it are."""
TAILED = "ITL has a tail: p99 is over three times p50"
TAIL = 3.0
"""ITL p99 over p50 from which there is a tail (rule 3), judged on the bounds of their buckets."""


def _p95(histogram: Histogram | None) -> float | None:
    """Estimate p95 in its bucket. Where that also holds the mean, the bucket is too wide to spread it evenly: then no
    more than an exponential tail makes of the mean, 3 times it."""
    estimate = interpolated(histogram, 0.95)
    held = histogram.quantile(0.95) if histogram is not None else None
    mean = histogram.mean if histogram is not None else None
    if estimate is None or held is None or not mean or not held.low < mean <= held.high:
        return estimate
    return min(estimate, max(held.low, -math.log(1 - 0.95) * mean))


def misses(case: Case) -> dict[Metric, float]:
    """Return each metric's estimated p95 over its objective; a metric without observations is left out."""
    pairs = (
        (Metric.TTFT, case.traffic.ttft, case.objective.ttft_p95),
        (Metric.ITL, case.traffic.itl, case.objective.itl_p95),
    )
    estimates = ((metric, _p95(histogram), goal) for metric, histogram, goal in pairs)
    return {metric: estimate / goal for metric, estimate, goal in estimates if estimate is not None}


def tail(histogram: Histogram | None) -> bool:
    """Say whether p99 certainly exceeds three times p50, whatever their places inside their buckets."""
    if histogram is None:
        return False
    middle, high = histogram.quantile(0.5), histogram.quantile(0.99)
    return middle is not None and high is not None and high.low >= TAIL * middle.high


def overdue(case: Case) -> float:
    """How many wait at the end for longer than TTFT may take: no histogram counts them yet.

    Of those who waited so long ago, at most as many as first tokens came since are through, in whatever order.
    0 where preempted requests may be among them, and by a gauge that never changes, which may be stale.
    """
    t, line = case.traffic, case.timeline
    if t.lifetime or t.preemptions or t.waiting is None or not t.waiting.changes:
        return 0.0
    then = line.source.at[line.last] - case.objective.ttft_p95
    waited = [value for at, value in line.series(m.WAITING) if at <= then]
    if t.at_finish:
        return max(0.0, min(waited[-1], t.waiting.last - _newcomers(case))) if waited else 0.0
    through = line.sample_series(m.TTFT, "count")
    before = [value for at, value in through if at <= then]
    return max(0.0, waited[-1] - (through[-1][1] - before[-1])) if waited and before else 0.0


def _slowest_answer(case: Case) -> float:
    """Seconds that the slowest reading of the window took: requests go through the same front end."""
    line = case.timeline
    return max(line.source.took[max(0, line.first) : line.last + 1], default=0.0)


def _newcomers(case: Case) -> float:
    """How many may have come within TTFT's objective, where first tokens are told only when requests end: twice as
    many as usually end in it."""
    return 2 * case.traffic.finished / case.traffic.seconds * case.objective.ttft_p95


def outside(case: Case) -> float:
    """Seconds of a mean request that lie in no latency, where TTFT is not exported but put together of what is.

    0 where TTFT is told, and where less than half of the time by the requests' own clock is missing.
    """
    line = case.timeline
    whole = line.histogram(m.E2E)
    if line.has(m.TTFT) or whole is None or not whole.mean or case.traffic.lifetime:
        return 0.0
    missing = whole.mean - case.currency
    return missing if missing >= OUTSIDE * whole.mean else 0.0


def _waits(case: Case, metric: Metric) -> float:
    """Seconds of a mean request in waits and stalls, by the latency that they are part of."""
    if metric is Metric.ITL:
        return case.stall + case.kv_stall
    return case.ttft.part(QUEUE) + case.ttft.part(KV_LOAD) if case.ttft is not None else 0.0


def ailing(case: Case, metric: Metric) -> bool:
    """Say whether what speaks against health may lie in a latency although its objective is met: an ITL that is
    even and without stalls is not to blame for what requests wait before their first token."""
    return metric is Metric.TTFT or tail(case.traffic.itl) or case.share(_waits(case, metric)) >= WAITS


def unhealthy(case: Case, findings: tuple[Finding, ...]) -> tuple[str, ...]:
    """List what speaks against a clean bill of health; empty when nothing does."""
    reasons = [
        f"{metric.value.upper()} p95 misses its objective" for metric, r in misses(case).items() if r > 1
    ]
    late = overdue(case)
    if late > LATE * (case.traffic.first_tokens + late):
        reasons.append(f"{count(late)} requests have waited longer than the TTFT objective, and still wait")
    waits = sum(_waits(case, metric) for metric in Metric)
    if case.share(waits) >= WAITS and (case.gaps or waits >= NOTICED):
        reasons.append(f"waits and stalls take {100 * case.share(waits):.0f}% of a request")
    elsewhere = outside(case)
    if elsewhere >= case.objective.ttft_p95:
        reasons.append(
            f"requests take {duration(elsewhere)} more by their own clock than TTFT and ITL as told"
        )
    likely = [f for f in findings if avoidable(f) and f.verdict is Verdict.LIKELY]
    lost = sum(max(f.share_seconds, f.recoverable_seconds or 0.0) for f in likely)
    if case.share(lost) >= AVOIDABLE and lost >= AVOIDABLE_SECONDS:
        reasons.append(f"avoidable prefill takes {100 * case.share(lost):.0f}% of a request")
    if tail(case.traffic.itl):
        reasons.append(TAILED)
    return tuple(reasons)


def interrupted(case: Case) -> tuple[str, ...]:
    """List times in which nobody was served: they speak against health, and are no doing of a bound."""
    reasons = []
    still = 0.0 if case.traffic.lifetime else sum(each.seconds for each in frozen(case.timeline))
    if still:
        reasons.append(f"requests were pending and no token came for {duration(still)}")
    silent = gone(case.timeline)
    if silent is not None:
        reasons.append(f"it gave no page for the last {duration(silent.seconds)}: {silent.reason}")
    answer = _slowest_answer(case)
    if answer >= max(SLOW_ANSWER, case.objective.ttft_p95):
        reasons.append(f"the address that requests go to took up to {duration(answer)} to answer")
    return tuple(reasons)


def avoidable(finding: Finding) -> bool:
    """Say whether a finding is about prompts that are computed and need not be."""
    return finding.bound is Bound.HIT_RATE or finding.subclass == "prefix_eviction"
