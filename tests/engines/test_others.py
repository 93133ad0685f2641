"""TensorRT-LLM, TGI, LMDeploy, llama.cpp and Dynamo: their traps, one a test."""

from __future__ import annotations

import pytest
from readings import blank, judged, line

from kvdoctor import metrics as m
from kvdoctor.engines import (
    ENGINES,
    dynamo,
    llamacpp,
    lmdeploy,
    recognise,
    tgi,
    transformers,
    trtllm,
    version_range,
)
from kvdoctor.model import Bound, State
from kvdoctor.quantity import Kind
from kvdoctor.target.serving import SERVING

TRT = {"model_name": "m", "engine_type": "trtllm"}
BARE = {"model_name": "undefined", "engine_type": "undefined"}


def test_trtllm_is_never_asked_for_the_json_that_a_reading_drains():
    assert trtllm.ENGINE.metrics_path == SERVING["tensorrt_llm"].metrics_path == "/prometheus/metrics"


def test_unprefixed_names_are_trtllm_only_with_its_label():
    page = blank(**BARE).histogram("e2e_request_latency_seconds", {1.0: 4}, 2.0)
    series = [(c.name, c.labels) for c in page.columns]
    assert recognise(series) is trtllm.UNPREFIXED
    assert recognise(name for name, _ in series) is None
    assert recognise((name, ()) for name, _ in series) is None
    seen = line(page, trtllm.UNPREFIXED)
    assert seen.histogram(m.E2E).mean == 0.5
    assert seen.models() == ()
    assert version_range(trtllm.UNPREFIXED, (name for name, _ in series)) == "<=1.1"


def test_trtllm_counts_hits_in_blocks_and_they_become_tokens():
    page = blank(**TRT).counter("trtllm_kv_cache_reused_blocks_total", 90)
    page.counter("trtllm_kv_cache_missed_blocks_total", 10)
    assert not line(page, trtllm.ENGINE).has(m.PREFIX_HITS)
    page.series("trtllm_kv_cache_tokens_per_block", 32)
    seen = line(page, trtllm.ENGINE)
    assert (seen.delta(m.PREFIX_HITS), seen.delta(m.PREFIX_QUERIES)) == (90 * 32, 100 * 32)


def test_paused_requests_are_a_gauge_and_no_preemptions():
    page = blank(**TRT).series("trtllm_num_paused_requests", 3)
    seen = line(page, trtllm.ENGINE)
    assert not seen.has(m.PREEMPTIONS)
    assert seen.gauge(m.PAUSED).last == 3


def test_trtllm_counts_at_the_end_so_silence_is_no_stall():
    page = (
        blank(60.0, 61, **TRT)
        .series("trtllm_num_requests_running", 8)
        .series("trtllm_num_requests_waiting", 2)
    )
    page.counter("trtllm_generation_tokens_total", 0, 100)
    found = judged(page)
    assert found.state is State.INSUFFICIENT
    assert any("when a request ends" in gap.reason for gap in found.gaps)


def test_trtllm_has_no_gaps_so_they_are_put_together_and_have_no_tail():
    page = (
        blank(**TRT)
        .counter("trtllm_generation_tokens_total", 1100)
        .counter("trtllm_request_success_total", 100)
    )
    page.histogram("trtllm_time_per_output_token_seconds", {0.025: 90, 1.0: 10}, 4.0)
    page.histogram("trtllm_request_decode_time_seconds", {1.0: 100}, 30.0)
    page.histogram("trtllm_time_to_first_token_seconds", {0.1: 100}, 5.0)
    found = judged(page)
    assert found.ledgers["itl"].seconds == pytest.approx(30.0 / 1000)
    assert found.ledgers["itl"].part("prefill_in_step") == 0
    assert any("put together" in gap.reason for gap in found.gaps)


def served(page, queue=4.0):
    """A TGI that finished 200 requests of 50 tokens."""
    page.counter("tgi_request_success", 200).counter("tgi_request_failure", 3, err="overloaded")
    page.histogram("tgi_request_duration", {10.0: 200}, 200 * (queue + 1.2))
    page.histogram("tgi_request_queue_duration", {5.0: 200}, 200 * queue)
    page.histogram("tgi_batch_inference_duration", {0.3: 60}, 12.0, method="prefill")
    page.histogram("tgi_batch_inference_duration", {0.03: 3000}, 60.0, method="decode")
    page.histogram("tgi_request_generated_tokens", {100.0: 200}, 10_000.0)
    page.histogram("tgi_request_input_length", {1000.0: 200}, 100_000.0)
    return page.counter("tgi_batch_inference_count", 3000, method="decode")


