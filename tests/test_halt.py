"""An engine, or one of its ranks, that stops in mid-window is stalled, however well it did before."""

from __future__ import annotations

import pytest
from loads import case, case_of, endpoint, load

from kvdoctor.diagnose import diagnose
from kvdoctor.halt import halted
from kvdoctor.health import overdue
from kvdoctor.model import Confidence, State

STOPPED = 15
"""The reading, and second, after which nothing moves."""


def stop(page, *, rank="0"):
    """Let the counters of a rank stand still from reading 15 of 31 on."""
    for column in page.columns:
        if dict(column.labels).get("engine") == rank and column.type != "gauge":
            kept = [i for i, reading in enumerate(column.index) if reading <= STOPPED]
            del column.index[len(kept) :], column.value[len(kept) :]
    return page


def rising(start, end, readings=31):
    """Nobody until a reading, then one more each second."""
    return [0.0 if i < start else min(end, i - start + 1.0) for i in range(readings)]


@pytest.mark.parametrize(
    ("numbers", "moving"),
    [
        pytest.param({"running": 4, "waiting": rising(STOPPED, 40)}, True, id="the queue grows"),
        pytest.param({"running": 4, "waiting": 3, "finished": 196}, False, id="gauges stand still too"),
    ],
)
def test_an_engine_that_stops_in_mid_window_is_found(numbers, moving):
    found = halted(case_of(stop(endpoint(**numbers))).timeline)
    assert found is not None
    assert (found.seconds, found.ranks, found.moving) == (15.0, (), moving)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(endpoint(running=4, waiting=rising(15, 40)), id="tokens keep coming"),
        pytest.param(stop(endpoint(running=[4.0] * 16 + [0.0] * 15, waiting=0)), id="the load ended"),
        pytest.param(stop(endpoint(running=[4.0] * 18 + [0.0] * 13, waiting=0)), id="pending for a moment only"),
        pytest.param(stop(endpoint(running=4, waiting=0, finished=240)), id="all that began ended: a stale gauge"),
        pytest.param(
            stop(endpoint(running=4, waiting=rising(15, 40), prefill_mean=9.0)), id="prefills as long as the silence"
        ),
    ],
)  # fmt: skip
def test_what_is_no_halt(page):
    assert halted(case_of(page).timeline) is None


def test_one_rank_that_stands_still_is_named_although_the_others_go_on():
    page = endpoint(ranks=({"running": 4}, {"running": 4, "waiting": rising(15, 40)}))
    found = halted(case_of(stop(page, rank="1")).timeline)
    assert found is not None
    assert (found.ranks, found.seconds) == (("1",), 15.0)


def test_a_halt_outweighs_the_health_of_the_time_before_it():
    recording = load(running=4, waiting=rising(STOPPED, 40))
    page = endpoint(running=4, waiting=rising(STOPPED, 40))
    recording.sources[0] = stop(page).source()
    found = diagnose(recording)
    assert (found.state, found.confidence) == (State.STALLED, Confidence.HIGH)
    assert found.summary == "Stalled: requests are pending and no token came in the last 15.0 s."


@pytest.mark.parametrize(
    ("numbers", "late"),
    [
        # 200 first tokens in 30 s: 40 waited two seconds before the end, and 200 / 15 came since.
        pytest.param({"waiting": [0.0] * 10 + [40.0] * 21}, 40 - 200 / 15, id="most of them cannot be through"),
        pytest.param({"waiting": [0.0] * 29 + [40.0] * 2}, 0, id="they came just now"),
        pytest.param({"waiting": 40}, 0, id="a gauge that never changes"),
        pytest.param({"waiting": [0.0] * 10 + [40.0] * 21, "preemptions": 3}, 0, id="the preempted wait again"),
    ],
)  # fmt: skip
def test_those_who_wait_longer_than_the_objective_are_counted(numbers, late):
    assert overdue(case(**numbers)) == pytest.approx(late)
