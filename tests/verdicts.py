"""Judgements of made-up loads, by their own findings or by given ones."""

from __future__ import annotations

from loads import case

from kvdoctor.causes import CAUSES
from kvdoctor.judge import Judgement, judge
from kvdoctor.model import Bound, Finding, Metric, Verdict


def likely(bound: Bound, subclass: str, metric: Metric, seconds: float) -> Finding:
    """Return a likely finding that explains and would give back so many seconds of a request."""
    return Finding(bound, Verdict.LIKELY, subclass, "because.", metric, seconds, seconds)


def judged(
    findings: tuple[Finding, ...] | None = None, slow: str | None = None, **numbers: object
) -> Judgement:
    """Judge a load, by its own findings unless others are given."""
    found = case(**numbers)
    own = tuple(f for cause in CAUSES for f in cause(found))
    return judge(found, own if findings is None else findings, slow)
