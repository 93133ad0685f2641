"""Queueing: policy, not a resource, and only where a larger batch costs next to nothing."""

from __future__ import annotations

import pytest
from loads import case, case_of, endpoint

from kvdoctor.causes import queueing
from kvdoctor.machine import Machine
from kvdoctor.model import Finding, Verdict
from kvdoctor.steps import PACES

# 0.5 s of 1 s TTFT is queue; 4 run at every reading, and the pool is nearly empty.
LIMITED = {"ttft_mean": 1.0, "queue_mean": 0.5, "e2e_mean": 1.2, "waiting": 20, "running": 4}
REQUEST = 1.0 + 19 * 0.008


def of(**numbers: object) -> Finding:
    (found,) = queueing.check(case(**{**LIMITED, **numbers}))
    return found


@pytest.mark.parametrize(
    ("queue", "verdict"),
    [
        pytest.param(0.05 * REQUEST - 1e-4, Verdict.RULED_OUT, id="under 5% of a request"),
        pytest.param(0.05 * REQUEST + 1e-4, Verdict.LIKELY, id="over 5% of a request"),
    ],
)
def test_a_wait_counts_from_a_twentieth_of_a_request(queue, verdict):
    assert of(queue_mean=queue).verdict is verdict


def test_a_batch_at_its_limit_with_room_in_the_pool_is_policy():
    found = of()
    assert (found.verdict, found.subclass) == (Verdict.LIKELY, "admission_limit")
    assert found.share_seconds == pytest.approx(0.5)
    assert "4" in found.argument


@pytest.mark.parametrize(
    ("numbers", "subclass", "verdict"),
    [
        pytest.param({"usage": 0.95}, None, Verdict.RULED_OUT, id="the pool is full"),
        pytest.param({"deferred": 20, "external_hits": 9}, None, Verdict.RULED_OUT, id="they wait for KV"),
        pytest.param({"deferred": 20}, None, Verdict.POSSIBLE, id="they are set aside, and not for KV"),
        pytest.param({"usage": None}, None, Verdict.POSSIBLE, id="usage is not told"),
        pytest.param(
            {"running": [4.0, 1.0, 1.0] * 10 + [1.0]}, "arrivals", Verdict.POSSIBLE, id="no limit in sight"
        ),
    ],
)
def test_look_alikes_that_differ_in_one_gauge(numbers, subclass, verdict):
    found = of(**numbers)
    assert (found.subclass, found.verdict) == (subclass, verdict)


@pytest.mark.parametrize(
    ("full", "subclass", "verdict"),
    [
        pytest.param(15, "admission_limit", Verdict.LIKELY, id="room at 16 of 31 readings"),
        pytest.param(16, None, Verdict.RULED_OUT, id="room at 15"),
    ],
)
def test_the_reason_for_most_of_the_waiting_is_named(full, subclass, verdict):
    found = of(usage=[0.95] * full + [0.1] * (31 - full))
    assert (found.subclass, found.verdict) == (subclass, verdict)


# -- nearly free (rule 9) ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "verdict"),
    [
        pytest.param(queueing.FEW_TOKENS - 1, Verdict.LIKELY, id="few tokens a step"),
        pytest.param(queueing.FEW_TOKENS, Verdict.POSSIBLE, id="many tokens a step"),
        pytest.param(None, Verdict.POSSIBLE, id="tokens a step are not told"),
    ],
)
def test_without_a_model_few_tokens_a_step_are_taken_to_be_nearly_free(tokens, verdict):
    assert of(step_tokens=tokens).verdict is verdict


class _Grows(Machine):
    """A machine whose step grows by a given ratio from the batch now to the larger one."""

    ratio = 1.0

    def step_seconds(self, batch: float, context: float) -> float:
        now = 3800 * 0.008 / 30
        return 0.01 if batch <= now * 1.01 else 0.01 * self.ratio


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        pytest.param(queueing.NEARLY_FREE - 0.001, Verdict.LIKELY, id="just under 1.15 x"),
        pytest.param(queueing.NEARLY_FREE, Verdict.POSSIBLE, id="1.15 x"),
    ],
)
def test_with_a_model_the_larger_step_is_computed(ratio, verdict):
    assert queueing.LARGER == 1.25
    _Grows.ratio = ratio
    assert of(machine=_Grows(), step_tokens=100).verdict is verdict


