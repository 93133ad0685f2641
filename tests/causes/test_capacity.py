"""Capacity: the pool is full and somebody pays for it."""

from __future__ import annotations

import pytest
from loads import case, case_of, endpoint, finding, recording

from kvdoctor.case import NOTICED, OF_TTFT
from kvdoctor.causes import capacity, common, compute, hit_rate
from kvdoctor.diagnose import diagnose
from kvdoctor.model import Finding, Metric, Verdict

TAIL = {"itl_buckets": {0.01: 3000.0, 0.5: 800.0}, "itl_sum": 3000 * 0.008 + 800 * 0.3}
REQUEST = 0.1 + 19 * TAIL["itl_sum"] / 3800
"""Seconds of a mean request of that load."""


def of(subclass: str, **numbers: object) -> Finding:
    return finding(capacity.check(case(**numbers)), subclass)


def waits(stall: float) -> float:
    """Mean waiting that makes a stall of so many seconds a request, with 19 of 20 outputs behind a gap."""
    return stall * 4000 / 19 / 30


@pytest.mark.parametrize(
    ("preemptions", "stall", "verdict"),
    [
        pytest.param(0, 0.5, Verdict.RULED_OUT, id="waiting, and nobody preempted"),
        pytest.param(1, 0.0, Verdict.POSSIBLE, id="preempted, and nobody waited"),
        pytest.param(99, 0.05 * REQUEST - 1e-4, Verdict.POSSIBLE, id="stall just under 5% of a request"),
        pytest.param(99, 0.05 * REQUEST + 1e-4, Verdict.LIKELY, id="stall just over 5% of a request"),
    ],
)
def test_preemption_is_likely_when_its_stall_is_a_share_of_a_request(preemptions, stall, verdict):
    found = of("preemption", **TAIL, preemptions=preemptions, waiting=waits(stall))
    assert found.verdict is verdict
    assert found.evidence[0].value == preemptions
    if preemptions:
        assert found.share_seconds == pytest.approx(stall, abs=1e-9)


def test_the_preempted_wait_no_longer_than_the_longest_gap():
    """Nine preemptions, and no gap beyond 0.5 s: 4.5 s in all, of 200 requests with 19 gaps each of 4,000 tokens."""
    found = of("preemption", **TAIL, preemptions=9, waiting=waits(0.5))
    assert max(TAIL["itl_buckets"]) == 0.5
    assert found.share_seconds == pytest.approx(9 * 0.5 / 4000 * 19)


def test_an_old_preemption_is_ruled_out():
    assert of("preemption", preempted_before=900).verdict is Verdict.RULED_OUT


def test_without_a_preemption_counter_there_is_no_data():
    told = endpoint()
    told.columns = [c for c in told.columns if "preemption" not in c.name]
    assert finding(capacity.check(case_of(told)), "preemption").verdict is Verdict.NO_DATA


QUEUED = {"ttft_mean": 1.0, "e2e_mean": 1.2, "waiting": 20, "running": 4}
QUEUED_REQUEST = 1.0 + 19 * 0.008


@pytest.mark.parametrize(
    ("usage", "queue", "verdict"),
    [
        pytest.param(0.899, 0.5, Verdict.RULED_OUT, id="room in the pool"),
        pytest.param(0.9, 0.5, Verdict.LIKELY, id="no room"),
        pytest.param(0.9, 0.05 * QUEUED_REQUEST - 1e-4, Verdict.RULED_OUT, id="queue under 5% of a request"),
        pytest.param(0.9, 0.05 * QUEUED_REQUEST + 1e-4, Verdict.LIKELY, id="queue over 5% of a request"),
    ],
)
def test_admission_needs_a_full_pool_and_a_queue(usage, queue, verdict):
    found = of("admission", **QUEUED, usage=usage, queue_mean=queue)
    assert found.verdict is verdict
    told = {e.name: e.value for e in found.evidence}
    assert told["KV cache usage at its fullest"] == usage
    assert told["wait for blocks, inside the queue time"] == pytest.approx(queue if usage >= 0.9 else 0.0)


@pytest.mark.parametrize(
    ("full", "verdict"),
    [(15, Verdict.RULED_OUT), (16, Verdict.LIKELY)],
    ids=["full at 15 of 31 readings", "full at 16"],
)
def test_admission_needs_half_of_the_waiting_at_a_full_pool(full, verdict):
    usage = [0.95] * full + [0.5] * (31 - full)
    assert of("admission", **QUEUED, queue_mean=0.5, usage=usage).verdict is verdict


@pytest.mark.parametrize(
    ("queue", "verdict"),
    [
        pytest.param(OF_TTFT * 0.25 - 1e-3, Verdict.RULED_OUT, id="under a quarter of TTFT"),
        pytest.param(OF_TTFT * 0.25 + 1e-3, Verdict.LIKELY, id="over a quarter of TTFT, and 50 ms"),
    ],
)
def test_a_large_wait_in_ttft_counts_though_outputs_are_long(queue, verdict):
    assert NOTICED < OF_TTFT * 0.25
    long = {"outputs": 500, "e2e_mean": 2.9, "waiting": 20, "usage": 1.0, "prefill_mean": 0.1}
    assert of("admission", **long, ttft_mean=0.25, queue_mean=queue).verdict is verdict


def test_a_full_pool_with_nobody_waiting_is_ruled_out():
    assert of("admission", usage=1.0).verdict is Verdict.RULED_OUT


