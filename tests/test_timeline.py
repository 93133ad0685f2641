"""From raw columns to signals: names of all years, ranks, restarts, series that come and go."""

from __future__ import annotations

import math

import pytest
from loads import Page, endpoint, timeline
from spellings import bare, old, ray, without_engine

from kvdoctor import metrics as m
from kvdoctor.timeline import Timeline

NAN = math.nan


def three(name: str, values: list[float], kind: str = "counter", **labels: str) -> Page:
    """One series of three readings, a second apart."""
    return Page(2, 3).series(name, values, kind, **labels)


# -- counters ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "rise", "total"),
    [
        pytest.param([10, 15, 30], 20, 30, id="there throughout"),
        pytest.param([NAN, NAN, 30], 30, 30, id="label-lazy: counts from 0"),
        pytest.param([10, 15, NAN], 5, 15, id="cut at the last reading"),
        pytest.param([10, NAN, 30], 20, 30, id="gone for one reading"),
        pytest.param([10, 15, math.inf], None, None, id="infinite at the end"),
        pytest.param([math.inf, 15, 30], None, None, id="infinite at first"),
        pytest.param([10, math.inf, 30], 20, 30, id="infinite between"),
    ],
)
def test_a_counter_rises_from_what_it_stood_at(values, rise, total):
    line = timeline(three("vllm:generation_tokens_total", values))
    assert (line.delta(m.GENERATED), line.total(m.GENERATED)) == (rise, total)


def test_a_counter_that_was_never_there_is_not_zero():
    line = timeline(three("vllm:prompt_tokens_total", [1, 2, 3]))
    assert line.delta(m.GENERATED) is line.total(m.GENERATED) is line.gauge(m.RUNNING) is None
    assert not line.has(m.GENERATED)


def test_counters_are_summed_over_ranks():
    line = timeline(endpoint(ranks=[{"first_tokens": 10}, {"first_tokens": 30}], outputs=20))
    assert line.ranks == ("0", "1")
    assert (line.delta(m.GENERATED), line.delta(m.GENERATED, "1")) == (800, 600)


def test_a_counter_is_summed_over_its_labels():
    told = Page(2, 3)
    for reason, end in (("stop", 5), ("length", 7)):
        told.series("vllm:request_success_total", [0, 1, end], "counter", finished_reason=reason)
    assert timeline(told).delta(m.FINISHED) == 12


def test_a_counter_that_is_gone_for_a_while_stands_where_it_stood():
    told = three("vllm:prefix_cache_hits_total", [10, 15, NAN], engine="0")
    told.series("vllm:prefix_cache_hits_total", [100, NAN, 130], "counter", engine="1")
    assert [v for _, v in timeline(told).series(m.PREFIX_HITS)] == [110, 115, 145]


def test_rates_are_rises_between_neighbouring_readings():
    told = Page(4, 3).series("vllm:generation_tokens_total", [10, 30, 30], "counter")
    assert timeline(told).rates(m.GENERATED) == [(2.0, 10.0), (4.0, 0.0)]


# -- gauges ------------------------------------------------------------------------------------------------


def test_a_gauge_tells_its_course():
    gauge = timeline(three("vllm:num_requests_running", [4, 0, 2], "gauge")).gauge(m.RUNNING)
    assert (gauge.first, gauge.low, gauge.peak, gauge.last) == (4, 0, 4, 2)
    assert (gauge.mean, gauge.readings, gauge.changes) == (1.5, 3, 2)


def test_the_mean_of_a_gauge_is_weighted_by_time():
    told = Page(2, 3).series("vllm:num_requests_running", [0, 0, 8])
    source = told.source()
    source.at[1] = 1.9
    line = Timeline(source, timeline(told).engine, 0, 2)
    assert line.gauge(m.RUNNING).mean == pytest.approx(4 * 0.1 / 2)


def test_a_gauge_that_is_gone_is_no_zero():
    gauge = timeline(three("vllm:num_requests_running", [4, NAN, 4], "gauge")).gauge(m.RUNNING)
    assert (gauge.low, gauge.readings) == (4, 2)


def test_usage_is_the_fullest_ranks_and_requests_are_summed():
    line = timeline(endpoint(ranks=[{"usage": 0.2, "running": 3}, {"usage": 0.9, "running": 4}]))
    assert (line.gauge(m.KV_CACHE_USAGE).peak, line.gauge(m.RUNNING).peak) == (0.9, 7)
    assert line.gauge(m.KV_CACHE_USAGE, "0").peak == 0.2


def test_usage_told_once_a_pid_is_not_added_up():
    told = Page(2, 3)
    for pid in ("71", "72"):
        told.series("vllm:kv_cache_usage_perc", [0.4, 0.5, 0.6], pid=pid)
    assert timeline(told).gauge(m.KV_CACHE_USAGE).peak == 0.6


