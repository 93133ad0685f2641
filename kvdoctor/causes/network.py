"""Blame the network when KV that comes from another instance is on the path of the first token."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.case import COST, Case
from kvdoctor.causes.common import SMALL_PIECE, recompute_seconds
from kvdoctor.causes.network_advice import Wait, advise
from kvdoctor.ledger import KV_WAIT
from kvdoctor.model import Bound, Evidence, Finding, Gap, Metric, Verdict
from kvdoctor.units import GB, duration, gib, rate_bytes

HALF = 0.5
"""Share of the wait that the wire, or the transfers, must explain to be named (rule 14)."""

_LINK = Gap(
    "link",
    "the rate of the link between the instances is unknown",
    "give --link GB/s, or measure it between the two hosts",
)


_COLLECTIVES = Gap(
    "collectives", "tensor-parallel traffic is not among the metrics", "attach on the host (--pid)"
)


def _moved(case: Case) -> tuple[float, float, float, float]:
    """Transfers, bytes, seconds and pieces that came from other instances in the window."""
    quantities = (m.TRANSFERS, m.TRANSFER_BYTES, m.TRANSFER_SECONDS, m.TRANSFER_DESCRIPTORS)
    number, size, seconds, pieces = (case.timeline.delta(q) or 0.0 for q in quantities)
    return number, size, seconds, pieces


def _evidence(case: Case, wait: float) -> tuple[Evidence, ...]:
    number, size, seconds, pieces = _moved(case)
    of = (m.TRANSFER_BYTES, m.TRANSFER_SECONDS)
    fetch = case.timeline.gauge(m.KV_FETCH_IN_PROGRESS)
    return (
        case.evidence("wait for KV, inside the queue time", wait, "seconds", threshold=COST * case.currency,
                      of=(m.TRANSFER_SECONDS, m.WAITING_DEFERRED)),
        case.evidence("a transfer takes", seconds / number if number else None, "seconds", of=of),
        case.evidence("a transfer moves", size / number if number else None, "bytes", of=of),
        case.evidence("achieved rate of a transfer", size / seconds if seconds else None, "bytes/s", of=of),
        case.evidence("bytes a piece", size / pieces if pieces else None, "bytes", threshold=SMALL_PIECE,
                      of=(m.TRANSFER_DESCRIPTORS,)),
        case.evidence("KV loads in progress, mean", fetch.mean if fetch else None, "",
                      of=(m.KV_FETCH_IN_PROGRESS,)),
        *_transport(case, size),
    )  # fmt: skip


def _transport(case: Case, size: float) -> tuple[Evidence, ...]:
    """By which transport the bytes went; nothing where no layer tells."""
    tcp, changed = case.timeline.delta(m.TRANSFER_TCP_BYTES), case.timeline.delta(m.TRANSFER_FAILOVERS)
    share = tcp / size if tcp is not None and size else None
    rows = (
        case.evidence("share of the bytes that went over TCP", share, "ratio", threshold=0,
                      of=(m.TRANSFER_TCP_BYTES,)),
        case.evidence("transfers that changed to another transport", changed, "", threshold=0,
                      of=(m.TRANSFER_FAILOVERS,)),
    )  # fmt: skip
    return tuple(row for row in rows if row.value is not None)


def _wire_share(case: Case, wait: float) -> float | None:
    """Share of the wait that the bytes would take at the link's rate; None when the link is unknown."""
    number, size, _, _ = _moved(case)
    if "link" not in case.facts or not number or not wait:
        return None
    return size / number / (float(case.facts["link"]) * GB) / wait


def subclass(case: Case, wait: float) -> tuple[str, str]:
    """Name the way in which the link is on the path, and the sentence for it."""
    number, size, seconds, pieces = _moved(case)
    wire = _wire_share(case, wait)
    mean = seconds / number if number else 0.0
    if wire is not None and wire >= HALF:
        return "slow_link", f"The bytes alone take {100 * wire:.0f}% of the wait at the link's rate."
    if mean < HALF * wait:
        return (
            "handover",
            f"A transfer takes {duration(mean)} of the {duration(wait)} wait: the rest is hand-over.",
        )
    rate = rate_bytes(size / seconds) if seconds else "an unknown rate"
    if _in_pieces(case):
        return "used_badly", f"KV comes in pieces of {gib(size / pieces)}, at {rate}."
    if wire is not None:
        return "used_badly", f"The wire needs {100 * wire:.0f}% of the wait; the transfer runs at {rate}."
    return "used_badly", f"The transfer runs at {rate}; the link's own rate is not known."


def _unnamed_wait(case: Case) -> Finding | None:
    """Requests are deferred and tokens come from outside, but no transfer is counted: by whom, is not told."""
    wait = case.ttft.part(KV_WAIT) if case.ttft else 0.0
    counted = any(case.timeline.delta(q) for q in (m.TRANSFERS, m.LOAD_SECONDS, m.TIER_READ_SECONDS))
    if counted or case.share(wait) < COST:
        return None
    outside = case.traffic.external_hits or 0.0
    gap = Gap(
        "deferred requests",
        "why requests are deferred is not told: remote KV, LoRA, grammar or encoder",
        "look at the connector's own metrics and log (--kv-transfer-config), and at LoRA limits",
    )
    evidence = (
        case.evidence(
            "wait while deferred, inside the queue time", wait, "seconds", of=(m.WAITING_DEFERRED,)
        ),
        case.evidence("external tokens promised at admission", outside, "tokens", of=(m.EXTERNAL_HITS,)),
    )
    why = f"Requests are deferred for {duration(wait)}; no transfer is counted that would explain it."
    return Finding(Bound.NETWORK, Verdict.POSSIBLE, None, why, Metric.TTFT, wait, None, evidence, (gap,))


def _wait(case: Case, wait: float) -> Wait:
    number, size, seconds, _ = _moved(case)
    share = _wire_share(case, wait)
    wire = None if share is None else share * wait
    return Wait(wait, seconds / number, size / number, wire, recompute_seconds(case) or None)


def _in_pieces(case: Case) -> bool:
    """Whether KV comes in pieces too small for a link."""
    _, size, _, pieces = _moved(case)
    return bool(pieces) and size / pieces < SMALL_PIECE


def _over_tcp(case: Case) -> bool:
    return bool(case.timeline.delta(m.TRANSFER_TCP_BYTES))


def check(case: Case) -> tuple[Finding, ...]:
    """Look at the wait for KV that other instances send, and at what the transfers themselves took."""
    number, *_ = _moved(case)
    unnamed = _unnamed_wait(case)
    if unnamed is not None:
        return (unnamed,)
    if not case.timeline.has(m.TRANSFER_SECONDS):
        why = "No KV moves between instances, as far as this engine counts."
        gaps = () if case.host else (_COLLECTIVES,)
        return (Finding(Bound.NETWORK, Verdict.NO_DATA, None, why, gaps=gaps),)
    wait = case.ttft.part(KV_WAIT) if case.ttft else 0.0
    evidence = _evidence(case, wait)
    if not number or not case.matters(wait):
        why = "KV moves between instances, and nobody to speak of waits for it." if number else "No transfer."
        return (Finding(Bound.NETWORK, Verdict.RULED_OUT, None, why, evidence=evidence),)
    name, why = subclass(case, wait)
    advice = advise(name, _wait(case, wait), pieces=_in_pieces(case), tcp=_over_tcp(case))
    gaps = () if "link" in case.facts else (_LINK,)
    return (
        Finding(Bound.NETWORK, Verdict.LIKELY, name, why, Metric.TTFT, wait, wait, evidence, gaps, advice),
    )
