"""Where the milliseconds of TTFT go: parts that sum to it, from the histograms where their cohort fits."""

from __future__ import annotations

import pytest
from ledgers import EARLY, basis, ttft
from loads import case, endpoint

from kvdoctor.model import Basis, Metric


def test_ttft_is_split_into_queue_prefill_first_step_and_front_end():
    found = ttft(ttft_mean=1.0, queue_mean=0.5, prefill_mean=0.4, itl_mean=0.008, e2e_mean=1.2)
    assert found.metric is Metric.TTFT
    assert [(p.name, pytest.approx(p.seconds), p.basis.value) for p in found.top()] == [
        ("queue", 0.5, "measured"),
        ("prefill", 0.392, "measured"),
        ("first_step", 0.008, "modelled"),
        ("frontend", 0.1, "residual"),
    ]


def test_without_a_first_token_there_is_no_ttft():
    assert case(first_tokens=0, finished=0).ttft is None


def test_a_mean_of_nothing_is_no_latency():
    found = case(ttft_mean=0.0, itl_sum=0.0)
    assert (found.ttft, found.itl) == (None, None)


def test_without_a_gap_there_is_no_itl():
    assert case(outputs=1).itl is None


@pytest.mark.parametrize(
    ("numbers", "prefill", "basis_"),
    [
        pytest.param({"prefill_mean": 0.1}, 0.1, Basis.MODELLED, id="as of those that finished"),
        pytest.param({"prefill_mean": 9.0}, 1.0, Basis.MODELLED, id="no more than the queue leaves"),
        pytest.param({"finished": 0, "before": 0.0}, 1.0, Basis.RESIDUAL, id="nothing ever finished"),
    ],
)
def test_without_a_cohort_prefill_is_taken_as_of_requests_before(numbers, prefill, basis_):
    found = ttft(**{**EARLY, **numbers})
    assert found.part("prefill") == pytest.approx(prefill - 0.008)
    assert basis(found, "prefill") is basis_


@pytest.mark.parametrize(
    ("e2e", "preemptions", "name"),
    [
        pytest.param(2.99, 0, "frontend", id="short requests"),
        pytest.param(3.0, 0, "unexplained", id="e2e a tenth of the window"),
        pytest.param(2.99, 1, "unexplained", id="preempted"),
    ],
)
def test_the_rest_is_the_front_ends_only_where_the_cohorts_are_the_same(e2e, preemptions, name):
    found = ttft(ttft_mean=1.0, queue_mean=0.2, prefill_mean=0.3, e2e_mean=e2e, preemptions=preemptions)
    assert found.part(name) == pytest.approx(0.5)


def test_a_request_waits_for_the_step_under_way_inside_the_front_end():
    (part,) = (
        p for p in ttft(ttft_mean=0.1, prefill_mean=0.02, running=4).parts if p.name == "step_under_way"
    )
    assert (part.parent, part.seconds, part.basis) == ("frontend", pytest.approx(0.02), Basis.UPPER_BOUND)


def test_a_request_that_is_alone_meets_no_step_under_way():
    assert ttft(ttft_mean=0.1, prefill_mean=0.02, running=1, waiting=0).part("step_under_way") == 0


@pytest.mark.parametrize(
    ("computed", "share"),
    [(100_000, 1 - 16 * 200 / 100_000), (16 * 200, 0.0), (100, 0.0)],
    ids=["whole prompts", "one block each", "less than a block each"],
)
def test_a_block_of_each_prompt_is_computed_whatever_hits(computed, share):
    found = ttft(ttft_mean=1.0, prefill_mean=0.508, computed=computed)
    assert found.part("prefill_avoidable") == pytest.approx(0.5 * share)


def test_loads_inside_prefill_count_only_where_no_request_is_deferred():
    told = endpoint(ttft_mean=1.0, prefill_mean=0.5)
    told.counter("vllm:kv_offload_load_time_total", 40.0)
    assert ttft(told).part("kv_load") == 0.0
    told.columns = [c for c in told.columns if "by_reason" not in c.name]
    assert ttft(told).part("kv_load") == pytest.approx(0.2)


def test_loads_are_never_longer_than_the_prefill_that_holds_them():
    told = endpoint(ttft_mean=1.0, prefill_mean=0.1)
    told.counter("vllm:kv_offload_load_time_total", 400.0)
    told.columns = [c for c in told.columns if "by_reason" not in c.name]
    assert ttft(told).part("kv_load") == pytest.approx(0.1)
