"""The card's own idle time: it names the host, clears it, or takes back what stacks said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hosts import CARD as HEALTHY
from hosts import view
from loads import case

from kvdoctor.causes import host, hostcounters
from kvdoctor.hostview import Activity
from kvdoctor.model import Bound, Finding, Verdict

STEADY = case(running=4)
KNOWN = {
    verdict: Finding(Bound.HOST, verdict, "scheduler", "Said.", share_seconds=0.01) for verdict in Verdict
}


def seen(*engines: float, seconds: float = 30.0, **changes: object):
    """The load with one card for each share of time with kernels."""
    told = [replace(HEALTHY, activity=Activity("GPM", seconds, engine=e), **changes) for e in engines]
    return replace(STEADY, host=view(cards=tuple(told)))


def test_idle_cards_name_the_host_whatever_was_known_and_need_no_model():
    for verdict in (Verdict.NO_DATA, Verdict.POSSIBLE, Verdict.RULED_OUT):
        assert hostcounters.judge(seen(0.5), KNOWN[verdict]).verdict is Verdict.LIKELY


def test_the_cost_is_the_idle_share_of_the_steps():
    found = hostcounters.judge(seen(0.6), KNOWN[Verdict.NO_DATA])
    assert found.share_seconds == pytest.approx(0.4 * STEADY.itl.seconds * STEADY.gaps)
    assert [gap.source for gap in found.gaps] == ["stacks"]


def test_stacks_in_the_scheduler_while_kernels_run_all_the_time_are_taken_back():
    found = hostcounters.judge(seen(0.99), KNOWN[Verdict.LIKELY])
    assert found.verdict is Verdict.POSSIBLE
    assert "the card does not wait for it" in found.argument


def test_stacks_that_agree_with_an_idle_card_stay():
    assert hostcounters.judge(seen(0.5), KNOWN[Verdict.LIKELY]).subclass == "scheduler"


@pytest.mark.parametrize("verdict", [Verdict.NO_DATA, Verdict.POSSIBLE, Verdict.LIKELY])
def test_cards_that_differ_decide_nothing(verdict):
    """One rank's kernels may wait for another's: neither all idle nor all busy."""
    assert hostcounters.judge(seen(0.5, 0.99), KNOWN[verdict]).verdict is verdict


def test_counters_of_a_part_of_the_window_decide_nothing():
    assert hostcounters.judge(seen(0.5, seconds=14.0), KNOWN[Verdict.NO_DATA]).verdict is Verdict.NO_DATA


def test_without_counters_nothing_changes():
    plain = replace(STEADY, host=view(cards=(HEALTHY,)))
    assert hostcounters.judge(plain, KNOWN[Verdict.POSSIBLE]) is KNOWN[Verdict.POSSIBLE]
    assert host.check(STEADY)[1] == host.step(STEADY)