def test_an_infinite_gauge_is_left_out():
    gauge = timeline(three("vllm:num_requests_running", [4, math.inf, 4], "gauge")).gauge(m.RUNNING)
    assert gauge.mean == 4


@pytest.mark.parametrize(
    ("name", "values", "kind", "moved"),
    [
        ("vllm:generation_tokens_total", [1, 1, 1], "counter", False),
        ("vllm:generation_tokens_total", [1, 1, 2], "counter", True),
        ("vllm:generation_tokens", [1, 1, 2], "counter", True),
        ("vllm:generation_tokens_total", [NAN, NAN, 1], "counter", True),
        ("vllm:generation_tokens_total", [1, 2, NAN], "counter", True),
        ("ray_vllm_generation_tokens_total", [1, 1, 2], "counter", True),
        ("vllm:e2e_request_latency_seconds_count", [1, 1, 2], "histogram", True),
        ("vllm:num_requests_running", [1, 1, 2], "gauge", False),
        ("process_cpu_seconds_total", [1, 1, 2], "counter", False),
    ],
)
def test_a_gauge_is_fresh_only_if_a_counter_of_the_engine_moved(name, values, kind, moved):
    assert timeline(three(name, values, kind)).counters_moved() is moved


# -- names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spell", [old, bare, ray, without_engine])
def test_every_spelling_tells_the_same_traffic(spell):
    plain, told = timeline(endpoint()), timeline(spell(endpoint()))
    for quantity in (m.PREFIX_HITS, m.PREFIX_QUERIES, m.GENERATED, m.FINISHED, m.PREEMPTIONS):
        assert told.delta(quantity) == plain.delta(quantity) is not None
    for quantity in (m.KV_CACHE_USAGE, m.RUNNING, m.WAITING):
        assert told.gauge(quantity) == plain.gauge(quantity) is not None
    for quantity in (m.TTFT, m.ITL, m.QUEUE):
        assert told.histogram(quantity) == plain.histogram(quantity) is not None
    assert told.ranks == ("0",)


@pytest.mark.parametrize(
    ("new", "former", "quantity"),
    [
        ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", m.KV_CACHE_USAGE),
        ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total", m.PREFIX_HITS),
    ],
)
def test_of_a_renamed_family_the_new_name_wins(new, former, quantity):
    told = three(former, [0, 0, 0.25], "").series(new, [0, 0, 0.75], "")
    line = timeline(told)
    assert [v for _, v in line.series(quantity)][-1] == 0.75
    assert line.names(quantity) == new


def test_of_a_renamed_histogram_the_new_name_wins():
    told = Page(2, 3)
    told.histogram("vllm:time_per_output_token_seconds", {0.1: 7}, 0.7)
    told.histogram("vllm:inter_token_latency_seconds", {0.1: 9}, 0.8)
    line = timeline(told)
    assert (line.histogram(m.ITL).count, line.names(m.ITL)) == (9, "vllm:inter_token_latency_seconds")


def test_a_histogram_whose_name_ends_in_total_is_one():
    assert timeline(endpoint(step_tokens=8)).histogram(m.ITERATION_TOKENS).mean == 8


def test_the_sums_of_a_histogram_can_be_read_as_counters():
    told = Page(2, 3).histogram("vllm:nixl_xfer_time_seconds", {0.1: 4, 5.0: 1}, 2.5)
    line = timeline(told)
    assert (line.delta(m.TRANSFERS), line.delta(m.TRANSFER_SECONDS)) == (5, 2.5)


def test_alternatives_are_not_added_up():
    told = three("vllm:kv_offload_load_bytes_total", [0, 0, 64])
    told.series("vllm:kv_offload_total_bytes_total", [0, 0, 64], "counter", transfer_type="CPU_to_GPU")
    assert timeline(told).delta(m.LOAD_BYTES) == 64


def test_failures_of_all_kinds_are_added_up():
    told = three("vllm:nixl_num_failed_transfers_total", [0, 0, 2])
    told.series("vllm:nixl_num_kv_expired_reqs_total", [0, 0, 3], "counter")
    assert timeline(told).delta(m.TRANSFER_FAILURES) == 5


# -- labels ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"), [("16", "16"), ("None", None), ("", None)], ids=["a number", "None", "empty"]
)
def test_a_label_that_is_not_set_is_none(value, expected):
    told = Page().series("vllm:cache_config_info", 1.0, block_size=value)
    assert timeline(told).label(m.CACHE_CONFIG, "block_size") == expected
    assert timeline(told).label(m.CACHE_CONFIG, "other") is None


def test_of_two_configurations_the_newest_counts():
    told = three("vllm:cache_config_info", [1, NAN, NAN], "gauge", num_gpu_blocks="None")
    told.series("vllm:cache_config_info", [NAN, 1, 1], "gauge", num_gpu_blocks="77")
    assert timeline(told).label(m.CACHE_CONFIG, "num_gpu_blocks") == "77"