@pytest.mark.parametrize("gone", ["vllm:kv_cache_usage_perc", "vllm:num_requests_waiting"])
def test_without_usage_or_waiting_admission_has_no_data(gone):
    told = endpoint(**QUEUED, queue_mean=0.5, usage=1.0)
    told.columns = [c for c in told.columns if not c.name.startswith(gone)]
    assert finding(capacity.check(case_of(told)), "admission").verdict is Verdict.NO_DATA


@pytest.mark.parametrize(
    ("swapped", "verdict"),
    [
        pytest.param(None, Verdict.RULED_OUT, id="no such gauge"),
        pytest.param(0.0, Verdict.RULED_OUT, id="none swapped"),
        pytest.param(0.05 * 0.252 * 200 / 30 - 1e-4, Verdict.POSSIBLE, id="under 5% of a request"),
        pytest.param(0.05 * 0.252 * 200 / 30 + 1e-4, Verdict.LIKELY, id="over 5% of a request"),
    ],
)
def test_swap_is_likely_when_swapped_requests_are_a_share_of_the_time(swapped, verdict):
    told = endpoint()
    if swapped is not None:
        told.series("vllm:num_requests_swapped", swapped)
    found = finding(capacity.check(case_of(told)), "swap")
    assert found.verdict is verdict
    assert found.metric is (Metric.ITL if swapped else None)


def test_one_reading_with_swapped_requests_costs_no_nan():
    told = endpoint(readings=1, seconds=0).series("vllm:num_requests_swapped", 3)
    found = finding(capacity.check(case_of(told)), "swap")
    assert (found.verdict, found.share_seconds) == (Verdict.POSSIBLE, 0.0)


PROMPTS = {
    **QUEUED, "usage": 0.95, "queue_mean": 0.8, "prompt": 5000, "hits": 0, "step_tokens": 2048,
    "step_buckets": {2048.0: 1000}, "preemptions": 0,
}  # fmt: skip
"""Steps of up to 2,048 tokens, 5,000 of 5,020 of them of prompts, before a pool that is full."""


@pytest.mark.parametrize(
    ("numbers", "admission", "prefill", "mismatch"),
    [
        # With four times the blocks a simulation of such a load kept its TTFT: 14.9 s in place of 18.0 s.
        pytest.param({}, Verdict.RULED_OUT, Verdict.LIKELY, Verdict.POSSIBLE, id="steps full of prompts"),
        pytest.param(
            {"step_buckets": None, "step_tokens": 8}, Verdict.LIKELY, Verdict.RULED_OUT, Verdict.RULED_OUT,
            id="steps of few tokens",
        ),
        pytest.param({"preemptions": 30}, Verdict.LIKELY, Verdict.RULED_OUT, Verdict.POSSIBLE, id="preempted"),
    ],
)  # fmt: skip
def test_a_pool_that_fills_up_behind_prefill_is_a_symptom(numbers, admission, prefill, mismatch):
    held = case(**{**PROMPTS, **numbers})
    assert finding(capacity.check(held), "admission").verdict is admission
    assert finding(compute.check(held), "prefill").verdict is prefill
    assert finding(hit_rate.check(held), "prefix_mismatch").verdict is mismatch


def test_a_pool_held_by_an_override_is_cured_by_lifting_it():
    told = endpoint(**QUEUED, usage=1.0, queue_mean=0.5)
    told.columns = [c for c in told.columns if c.name != "vllm:cache_config_info"]
    told.series("vllm:cache_config_info", 1.0, num_gpu_blocks="48", block_size="16",
                num_gpu_blocks_override="48", kv_cache_memory_bytes="1073741824")  # fmt: skip
    (found,) = (f for f in capacity.check(case_of(told)) if f.subclass == "admission")
    assert found.verdict is Verdict.LIKELY
    assert found.advice[0].do.startswith("lift --num-gpu-blocks-override, which holds the pool at 48 blocks")
    assert diagnose(recording(told)).targets[0].memory.pool is None


@pytest.mark.parametrize(
    ("prefill", "verdict"),
    [
        pytest.param(0.09, Verdict.POSSIBLE, id="one in prefill most of the time"),
        pytest.param(0.07, Verdict.LIKELY, id="none is"),
    ],
)
def test_a_pool_that_fills_behind_loads_that_nobody_counts_may_be_a_symptom(prefill, verdict):
    """200 requests in 30 s, nine prompt tokens in ten from a connector that never defers."""
    numbers = {
        "ttft_mean": 3.0,
        "queue_mean": 2.8,
        "e2e_mean": 2.9,
        "waiting": 18.7,
        "running": 4,
        "usage": 0.97,
    }
    outside = {"hits": 0, "external_hits": 90_000, "external": 90_000}
    seen = case(**numbers, **outside, prefill_mean=prefill)
    found = finding(capacity.check(seen), "admission")
    assert found.verdict is verdict


@pytest.mark.parametrize(
    ("preemptions", "verdict"),
    [
        pytest.param(19, Verdict.RULED_OUT, id="9.7% again"),
        pytest.param(20, Verdict.LIKELY, id="10.2% again"),
    ],
)
def test_prefill_is_the_pools_doing_only_where_much_is_computed_again(preemptions, verdict):
    """Steps full of 100,000 prompt tokens; a preempted sequence has 510 to compute again."""
    full = {
        "ttft_mean": 3.0,
        "queue_mean": 2.8,
        "prefill_mean": 0.1,
        "e2e_mean": 2.9,
        "waiting": 18.7,
        "usage": 0.97,
    }
    seen = case(
        **full, running=4, hits=0, step_buckets={512.0: 1000.0}, preemptions=preemptions, itl_mean=0.04
    )
    assert common.REDONE == 0.1
    found = finding(capacity.check(seen), "admission")
    assert found.verdict is verdict