def test_tgi_counters_have_no_total_and_its_usage_is_reserved():
    page = (
        served(blank())
        .series("tgi_batch_current_max_tokens", 99_000)
        .series("tgi_batch_max_total_tokens", 100_000)
    )
    page.series("tgi_queue_size", 37).series("tgi_batch_current_size", 64)
    seen = line(page, tgi.ENGINE)
    assert seen.delta(m.FINISHED) == 203
    assert seen.delta(m.ADMISSION_REJECTIONS) == 3
    assert seen.gauge(m.KV_CACHE_USAGE).last == 0.99
    found = judged(page)
    assert (found.primary, found.subclass) == (Bound.CAPACITY, "admission")
    assert any("reserved" in note for note in found.notes)


def test_a_reservation_over_nothing_is_no_usage():
    page = blank().series("tgi_batch_current_max_tokens", 10).series("tgi_batch_max_total_tokens", 0)
    assert line(page, tgi.ENGINE).gauge(m.KV_CACHE_USAGE) is None


def test_tgi_hit_rate_cannot_be_told():
    page = served(blank(), queue=0.0)
    assert not line(page, tgi.ENGINE).has(m.PREFIX_HITS)
    assert {f.verdict.value for f in judged(page).findings if f.bound is Bound.HIT_RATE} == {"no_data"}


def test_tgi_mean_time_per_token_holds_prefill_and_is_no_itl():
    page = blank().histogram("tgi_request_mean_time_per_token_duration", {1.0: 4}, 2.0)
    assert not any(line(page, tgi.ENGINE).has(q) for q in tgi.ENGINE.signals)


def test_a_summary_is_no_histogram():
    page = blank().series("tgi_request_skipped_tokens", 3, "summary", quantile="0.9")
    page.series("tgi_request_skipped_tokens_count", 5, "summary")
    assert judged(page).primary is None


LMDEPLOY = {"model_name": "m", "engine": "0"}


def test_lmdeploy_counts_cached_blocks_as_used_so_a_full_pool_is_no_pressure():
    page = blank(60.0, 61, **LMDEPLOY).series("lmdeploy:gpu_cache_usage_perc", 0.99)
    page.series("lmdeploy:num_requests_running", 8).series("lmdeploy:num_requests_waiting", 4)
    page.histogram("lmdeploy:time_to_first_token_seconds", {1.0: 100}, 80.0)
    page.histogram("lmdeploy:request_queue_time_seconds", {1.0: 100}, 70.0)
    page.histogram("lmdeploy:e2e_request_latency_seconds", {5.0: 100}, 300.0)
    page.counter("lmdeploy:request_success_total", 100)
    found = judged(page)
    assert found.primary is not Bound.CAPACITY
    assert not line(page, lmdeploy.ENGINE).has(m.KV_CACHE_USAGE)
    assert line(page, lmdeploy.ENGINE).gauge(m.KV_ALLOCATED).last == 0.99


def test_lmdeploy_gauges_of_the_last_ten_seconds_need_a_long_window():
    short = blank(15.0, 16, **LMDEPLOY).series("lmdeploy:num_requests_running", 1)
    long = blank(60.0, 61, **LMDEPLOY).series("lmdeploy:num_requests_running", 1)
    assert any("every 10 s" in gap.reason for gap in judged(short).gaps)
    assert not any("every 10 s" in gap.reason for gap in judged(long).gaps)


def test_lmdeploy_iteration_tokens_are_of_outputs_and_no_steps():
    page = blank(**LMDEPLOY).histogram("lmdeploy:iteration_tokens_total", {8.0: 100}, 300.0)
    assert not line(page, lmdeploy.ENGINE).has(m.ITERATION_TOKENS)


