"""From findings to one answer: states first, then the likely cause that costs most."""

from __future__ import annotations

import pytest
from loads import case
from verdicts import judged

from kvdoctor import judge as j
from kvdoctor.model import Metric, State, Verdict

LIKELY, POSSIBLE, RULED_OUT = Verdict.LIKELY, Verdict.POSSIBLE, Verdict.RULED_OUT


def state(**numbers: object) -> State:
    return judged(**numbers).state


# -- no token ----------------------------------------------------------------------------------------------

QUIET = {"first_tokens": 0, "finished": 0}


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        pytest.param({"running": 0, "waiting": 0}, State.IDLE, id="nothing there"),
        pytest.param({"running": 0, "waiting": 0, "preempted_before": 9}, State.IDLE, id="old preemptions"),
        pytest.param({"running": 2, "waiting": 0}, State.STALLED, id="running"),
        pytest.param({"running": 0, "waiting": 5}, State.STALLED, id="waiting"),
        pytest.param({"running": 2, "seconds": 9.9}, State.INSUFFICIENT, id="too short to be stalled"),
        pytest.param({"running": 2, "seconds": 10.0}, State.STALLED, id="just long enough"),
        pytest.param({"running": [2.0] * 30 + [0.0]}, State.INSUFFICIENT, id="gone at the end"),
        pytest.param({"running": [0.0] + [2.0] * 30}, State.INSUFFICIENT, id="came in the window"),
    ],
)
def test_an_engine_without_a_token_is_idle_stalled_or_not_to_be_told(numbers, expected):
    found = judged(**{**QUIET, **numbers})
    assert found.state is expected
    assert found.finding is None
    assert set(found.by_metric.values()) == {expected}


def test_a_stall_takes_ten_seconds():
    assert j.STALLED_SECONDS == 10


# -- one reading -------------------------------------------------------------------------------------------

ONE = {"readings": 1, "seconds": 0}


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param({"queue_mean": 9.0, "ttft_mean": 10.0, "waiting": 50}, id="queue"),
        pytest.param({"preemptions": 500, "usage": 1.0, "waiting": 20}, id="preemptions"),
        pytest.param({"caching": "False", "prefill_mean": 5.0, "ttft_mean": 6.0}, id="caching off"),
        pytest.param({}, id="healthy"),
    ],
)
def test_one_reading_never_names_a_bound(numbers):
    found = judged(**ONE, **numbers)
    assert (found.state, found.finding) == (State.INSUFFICIENT, None)
    assert LIKELY not in {f.verdict for f in found.findings}


@pytest.mark.parametrize(
    ("before", "expected"), [(0, State.IDLE), (100, State.INSUFFICIENT)], ids=["fresh", "has served"]
)
def test_one_reading_is_idle_only_of_an_engine_that_never_served(before, expected):
    assert state(**ONE, **QUIET, finished_before=before, generated_before=0, running=0) is expected


# -- healthy (rule 3) --------------------------------------------------------------------------------------


def test_a_service_that_meets_its_objectives_without_waits_is_healthy():
    found = judged()
    assert (found.state, found.unhealthy, found.finding) == (State.HEALTHY, (), None)
    assert found.by_metric == dict.fromkeys(Metric, State.HEALTHY)


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param({"usage": 1.0}, id="a full pool and nobody waiting"),
        pytest.param({"preempted_before": 70}, id="an old preemption"),
        pytest.param({"usage": 1.0, "preempted_before": 70}, id="both"),
        pytest.param({"hits": 0}, id="no hit, and prefill that is short"),
        pytest.param({"queries": 0, "hits": 0}, id="nothing looked up"),
    ],
)
def test_what_looks_bad_and_costs_nobody_is_healthy(numbers):
    assert state(**numbers) is State.HEALTHY


# -- objectives and the metric in question (rule 1) --------------------------------------------------------


SLOW_TTFT = {"ttft_mean": 3.0, "ttft_buckets": {2.5: 100.0, 5.0: 100.0}}
SLOW_ITL = {"itl_mean": 0.06}


@pytest.mark.parametrize(
    ("numbers", "facts", "slow", "metric"),
    [
        pytest.param({}, {}, None, Metric.ITL, id="all met: the larger in seconds of a request"),
        pytest.param({"ttft_mean": 0.2}, {}, None, Metric.TTFT, id="all met: TTFT the larger"),
        pytest.param(SLOW_TTFT, {}, None, Metric.TTFT, id="TTFT misses"),
        pytest.param(SLOW_ITL, {}, None, Metric.ITL, id="ITL misses"),
        pytest.param({**SLOW_TTFT, **SLOW_ITL}, {}, None, Metric.TTFT, id="both miss: the worse by ratio"),
        pytest.param({**SLOW_TTFT, **SLOW_ITL}, {"slo_ttft": "20"}, None, Metric.ITL, id="stated objective"),
        pytest.param(SLOW_TTFT, {}, "itl", Metric.ITL, id="asked for"),
    ],
)
def test_the_metric_in_question(numbers, facts, slow, metric):
    assert j.metric_in_question(case(facts=facts, **numbers), slow) is metric
