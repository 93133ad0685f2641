"""External: ranks that are fed unevenly; the client is never seen."""

from __future__ import annotations

import pytest
from loads import case, finding

from kvdoctor.causes import external
from kvdoctor.model import Finding, Verdict

QUEUED = {"ttft_mean": 1.0, "queue_mean": 0.5, "e2e_mean": 1.2}


def fed(*waiting: float, queue: float = 0.5) -> tuple[Finding, ...]:
    return external.check(case(**{**QUEUED, "queue_mean": queue}, ranks=[{"waiting": w} for w in waiting]))


@pytest.mark.parametrize(
    ("waiting", "queue", "verdict"),
    [
        pytest.param((9.0, 3.1), 0.5, Verdict.RULED_OUT, id="under three times the others"),
        pytest.param((9.0, 3.0), 0.5, Verdict.LIKELY, id="three times the others"),
        pytest.param((9.0, 0.0), 0.05, Verdict.RULED_OUT, id="the queue is small change"),
        pytest.param((9.0, 0.0), 0.06, Verdict.LIKELY, id="the queue is a share of a request"),
        pytest.param((0.99, 0.0), 0.5, Verdict.RULED_OUT, id="hardly anyone waits"),
        pytest.param((1.0, 0.0), 0.5, Verdict.LIKELY, id="one waits, on one rank"),
    ],
)
def test_ranks_that_are_fed_unevenly_are_the_routers(waiting, queue, verdict):
    assert external.UNEVEN == 3.0
    found = finding(fed(*waiting, queue=queue), "router")
    assert found.verdict is verdict
    assert [e.value for e in found.evidence] == pytest.approx(list(waiting))


def test_the_client_is_never_seen():
    for found in (external.check(case()), fed(9.0, 0.0)):
        assert (found[-1].verdict, bool(found[-1].gaps[0].cure)) == (Verdict.NO_DATA, True)
