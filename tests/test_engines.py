"""Adapters: every name that a family ever had, and what a page says of its release."""

from __future__ import annotations

import pytest
from loads import Page, timeline

from kvdoctor import metrics as m
from kvdoctor.engines import plain_name, recognise, sglang, version_range
from kvdoctor.engines.engine import any_of, labelled
from kvdoctor.engines.vllm import ENGINE
from kvdoctor.quantity import Kind


@pytest.mark.parametrize(
    ("names", "engine"),
    [
        (["vllm:num_requests_running"], ENGINE),
        (["ray_vllm_num_requests_running"], ENGINE),
        (["python_info", "process_start_time_seconds", "vllm:x"], ENGINE),
        (["sglang:num_running_reqs"], sglang.ENGINE),
        (["lmcache:num_hit_tokens_total"], None),
        (["python_info", "http_requests_total"], None),
        (["xvllm:num_requests_running", "vllm_other"], None),
        ([], None),
    ],
)
def test_an_engine_is_recognised_by_its_prefix(names, engine):
    assert recognise(names) is engine


def test_rays_prefix_stands_for_the_engines_own():
    assert plain_name(ENGINE, "ray_vllm_generation_tokens_total") == "vllm:generation_tokens_total"
    assert plain_name(ENGINE, "vllm:generation_tokens_total") == "vllm:generation_tokens_total"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["vllm:num_requests_running"], None),
        (["vllm:gpu_cache_usage_perc"], "<=0.11.2"),
        (["vllm:num_requests_swapped"], "<=0.10"),
        (["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"], "0.9.2 to 0.11.2"),
        (["vllm:kv_cache_usage_perc", "vllm:num_requests_swapped"], "0.9.2 to 0.10"),
        (["vllm:prompt_tokens_cached_by_source_total"], ">=0.32.0"),
        (["vllm:inter_token_latency_seconds_bucket"], ">=0.10.2"),
        (["vllm:admission_rejections_total", "vllm:num_requests_swapped"], "names of several releases"),
        (["ray_vllm_num_requests_waiting_by_reason"], ">=0.20.0"),
        ([], None),
    ],
)
def test_names_narrow_the_release_down(names, expected):
    assert version_range(ENGINE, names) == expected


def test_releases_are_compared_as_numbers():
    assert (
        version_range(ENGINE, ["vllm:kv_cache_usage_perc", "vllm:inter_token_latency_seconds_sum"])
        == ">=0.10.2"
    )


def test_an_adapter_names_only_quantities_of_the_vocabulary():
    vocabulary = vars(m).values()
    assert all(quantity in vocabulary for quantity in ENGINE.signals)


def test_histograms_are_looked_up_by_family_and_not_by_sample():
    for quantity, alternatives in ENGINE.signals.items():
        for terms in alternatives:
            if quantity.kind is Kind.HISTOGRAM:
                assert len(terms) == 1
                assert terms[0].sample == ""


