"""What a cause says on the word of a log: a finding, and how direct the evidence for it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from kvdoctor.model import Advice, Basis, Bound, Evidence, Finding, Gap, Metric, Verdict

COST = 0.05
"""Share of a request's time in waits from which they are a cost (healthy rule of the ledger)."""
MAIN = 0.5
"""Share of the waiting that must have one reason before the reason is named."""
OF_TTFT = 0.25
"""Share of the TTFT objective from which one load or transfer is on the path of the first token."""
RIDGE_TOKENS = 256.0
"""Tokens a step from which its time goes with its tokens: near the ridge of an H100 (roofline guide, section 5)."""
FEW_TOKENS = 64.0
"""Tokens a step below which a larger batch is nearly free: under half of the smallest ridge, 150 tokens (A100)."""

SHARE_UNKNOWN = Gap(
    "ledger",
    "a log has no latencies: the share of a request that this costs is unknown",
    "read the engine's /metrics over the same time: kvdoctor diagnose --url URL",
)


class Grade(IntEnum):
    """How direct the evidence is; the most direct is named first."""

    NONE = 0
    INFERRED = 1
    """From a trend, or from what else could not be."""
    MEASURED = 2
    """From rates and gauges held against a threshold."""
    PROVEN = 3
    """From an event that says it itself, or from an experiment that changed one thing."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """One cause's finding with its grade."""

    finding: Finding
    grade: Grade = Grade.NONE


def likely(
    bound: Bound, subclass: str | None, why: str, grade: Grade, evidence: tuple[Evidence, ...],
    *, do: str, metric: Metric | None = None,
) -> Opinion:  # fmt: skip
    """Build an opinion that names its cause; what it would buy is unknown without latencies."""
    advice = (Advice(do, "how much cannot be said from a log", Basis.UPPER_BOUND),)
    finding = Finding(
        bound, Verdict.LIKELY, subclass, why, metric, 0.0, None, evidence, (SHARE_UNKNOWN,), advice
    )
    return Opinion(finding, grade)


def possible(
    bound: Bound, subclass: str | None, why: str, evidence: tuple[Evidence, ...], gap: Gap | None = None
) -> Opinion:
    """Build an opinion that a cause may be at work."""
    gaps = (gap,) if gap else ()
    return Opinion(Finding(bound, Verdict.POSSIBLE, subclass, why, None, 0.0, None, evidence, gaps))


def ruled_out(bound: Bound, why: str, evidence: tuple[Evidence, ...], subclass: str | None = None) -> Opinion:
    """Build an opinion that a cause is not at work."""
    return Opinion(Finding(bound, Verdict.RULED_OUT, subclass, why, evidence=evidence))


def no_data(bound: Bound, why: str, cure: str) -> Opinion:
    """Build an opinion that nothing is known of a cause."""
    return Opinion(Finding(bound, Verdict.NO_DATA, None, why, gaps=(Gap(bound.value, why, cure),)))
