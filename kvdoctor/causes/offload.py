"""Blame an outer tier when hits sit in CPU memory or on disk and their load is on the path."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.case import COST, Case
from kvdoctor.causes import hostdisk
from kvdoctor.causes.common import NO_TIER, SMALL_PIECE, per_request, recompute_seconds
from kvdoctor.ledger import KV_LOAD, KV_WAIT
from kvdoctor.model import Advice, Basis, Bound, Evidence, Finding, Metric, Verdict
from kvdoctor.units import duration, gib, rate_bytes
from kvdoctor.waiting import FULL

DRAM_LIKE = 10e9
"""Bytes/s below which a load runs slower than any PCIe 4.0 x16 link would (26 GB/s measured): a slow tier."""


def _loads(case: Case) -> tuple[float, float, float]:
    """Jobs, bytes and seconds of loads from outer tiers in the window, far tiers included."""
    near = tuple(case.timeline.delta(q) or 0.0 for q in (m.LOADS, m.LOAD_BYTES, m.LOAD_SECONDS))
    far = tuple(case.timeline.delta(q) or 0.0 for q in (m.TIER_HITS, m.TIER_READ_BYTES, m.TIER_READ_SECONDS))
    return near[0] or far[0], near[1] + far[1], near[2] + far[2]


def _on_path(case: Case, seconds: float) -> float:
    """Seconds of a request that loading holds up: inside the queue, or inside prefill."""
    if case.ttft is None:
        return 0.0
    waited = case.ttft.part(KV_WAIT) if not case.timeline.delta(m.TRANSFERS) else 0.0
    return max(waited, case.ttft.part(KV_LOAD), 0.0) if seconds or waited else 0.0


def _evidence(case: Case, cost: float) -> tuple[Evidence, ...]:
    jobs, size, seconds = _loads(case)
    of = (m.LOAD_BYTES, m.LOAD_SECONDS, m.TIER_READ_BYTES, m.TIER_READ_SECONDS)
    lookup = case.timeline.histogram(m.LOOKUP)
    return (
        case.evidence("loading on the path of a request", cost, "seconds", threshold=COST * case.currency,
                      of=(m.WAITING_DEFERRED, m.LOAD_SECONDS)),
        case.evidence("load jobs took, a request", per_request(case, seconds), "seconds", of=of),
        case.evidence("rate of a load job", size / seconds if seconds else None, "bytes/s",
                      threshold=DRAM_LIKE, of=of),
        case.evidence("bytes a load", size / jobs if jobs else None, "bytes", threshold=SMALL_PIECE, of=of),
        case.evidence("look-up in the outer tier", lookup.mean if lookup else None, "seconds", of=(m.LOOKUP,)),
        case.evidence("recomputing the same tokens would take", recompute_seconds(case), "seconds",
                      of=(m.PREFILL, m.PROMPT_COMPUTED)),
        *_tier(case),
    )  # fmt: skip


def _tier(case: Case) -> tuple[Evidence, ...]:
    """What the outer tier holds, finds and lets go; nothing where no layer tells."""
    line = case.timeline
    fill, used = line.gauge(m.TIER_FILL), line.gauge(m.TIER_USED)
    asked, found = line.delta(m.TIER_QUERIES), line.delta(m.TIER_HITS)
    rate = line.histogram(m.TIER_RATE)
    rows = (
        case.evidence("rate of a read from the far tier", rate.mean if rate else None, "bytes/s",
                      threshold=DRAM_LIKE, of=(m.TIER_RATE,)),
        case.evidence("outer tier filled, peak", fill.peak if fill else None, "ratio", threshold=FULL,
                      of=(m.TIER_FILL,)),
        case.evidence("KV in outer tiers", used.last if used else None, "bytes", of=(m.TIER_USED,)),
        case.evidence("lookups that the outer tier answered", found / asked if asked and found is not None else None,
                      "ratio", of=(m.TIER_HITS, m.TIER_QUERIES)),
        case.evidence("evicted from the outer tier", line.delta(m.TIER_EVICTIONS), "", threshold=0,
                      of=(m.TIER_EVICTIONS,)),
        case.evidence("failures of the outer tier", line.delta(m.TIER_FAILURES), "", threshold=0,
                      of=(m.TIER_FAILURES,)),
    )  # fmt: skip
    return tuple(row for row in rows if row.value is not None)


def subclass(case: Case) -> tuple[str, str]:
    """Name the way in which the tier is slow."""
    jobs, size, seconds = _loads(case)
    if not size:
        return _by_time(case, seconds / jobs if jobs else 0.0)
    if jobs and size / jobs < SMALL_PIECE:
        return "small_pieces", f"Loads move {gib(size / jobs)} at a time."
    if seconds and size / seconds < DRAM_LIKE:
        return "slow_tier", f"Loads run at {rate_bytes(size / seconds)}, slower than CPU memory over PCIe."
    return "no_overlap", "Loads run at a fair rate, and the request still waits for all of them."


def _by_time(case: Case, each: float) -> tuple[str, str]:
    """Name the way where a layer tells the seconds of its loads and not their bytes."""
    again, whole = recompute_seconds(case), per_request(case, _loads(case)[2])
    if again is not None and again < whole:
        return (
            "slow_tier",
            f"A load takes {duration(each)}, longer than computing the same tokens ({duration(again)}).",
        )
    return (
        "no_overlap",
        f"A load takes {duration(each)}, and the request waits for it; its bytes are not told.",
    )


def _advice(case: Case, cost: float) -> tuple[Advice, ...]:
    again = recompute_seconds(case)
    advice = [
        Advice(
            "load ahead of need (prefetch, layer by layer) and in larger pieces, or use a faster tier",
            f"up to {duration(cost)} of TTFT",
            Basis.UPPER_BOUND,
            cost,
        )
    ]
    if again is not None and again < cost:
        expect = f"{duration(cost)} of loading against {duration(again)} of prefill: the hit is a loss"
        advice.insert(0, Advice("recompute instead of loading", expect, Basis.MODELLED, cost - again))
    return tuple(advice)


def check(case: Case) -> tuple[Finding, ...]:
    """Look at loads from CPU memory and disk, and at whether requests wait for them."""
    if not any(case.timeline.has(q) for q in (m.LOAD_SECONDS, m.TIER_READ_SECONDS, m.LOAD_BYTES)):
        read = hostdisk.on_path(case)
        if read is not None:
            return (read,)
        tier = _tier(case)
        why = "An outer tier is seen; no load from it is counted." if tier else "No outer KV tier is seen."
        return (Finding(Bound.OFFLOAD, Verdict.NO_DATA, None, why, evidence=tier, gaps=(NO_TIER,)),)
    _, size, seconds = _loads(case)
    cost = _on_path(case, seconds)
    evidence = _evidence(case, cost) + (hostdisk.evidence(case.host) if case.host else ())
    if not size and not seconds:
        why = "An outer tier is configured; nothing was loaded from it."
        return (Finding(Bound.OFFLOAD, Verdict.RULED_OUT, None, why, evidence=evidence),)
    if not case.matters(cost):
        why = "Loads happen, and requests hardly wait for them."
        return (Finding(Bound.OFFLOAD, Verdict.RULED_OUT, None, why, evidence=evidence),)
    name, why = subclass(case)
    advice = _advice(case, cost)
    gain = max(a.gain_seconds or 0.0 for a in advice)
    return (Finding(Bound.OFFLOAD, Verdict.LIKELY, name, why, Metric.TTFT, cost, gain, evidence, (), advice),)