# Counters and gauges as they stood in some release: name, labels, quantity.
WIRE = [
    ("vllm:num_requests_waiting_by_reason", {"reason": "capacity"}, m.WAITING_CAPACITY),
    ("vllm:num_requests_waiting_by_reason", {"reason": "deferred"}, m.WAITING_DEFERRED),
    ("vllm:num_requests_kv_fetch_by_stage", {"stage": "in_progress"}, m.KV_FETCH_IN_PROGRESS),
    ("vllm:num_requests_kv_fetch_by_stage", {"stage": "waiting_to_start"}, m.KV_FETCH_WAITING),
    ("vllm:num_requests_kv_fetch_by_stage", {"stage": "completed_waiting"}, m.KV_FETCH_COMPLETED),
    ("vllm:gpu_cache_usage_perc", {}, m.KV_CACHE_USAGE),
    ("vllm:num_preemptions_total", {}, m.PREEMPTIONS),
    ("vllm:gpu_prefix_cache_queries_total", {}, m.PREFIX_QUERIES),
    ("vllm:prefix_cache_hits", {}, m.PREFIX_HITS),
    ("vllm:external_prefix_cache_hits_total", {}, m.EXTERNAL_HITS),
    ("vllm:prompt_tokens_by_source_total", {"source": "local_compute"}, m.PROMPT_COMPUTED),
    ("vllm:prompt_tokens_by_source_total", {"source": "external_kv_transfer"}, m.PROMPT_EXTERNAL),
    ("vllm:prompt_tokens_cached_by_source_total", {"source": "host"}, m.CACHED_HOST),
    ("vllm:prompt_tokens_cached_by_source_total", {"source": "p2p"}, m.CACHED_P2P),
    ("vllm:request_success_total", {"finished_reason": "abort"}, m.FAILED),
    ("vllm:nixl_bytes_transferred_sum", {}, m.TRANSFER_BYTES),
    ("vllm:nixl_xfer_time_seconds_count", {}, m.TRANSFERS),
    ("vllm:nixl_num_descriptors_sum", {}, m.TRANSFER_DESCRIPTORS),
    ("vllm:nixl_num_kv_expired_reqs_total", {}, m.TRANSFER_FAILURES),
    ("vllm:kv_offload_load_bytes_total", {}, m.LOAD_BYTES),
    ("vllm:kv_offload_total_bytes_total", {"transfer_type": "CPU_to_GPU"}, m.LOAD_BYTES),
    ("vllm:kv_offload_total_bytes_total", {"transfer_type": "GPU_to_CPU"}, m.STORE_BYTES),
    ("vllm:kv_offload_total_time_total", {"transfer_type": "CPU_to_GPU"}, m.LOAD_SECONDS),
    ("vllm:kv_offload_size_count", {"transfer_type": "CPU_to_GPU"}, m.LOADS),
    ("vllm:hf3fs_load_duration_seconds_sum", {}, m.LOAD_SECONDS),
    ("vllm:hisparse_host_to_device_bytes_total", {}, m.LOAD_BYTES),
    ("vllm:kv_offload_tiering_read_bytes_total", {"tier": "disk"}, m.TIER_READ_BYTES),
    (
        "vllm:mooncake_store_operation_bytes_total",
        {"operation": "load_get", "status": "ok"},
        m.TIER_READ_BYTES,
    ),
    ("vllm:mooncake_store_operation_time_seconds_sum", {"operation": "load_get"}, m.TIER_READ_SECONDS),
    ("vllm:num_requests_swapped", {}, m.SWAPPED),
    ("vllm:spec_decode_num_accepted_tokens_total", {}, m.SPEC_ACCEPTED),
    ("vllm:engine_sleep_state", {"sleep_state": "discard_all"}, m.SLEEP_STATE),
]


@pytest.mark.parametrize(("name", "labels", "quantity"), WIRE, ids=[f"{w[0]}-{w[2]}" for w in WIRE])
@pytest.mark.parametrize("prefix", ["vllm:", "ray_vllm_"])
def test_a_name_on_the_wire_lands_in_the_vocabulary(prefix, name, labels, quantity):
    told = Page(2, 3).series(name.replace("vllm:", prefix), [0, 3, 7], "", **labels)
    line = timeline(told)
    assert [value for _, value in line.series(quantity)] == [0, 3, 7]


HISTOGRAMS = [
    ("vllm:time_per_output_token_seconds", m.ITL),
    ("vllm:inter_token_latency_seconds", m.ITL),
    ("vllm:request_time_per_output_token_seconds", m.TPOT),
    ("vllm:time_in_queue_requests", m.QUEUE),
    ("vllm:request_queue_time_seconds", m.QUEUE),
    ("vllm:iteration_tokens_total", m.ITERATION_TOKENS),
    ("vllm:request_num_preemptions", m.REQUEST_PREEMPTIONS),
    ("vllm:kv_block_reuse_gap_seconds", m.REUSE_GAP),
    ("vllm:lmcache_mp_lookup_duration_seconds", m.LOOKUP),
]


@pytest.mark.parametrize(("name", "quantity"), HISTOGRAMS)
def test_a_histogram_on_the_wire_lands_in_the_vocabulary(name, quantity):
    line = timeline(Page(2, 3).histogram(name, {1.0: 4}, 2.0))
    assert line.histogram(quantity).mean == 0.5
    assert line.names(quantity) == name


def test_a_series_with_other_labels_is_not_taken():
    told = Page(2, 3).series("vllm:prompt_tokens_by_source_total", 5, "counter", source="local_cache_hit")
    assert not timeline(told).has(m.PROMPT_COMPUTED)


def test_alternatives_are_written_as_data():
    assert any_of("a", "b") == ((labelled("a"),), (labelled("b"),))
