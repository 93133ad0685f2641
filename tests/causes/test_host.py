"""Host: raised by metrics, decided by other witnesses."""

from __future__ import annotations

import pytest
from loads import case, case_of, endpoint
from modelconfigs import LLAMA_8B

from kvdoctor.causes import host
from kvdoctor.machine import machine
from kvdoctor.model import Finding, Metric, Verdict

KNOWN = machine({"gpu": "H100 SXM", "model_config": LLAMA_8B}, None)


# -- front end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ttft", "front", "verdict"),
    [
        pytest.param(0.1, host.FRONT_SECONDS - 1e-3, Verdict.RULED_OUT, id="under 50 ms"),
        pytest.param(0.1, host.FRONT_SECONDS + 1e-3, Verdict.POSSIBLE, id="over 50 ms and a quarter of TTFT"),
        pytest.param(1.0, host.FRONT_SHARE - 1e-3, Verdict.RULED_OUT, id="under a quarter of TTFT"),
        pytest.param(1.0, host.FRONT_SHARE + 1e-3, Verdict.POSSIBLE, id="over a quarter of TTFT"),
    ],
)
def test_the_front_end_is_worth_a_look_from_a_quarter_of_ttft(ttft, front, verdict):
    # 20 ms of the front end are a step under way that may hold a whole prefill.
    queue = ttft - front - 0.02 - 0.02
    found = host.front_end(case(ttft_mean=ttft, prefill_mean=0.02, queue_mean=queue, running=4))
    assert found.verdict is verdict
    assert found.evidence[0].value == pytest.approx(front)


def test_a_front_end_that_is_not_seen_is_a_gap():
    found = host.front_end(case(ttft_mean=0.1, prefill_mean=0.1))
    assert (found.verdict, bool(found.gaps[0].cure)) == (Verdict.NO_DATA, True)


# -- step --------------------------------------------------------------------------------------------


def step(itl: float) -> Finding:
    return host.step(case(machine=KNOWN, itl_mean=itl))


FLOOR = KNOWN.step_seconds(1.0, 510)


@pytest.mark.parametrize(
    ("itl", "verdict"),
    [
        pytest.param(FLOOR / (1 - host.BEYOND_FLOOR) * 0.99, Verdict.RULED_OUT, id="under a quarter beyond"),
        pytest.param(FLOOR / (1 - host.BEYOND_FLOOR) * 1.01, Verdict.POSSIBLE, id="over a quarter beyond"),
    ],
)
def test_a_step_far_beyond_its_floor_raises_the_question_of_the_host(itl, verdict):
    found = step(itl)
    assert found.verdict is verdict


def test_metrics_alone_never_make_the_host_likely():
    assert step(1.0).verdict is Verdict.POSSIBLE
    assert step(1.0).gaps[0].cure


def test_without_a_model_the_step_is_not_judged():
    found = host.step(case())
    assert (found.verdict, bool(found.gaps[0].cure)) == (Verdict.NO_DATA, True)


# -- look-ups ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        pytest.param(host.LOOKUP_SHARE * 0.1 - 1e-4, Verdict.RULED_OUT, id="under a tenth of TTFT"),
        pytest.param(host.LOOKUP_SHARE * 0.1 + 1e-4, Verdict.LIKELY, id="over a tenth of TTFT"),
    ],
)
def test_look_ups_count_from_a_tenth_of_ttft(seconds, verdict):
    told = endpoint(ttft_mean=0.1)
    told.histogram("vllm:kv_offload_lookup_sync_delay_seconds", {1.0: 200.0}, 200 * seconds)
    found = host.kv_lookup(case_of(told))
    assert found.verdict is verdict
    assert found.evidence[0].value == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("seconds", "metric", "share"),
    [
        pytest.param(0.0149, Metric.TTFT, None, id="under a tenth of the time: of TTFT alone"),
        pytest.param(0.0151, None, 0.1, id="over a tenth: of all time alike"),
        pytest.param(0.5, None, 1.0, id="never more than all of it"),
    ],
)
def test_a_loop_that_waits_for_look_ups_holds_up_decode_too(seconds, metric, share):
    told = endpoint(ttft_mean=0.1)
    told.histogram("vllm:kv_offload_lookup_sync_delay_seconds", {1.0: 200.0}, 200 * seconds)
    seen = case_of(told)
    found = host.kv_lookup(seen)
    assert (found.verdict, found.metric) == (Verdict.LIKELY, metric)
    assert found.share_seconds == pytest.approx(seconds if share is None else share * seen.currency, rel=0.01)


def test_look_ups_that_nobody_waits_for_cost_ttft_alone():
    told = endpoint(ttft_mean=0.1)
    told.histogram("vllm:kv_offload_lookup_async_delay_seconds", {1.0: 200.0}, 200 * 0.05)
    assert host.kv_lookup(case_of(told)).metric is Metric.TTFT


def test_without_look_ups_there_is_no_data_and_a_cure():
    found = host.kv_lookup(case())
    assert (found.verdict, bool(found.gaps[0].cure)) == (Verdict.NO_DATA, True)
