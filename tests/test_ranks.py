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


# 200 requests in 30 s, each 0.1 s to its first token and 40 gaps of 70 ms: 19.3 are under way at a time.
STREAMS = {"outputs": 41, "itl_mean": 0.07, "ttft_mean": 0.1}
TOLD = 200 * (0.1 + 40 * 0.07) / 30


@pytest.mark.parametrize(("running", "told"), [(TOLD * MISSING - 0.1, 0), (TOLD * MISSING + 0.1, 1)])
def test_a_gauge_that_holds_more_than_latencies_account_for_is_a_gap(running, told):
    found = reasons(running=running, **STREAMS, facts={"api_server_count": "4"})
    assert len(found) == told
    assert all("one of its 4 API servers" in reason for reason in found)


def test_without_a_word_on_servers_it_may_be_one_of_several():
    (reason,) = reasons(running=60, **STREAMS)
    assert "60.0 running requests" in reason
    assert "one API server of several" in reason


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param({"first_tokens": (ENOUGH - 1) // 40, **STREAMS}, id="too few gaps"),
        pytest.param({"first_tokens": 0, "finished": 0}, id="no token"),
        pytest.param({"readings": 1}, id="sums since the start"),
        pytest.param({"seconds": 0.0, **STREAMS}, id="readings at one moment"),
    ],
)
def test_where_little_was_seen_nothing_is_doubted(numbers):
    assert not reasons(running=400, **numbers)


def test_streams_that_never_end_are_no_reason_to_doubt():
    assert not reasons(running=19, finished=20, e2e_mean=0.5, **STREAMS)


def test_a_queue_is_no_reason_to_doubt():
    assert not reasons(running=24, waiting=300, **{**STREAMS, "ttft_mean": 30.0})


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
