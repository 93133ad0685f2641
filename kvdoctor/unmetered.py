"""A family that exports no metrics: judged by its host alone, and never beyond what that shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvdoctor.case import Case, build_case
from kvdoctor.causes import CAUSES
from kvdoctor.engines.host import ENGINE
from kvdoctor.hostread import host_view
from kvdoctor.judge import Judgement, judge
from kvdoctor.machine import Machine
from kvdoctor.model import Bound, Finding, State, Verdict
from kvdoctor.recording import Source
from kvdoctor.service import Objective
from kvdoctor.timeline import Timeline

SEEN_BY_HOST = frozenset((Bound.HOST, Bound.OFFLOAD, Bound.DEVICE, Bound.CAPACITY))
"""Bounds that a host can show without a single metric of the engine."""


def unmetered(
    sources: Sequence[Source], facts: dict[str, str], objective: Objective
) -> tuple[Case, Judgement]:
    """Judge a family by its host's sources alone. A cause that the host proves is named, else nothing is."""
    longest = max(sources, key=lambda source: len(source.at))
    last = len(longest.at) - 1
    timeline = Timeline(longest, replace(ENGINE, rank_label=""), 0, last)
    view = host_view(sources, longest.at[0], longest.at[last])
    case = build_case(timeline, Machine(), objective, facts, view)
    findings = tuple(finding for cause in CAUSES for finding in cause(case))
    judgement = judge(case, findings, facts.get("slow"))
    named = max(filter(_proved, findings), key=time_share, default=None)
    if named is None:
        return case, judgement
    return case, replace(judgement, state=State.BOUND, finding=named)


def _proved(finding: Finding) -> bool:
    return finding.verdict is Verdict.LIKELY and finding.bound in SEEN_BY_HOST and time_share(finding) > 0


def time_share(finding: Finding) -> float:
    """Return the share of time that a cause of the host takes: its first line of evidence, by convention."""
    first = finding.evidence[0] if finding.evidence else None
    return first.value or 0.0 if first is not None and first.unit == "ratio" else 0.0
