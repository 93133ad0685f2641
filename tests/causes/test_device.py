"""Device: from metrics only a slow rank can be seen."""

from __future__ import annotations

import pytest
from loads import case, finding

from kvdoctor.causes import device
from kvdoctor.model import Finding, Verdict


def ranks(slow: float, load: float = 1.0) -> tuple[Finding, ...]:
    """Three ranks; the last has its ITL and its tokens multiplied."""
    even = {"itl_mean": 0.01}
    return device.check(case(ranks=[even, even, {"itl_mean": 0.01 * slow, "first_tokens": 200 * load}]))


@pytest.mark.parametrize(
    ("slow", "load", "verdict"),
    [
        pytest.param(device.SLOW - 0.001, 1.0, Verdict.RULED_OUT, id="under 1.3 x the median"),
        pytest.param(device.SLOW + 0.001, 1.0, Verdict.POSSIBLE, id="over 1.3 x the median"),
        pytest.param(2.0, device.SAME_LOAD + 0.01, Verdict.RULED_OUT, id="slower, with more load"),
        pytest.param(2.0, device.SAME_LOAD, Verdict.POSSIBLE, id="slower, with hardly more load"),
    ],
)
def test_a_rank_that_is_slower_at_the_same_load_stands_out(slow, load, verdict):
    found = finding(ranks(slow, load), "slow_rank")
    assert found.verdict is verdict
    assert found.evidence[0].value == pytest.approx(slow)
    assert "rank 2" in found.evidence[0].name


def test_one_rank_has_none_to_be_compared_with():
    (found,) = device.check(case())
    assert (found.verdict, bool(found.gaps[0].cure)) == (Verdict.NO_DATA, True)