def test_llamacpp_prompt_tokens_leave_cached_ones_out():
    page = blank().counter("llamacpp:prompt_tokens_total", 200)
    seen = line(page, llamacpp.ENGINE)
    assert seen.delta(m.PROMPT_COMPUTED) == 200
    assert not seen.has(m.PROMPT_TOKENS)
    assert not seen.has(m.PREFIX_QUERIES)
    page.counter("llamacpp:prompt_tokens_cached_total", 800)
    seen = line(page, llamacpp.ENGINE)
    assert seen.delta(m.PROMPT_TOKENS) == seen.delta(m.PREFIX_QUERIES) == 1000
    assert seen.delta(m.PREFIX_HITS) == 800


def test_llamacpp_rates_since_the_last_scrape_and_high_water_marks_are_not_read():
    page = (
        blank().series("llamacpp:prompt_tokens_seconds", 514).series("llamacpp:predicted_tokens_seconds", 33)
    )
    page.series("llamacpp:n_tokens_max", 8156, "counter").series("llamacpp:n_busy_slots_per_decode", 1)
    assert not any(line(page, llamacpp.ENGINE).has(q) for q in llamacpp.ENGINE.signals)


def test_llamacpp_gives_the_mean_gap_and_no_verdict_on_its_spread():
    page = blank().counter("llamacpp:tokens_predicted_total", 1000)
    page.counter("llamacpp:tokens_predicted_seconds_total", 30).series("llamacpp:requests_processing", 1)
    page.series("llamacpp:requests_deferred", 0)
    found = judged(page)
    assert found.ledgers["itl"].seconds == pytest.approx(0.03)
    assert found.primary is None


FRONT = {"model": "m"}


def test_dynamo_s_queue_lasts_until_the_first_token_and_is_no_queue():
    page = blank(**FRONT).series("dynamo_frontend_queued_requests", 20)
    page.series("dynamo_frontend_inflight_requests", 30)
    page.histogram("dynamo_frontend_time_to_first_token_seconds", {10.0: 100}, 500.0)
    page.histogram("dynamo_frontend_inter_token_latency_seconds", {0.02: 1000}, 15.0)
    found = judged(page)
    assert found.primary is None
    assert found.targets[0].role == "frontend"
    assert not line(page, dynamo.FRONTEND).has(m.WAITING)


def test_dynamo_s_percent_is_a_ratio():
    page = blank(dynamo_endpoint="generate").series("dynamo_component_gpu_cache_usage_percent", 0.8)
    assert line(page, dynamo.WORKER).gauge(m.KV_CACHE_USAGE).last == 0.8


def test_dynamo_s_other_endpoints_are_no_requests():
    page = blank().counter("dynamo_component_requests_total", 9, dynamo_endpoint="load_lora")
    page.counter("dynamo_component_requests_total", 5, dynamo_endpoint="generate")
    assert line(page, dynamo.WORKER).delta(m.FINISHED) == 5


def test_kvbm_s_letters_mean_host_to_device_only_when_onboarding():
    page = blank().counter("kvbm_onboard_blocks_h2d", 7).counter("kvbm_offload_blocks_h2d", 100)
    assert line(page, dynamo.KVBM).delta(m.LOADS) == 7


def test_the_front_end_s_time_is_set_against_the_engine_s():
    front = blank(**FRONT).histogram("dynamo_frontend_time_to_first_token_seconds", {1.0: 100}, 60.0)
    worker = blank(model_name="m", engine="0").histogram("vllm:time_to_first_token_seconds", {1.0: 100}, 40.0)
    found = judged(front, worker)
    assert {target.engine for target in found.targets} == {"dynamo", "vllm"}
    assert any("200 ms is routing and transport" in note for note in found.notes)


def test_transformers_serve_exports_nothing_and_is_never_recognised_by_a_name():
    assert transformers.ENGINE in ENGINES
    assert recognise(["python_info", "anything"]) is None
    assert transformers.ENGINE.metrics_path == ""


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_an_engine_maps_quantities_of_the_vocabulary_to_single_families(engine):
    vocabulary = vars(m).values()
    for quantity, alternatives in engine.signals.items():
        assert quantity in vocabulary
        if quantity.kind is Kind.HISTOGRAM:
            assert all(len(terms) == 1 and not terms[0].sample for terms in alternatives)