@pytest.mark.parametrize(
    ("prefill", "verdict"),
    [
        pytest.param(0.5 * 30 / 200 - 1e-3, Verdict.LIKELY, id="under half of the time"),
        pytest.param(0.5 * 30 / 200 + 1e-3, Verdict.POSSIBLE, id="over half of the time"),
    ],
)
def test_steps_full_of_prefill_are_not_free(prefill, verdict):
    assert PACES == 0.5
    gaps = {"itl_buckets": {0.01: 2000.0, 0.5: 1800.0}, "itl_sum": 2000 * 0.008 + 1800 * 0.2}
    assert of(**gaps, prefill_mean=prefill, ttft_mean=2.0, queue_mean=1.2).verdict is verdict


# -- arrivals ----------------------------------------------------------------------------------------------

BURSTY = {"running": [4.0, 1.0, 1.0] * 10 + [1.0]}


@pytest.mark.parametrize(
    ("waiting", "verdict"),
    [
        pytest.param([10.0] * 21 + [12.0] * 10, Verdict.LIKELY, id="a fifth more at the end"),
        pytest.param([10.0] * 21 + [11.9] * 10, Verdict.POSSIBLE, id="less than that"),
        pytest.param([0.0] * 15 + [30.0] * 16, Verdict.LIKELY, id="nobody at first"),
        pytest.param([12.0] * 10 + [10.0] * 21, Verdict.POSSIBLE, id="fewer at the end"),
    ],
)
def test_arrivals_outrun_the_service_when_more_wait_at_the_end(waiting, verdict):
    assert queueing.RISE == 1.2
    running = [1.0 if w else 0.0 for w in waiting]
    running[-1] = 4.0
    found = of(running=running, waiting=waiting)
    assert (found.subclass, found.verdict) == ("arrivals", verdict)


def test_arrivals_before_a_step_that_is_not_free_are_only_possible():
    waiting = [10.0] * 21 + [30.0] * 10
    assert of(**BURSTY, waiting=waiting, step_tokens=1000).verdict is Verdict.POSSIBLE


def test_few_readings_show_no_rise():
    found = of(readings=8, running=[4.0] + [1.0] * 7, waiting=[float(i) for i in range(1, 9)])
    assert (found.subclass, found.verdict) == ("arrivals", Verdict.POSSIBLE)


# -- nothing to judge --------------------------------------------------------------------------------------


def test_without_a_first_token_or_a_number_waiting_there_is_no_data():
    told = endpoint(**LIMITED)
    told.columns = [c for c in told.columns if not c.name.startswith("vllm:num_requests_waiting")]
    for found in (*queueing.check(case_of(told)), of(first_tokens=0, finished=0)):
        assert found.verdict is Verdict.NO_DATA
        assert found.gaps[0].cure


def bursts(lull):
    """Every 15 readings 40 come at once; they are through after `15 - lull` readings, of which 5 with a queue."""
    waiting = ([40.0] * 5 + [0.0] * 10) * 2 + [0.0]
    running = ([2.0, 3.0, 5.0, 8.0, 6.0] + [4.0] * (10 - lull) + [0.0] * lull) * 2 + [0.0]
    return {"waiting": waiting, "running": running}


@pytest.mark.parametrize(
    ("lull", "burst"),
    [pytest.param(3, True, id="nobody at 7 of 31 readings"), pytest.param(2, False, id="nobody at 5 of 31")],
)
def test_a_queue_that_drains_until_nobody_is_there_is_that_of_bursts(lull, burst):
    found = of(**bursts(lull))
    assert found.argument.startswith("Requests come in bursts: up to 40 wait") is burst
    if burst:
        assert (found.verdict, found.subclass) == (Verdict.LIKELY, "arrivals")


def test_look_alike_an_engine_that_was_idle_before_its_queue_came():
    found = of(waiting=[0.0] * 16 + [40.0] * 15, running=[0.0] * 16 + [8.0] * 15)
    assert "bursts" not in found.argument
