"""Offload: hits lie in CPU memory or on disk, and requests wait for their load."""

from __future__ import annotations

import pytest
from loads import Page, case_of, endpoint

from kvdoctor.causes import offload
from kvdoctor.model import Finding, Metric, Verdict

# 1 s of TTFT, of which 0.5 s is a wait for loads: 100 MB in one job a request.
WAITING = {"ttft_mean": 1.0, "queue_mean": 0.5, "prefill_mean": 0.108, "e2e_mean": 1.2, "hits": 50_000}
REQUEST = 1.0 + 19 * 0.008
SIZE = 100e6


def tier(
    *, wait: float = 0.5, load: float = 0.5, size: float = SIZE, jobs: float = 200, **more: object
) -> Page:
    """A service whose requests wait for loads from CPU memory."""
    told = endpoint(**{**WAITING, "waiting": wait * 200 / 30, "deferred": wait * 200 / 30, **more})
    told.counter("vllm:kv_offload_load_bytes_total", size * 200)
    told.counter("vllm:kv_offload_load_time_total", load * 200)
    return told.histogram("vllm:kv_offload_load_size", {1e9: jobs}, size * 200)


def of(told: Page) -> Finding:
    (found,) = offload.check(case_of(told))
    return found


@pytest.mark.parametrize(
    ("wait", "verdict"),
    [
        pytest.param(0.05 * REQUEST - 1e-3, Verdict.RULED_OUT, id="under 5% of a request"),
        pytest.param(0.05 * REQUEST + 1e-3, Verdict.LIKELY, id="over 5% of a request"),
    ],
)
def test_a_load_counts_from_a_twentieth_of_a_request(wait, verdict):
    found = of(tier(wait=wait))
    assert found.verdict is verdict
    assert found.evidence[0].value == pytest.approx(wait)
    assert found.metric is (Metric.TTFT if verdict is Verdict.LIKELY else None)


@pytest.mark.parametrize(
    ("load", "jobs", "subclass"),
    [
        pytest.param(SIZE / offload.DRAM_LIKE * 1.01, 200, "slow_tier", id="just under 10 GB/s"),
        pytest.param(SIZE / offload.DRAM_LIKE * 0.99, 200, "no_overlap", id="just over 10 GB/s"),
        pytest.param(0.5, 200 * SIZE / offload.SMALL_PIECE * 1.01, "small_pieces", id="pieces under 256 KiB"),
        pytest.param(0.5, 200 * SIZE / offload.SMALL_PIECE * 0.99, "slow_tier", id="pieces over 256 KiB"),
    ],
)
def test_the_way_in_which_a_tier_is_slow(load, jobs, subclass):
    found = of(tier(load=load, jobs=jobs))
    assert (found.verdict, found.subclass) == (Verdict.LIKELY, subclass)


@pytest.mark.parametrize(
    ("external", "loss"),
    [
        # A computed token costs 0.1 s x 200 / 50,000 = 0.4 ms; 250 tokens a request cost as much as they load.
        pytest.param(1_249 * 200, True, id="recomputing is just cheaper"),
        pytest.param(1_251 * 200, False, id="loading is just cheaper"),
    ],
)
def test_a_hit_that_loads_slower_than_it_computes_is_a_loss(external, loss):
    told = tier()
    told.counter("vllm:prompt_tokens_cached_by_source_total", external, source="host")
    found = of(told)
    assert ("the hit is a loss" in found.advice[0].expect) is loss


def test_loads_that_nobody_waits_for_are_ruled_out_with_their_numbers():
    found = of(tier(wait=0.0))
    assert found.verdict is Verdict.RULED_OUT
    assert found.evidence[2].value == pytest.approx(SIZE / 0.5)


def test_a_tier_from_which_nothing_came_is_ruled_out():
    assert of(tier(size=0, load=0, jobs=0)).verdict is Verdict.RULED_OUT


def test_look_alike_the_same_wait_for_another_instance_is_not_the_tiers():
    told = tier().histogram("vllm:nixl_xfer_time_seconds", {5.0: 200}, 100.0)
    assert of(told).verdict is Verdict.RULED_OUT


def test_a_connector_that_loads_inside_prefill_holds_it_up():
    told = tier(wait=0.0, prefill_mean=0.6, queue_mean=0.0)
    told.columns = [c for c in told.columns if "by_reason" not in c.name]
    found = of(told)
    assert found.verdict is Verdict.LIKELY
    assert found.share_seconds == pytest.approx(0.5)


def test_a_far_tier_counts_with_the_near_one():
    told = tier(load=0.01)
    told.counter("vllm:kv_offload_tiering_read_bytes_total", SIZE * 200, tier="disk")
    told.counter("vllm:kv_offload_tiering_read_time_total", 0.5 * 200, tier="disk")
    found = of(told)
    assert found.subclass == "slow_tier"
    assert found.evidence[2].value == pytest.approx(2 * SIZE / 0.51)


def test_names_before_0_24_tell_the_same():
    told = endpoint(**WAITING, waiting=10, deferred=0.5 * 200 / 30)
    told.counter("vllm:kv_offload_total_bytes_total", SIZE * 200, transfer_type="CPU_to_GPU")
    told.counter("vllm:kv_offload_total_bytes_total", 9e12, transfer_type="GPU_to_CPU")
    told.counter("vllm:kv_offload_total_time_total", 100.0, transfer_type="CPU_to_GPU")
    found = of(told)
    assert found.subclass == "slow_tier"
    assert found.evidence[2].value == pytest.approx(SIZE / 0.5)


def test_without_a_connector_there_is_no_data_and_a_cure():
    found = of(endpoint())
    assert (found.verdict, bool(found.gaps[0].cure)) == (Verdict.NO_DATA, True)
