"""Whether a service is well: objectives met, hardly a wait, little avoidable prefill, no ITL tail (rule 3)."""

from __future__ import annotations

from kvdoctor.case import Case
from kvdoctor.histogram import Histogram, interpolated
from kvdoctor.ledger import KV_LOAD, QUEUE
from kvdoctor.model import Bound, Finding, Metric, Verdict

WAITS = 0.05
"""Share of a request's seconds in waits and stalls, from which a service is not healthy (rule 3)."""
AVOIDABLE = 0.10
"""Share of a request's seconds in prefill that is known to be avoidable, likewise (rule 3)..."""
AVOIDABLE_SECONDS = 0.05
"""...unless it is fewer seconds than this."""
TAIL = 3.0
"""ITL p99 over p50 from which there is a tail (rule 3), judged on the bounds of their buckets."""


def misses(case: Case) -> dict[Metric, float]:
    """Return each metric's estimated p95 over its objective; a metric without observations is left out."""
    pairs = (
        (Metric.TTFT, case.traffic.ttft, case.objective.ttft_p95),
        (Metric.ITL, case.traffic.itl, case.objective.itl_p95),
    )
    estimates = ((metric, interpolated(histogram, 0.95), goal) for metric, histogram, goal in pairs)
    return {metric: estimate / goal for metric, estimate, goal in estimates if estimate is not None}


def tail(histogram: Histogram | None) -> bool:
    """Say whether p99 certainly exceeds three times p50, whatever their places inside their buckets."""
    if histogram is None:
        return False
    middle, high = histogram.quantile(0.5), histogram.quantile(0.99)
    return middle is not None and high is not None and high.low >= TAIL * middle.high


def unhealthy(case: Case, findings: tuple[Finding, ...]) -> tuple[str, ...]:
    """List what speaks against a clean bill of health; empty when nothing does."""
    reasons = [
        f"{metric.value.upper()} p95 misses its objective" for metric, r in misses(case).items() if r > 1
    ]
    waits = case.stall + case.kv_stall
    if case.ttft is not None:
        waits += case.ttft.part(QUEUE) + case.ttft.part(KV_LOAD)
    if case.share(waits) >= WAITS:
        reasons.append(f"waits and stalls take {100 * case.share(waits):.0f}% of a request")
    likely = [f for f in findings if avoidable(f) and f.verdict is Verdict.LIKELY]
    lost = sum(max(f.share_seconds, f.recoverable_seconds or 0.0) for f in likely)
    if case.share(lost) >= AVOIDABLE and lost >= AVOIDABLE_SECONDS:
        reasons.append(f"avoidable prefill takes {100 * case.share(lost):.0f}% of a request")
    if tail(case.traffic.itl):
        reasons.append("ITL has a tail: p99 is over three times p50")
    return tuple(reasons)


def avoidable(finding: Finding) -> bool:
    """Say whether a finding is about prompts that are computed and need not be."""
    return finding.bound is Bound.HIT_RATE or finding.subclass == "prefix_eviction"
