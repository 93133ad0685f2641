"""What holds of every answer."""

from __future__ import annotations

import math

import pytest

from kvdoctor.model import SUBCLASSES, Diagnosis, State, Verdict


def check_whole(found: Diagnosis) -> None:
    """What holds of every Diagnosis, whatever was read."""
    assert (found.primary is None) is (found.state is not State.BOUND)
    if found.primary is not None:
        assert found.subclass in (None, *SUBCLASSES[found.primary])
    assert found.summary
    assert found.next_measurement
    assert found.confidence_reasons
    for ledger in found.ledgers.values():
        assert sum(p.seconds for p in ledger.top()) == pytest.approx(ledger.seconds, rel=1e-12)
        assert all(p.seconds >= 0 for p in ledger.parts)
    for finding in found.findings:
        assert finding.subclass in (None, *SUBCLASSES[finding.bound])
        assert finding.argument
        assert math.isfinite(finding.share_seconds)
        assert finding.share_seconds >= 0
        if finding.verdict is Verdict.NO_DATA:
            assert finding.gaps
            assert all(gap.cure for gap in finding.gaps)
        else:
            assert finding.evidence
        for evidence in finding.evidence:
            assert evidence.value is None or math.isfinite(evidence.value)
        for gap in finding.gaps:
            assert gap.reason
