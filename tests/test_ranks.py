"""What a page leaves out of its ranks and servers, and which rank a lockstep waits for."""

from __future__ import annotations

import pytest
from loads import case

from kvdoctor.causes.device import check
from kvdoctor.machine import Machine
from kvdoctor.model import Verdict
from kvdoctor.ranks import AHEAD, ENOUGH, MISSING, gaps, notes, stated
from kvdoctor.roofline.presets import preset

MIXTURE, DENSE = preset("Mixtral-8x7B-v0.1"), preset("Llama-3.1-8B")


def reasons(**numbers: object) -> list[str]:
    """The reasons of the gaps of a load."""
    return [gap.reason for gap in gaps(case(**numbers))]


@pytest.mark.parametrize(("size", "told"), [("2", []), ("3", ["its page names 2 of 3 data-parallel ranks"])])
def test_fewer_ranks_than_the_command_line_states_is_a_gap(size, told):
    found = reasons(ranks=[{}, {}], facts={"dp": size})
    assert [reason.partition(":")[0] for reason in found] == told


@pytest.mark.parametrize(
    ("text", "number"), [("4", 4), ("", 1), ("0", 1), ("-2", 1), ("two", 1), ("9" * 7, 1), ("９", 1)]
)
def test_what_is_no_number_of_ranks_stands_for_one(text, number):
    assert stated({"dp": text}, "dp") == number
    assert stated({}, "dp") == 1


# 200 requests in 30 s of 3 s each: 20 are under way at a time.
@pytest.mark.parametrize(("running", "told"), [(20 * MISSING - 0.5, 0), (20 * MISSING + 0.5, 1)])
def test_gauges_that_hold_more_than_counters_account_for_are_a_gap(running, told):
    found = reasons(running=running, e2e_mean=3.0, facts={"api_server_count": "4"})
    assert len(found) == told
    assert all("one of its 4 API servers" in reason for reason in found)


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param({"e2e_mean": 16.0, "running": 400}, id="requests longer than half of the window"),
        pytest.param({"first_tokens": ENOUGH - 1, "running": 400}, id="too few requests"),
        pytest.param({"first_tokens": 0, "running": 0}, id="nothing served"),
    ],
)
def test_where_the_cohorts_differ_counters_are_not_held_against_gauges(numbers):
    assert not reasons(**numbers)


@pytest.mark.parametrize(
    ("shape", "running", "said"),
    [
        pytest.param(MIXTURE, (10.0, 10.0), "carry their load alike", id="alike"),
        pytest.param(
            MIXTURE, (10.0, 30.0), "rank 1, with 30.0 requests running against 10.0", id="one ahead"
        ),
        pytest.param(DENSE, (10.0, 30.0), "", id="a dense model has no lockstep"),
        pytest.param(None, (10.0, 30.0), "", id="a model that is not known"),
    ],
)
def test_in_a_lockstep_the_fullest_rank_is_named(shape, running, said):
    found = notes(case(ranks=[{"running": n} for n in running], machine=Machine(shape=shape)))
    assert bool(found) == bool(said)
    assert said in "".join(found)


def test_the_threshold_of_a_fullest_rank_is_its_share_over_the_mean():
    for over, word in ((AHEAD - 0.01, "alike"), (AHEAD + 0.01, "fullest")):
        loads = [{"running": 10.0 * n} for n in (over, 2 - over)]
        assert word in notes(case(ranks=loads, machine=Machine(shape=MIXTURE)))[0]


def test_one_rank_alone_says_nothing():
    assert not notes(case(machine=Machine(shape=MIXTURE)))


def test_a_lockstep_hides_the_slowest_rank_from_its_latency():
    even = [{"running": n, "first_tokens": 10 * n} for n in (10, 30)]
    found = case(ranks=even, machine=Machine(shape=MIXTURE))
    assert check(found)[0].verdict is Verdict.RULED_OUT
    assert "rank 1" in notes(found)[0]
