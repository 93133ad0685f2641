"""SGLang: its traps, one a test."""

from __future__ import annotations

import pytest
from readings import blank, judged, line

from kvdoctor import metrics as m
from kvdoctor.engines import version_range
from kvdoctor.engines.sglang import ENGINE
from kvdoctor.model import State

RANK = {"model_name": "m", "engine_type": "unified", "tp_rank": "0", "pp_rank": "0"}


def test_the_newest_generation_of_hit_counters_answers_for_hits_and_lookups_alike():
    page = blank(**RANK)
    page.counter("sglang:prefill_effective_tokens_total", 216, mode="input")
    page.counter("sglang:prefill_effective_tokens_total", 432, mode="device_hit")
    page.counter("sglang:prefill_effective_tokens_total", 168, mode="host_hit")
    page.counter("sglang:realtime_tokens_total", 900, mode="prefill_cache")
    page.counter("sglang:cached_tokens_total", 7777, cache_source="device")
    seen = line(page, ENGINE)
    assert (seen.delta(m.PREFIX_HITS), seen.delta(m.PREFIX_QUERIES)) == (432, 816)
    assert seen.delta(m.PROMPT_COMPUTED) == 216
    assert seen.delta(m.EXTERNAL_HITS) == seen.delta(m.PROMPT_EXTERNAL) == 168


def test_a_generation_without_its_first_hit_does_not_borrow_the_hits_of_another():
    page = blank(**RANK).counter("sglang:prefill_effective_tokens_total", 500, mode="input")
    page.counter("sglang:realtime_tokens_total", 900, mode="prefill_cache")
    page.counter("sglang:cached_tokens_total", 900)
    seen = line(page, ENGINE)
    assert (seen.delta(m.PREFIX_HITS), seen.delta(m.PREFIX_QUERIES)) == (0, 500)


def test_the_second_generation_counts_as_it_computes():
    page = blank(**RANK).counter("sglang:realtime_tokens_total", 100, mode="prefill_compute")
    page.counter("sglang:realtime_tokens_total", 300, mode="prefill_cache")
    page.counter("sglang:realtime_tokens_total", 50, mode="decode")
    page.counter("sglang:prompt_tokens_total", 9)
    page.counter("sglang:generation_tokens_total", 9)
    seen = line(page, ENGINE)
    assert (seen.delta(m.PREFIX_HITS), seen.delta(m.PREFIX_QUERIES)) == (300, 400)
    assert (seen.delta(m.PROMPT_TOKENS), seen.delta(m.GENERATED)) == (400, 50)


def test_the_oldest_generation_counts_when_requests_end():
    page = blank(**RANK).counter("sglang:prompt_tokens_total", 1000)
    assert line(page, ENGINE).delta(m.PREFIX_QUERIES) is None
    page.counter("sglang:cached_tokens_total", 600)
    seen = line(page, ENGINE)
    assert (seen.delta(m.PREFIX_HITS), seen.delta(m.PREFIX_QUERIES)) == (600, 1000)
    assert seen.delta(m.PROMPT_COMPUTED) == 400


def test_the_hit_rate_gauge_of_the_last_batch_is_never_read():
    page = blank(**RANK).series("sglang:cache_hit_rate", 0.9)
    assert not any(line(page, ENGINE).has(q) for q in ENGINE.signals)


def test_tensor_parallel_ranks_repeat_what_one_says():
    page = blank()
    for rank in range(4):
        page.labels = {**RANK, "tp_rank": str(rank)}
        page.series("sglang:num_running_reqs", 8).series("sglang:num_queue_reqs", 3)
        page.histogram("sglang:queue_time_seconds", {1.0: 10}, 5.0)
    seen = line(page, ENGINE)
    assert seen.gauge(m.RUNNING).last == 8
    assert seen.gauge(m.WAITING).last == 3
    assert seen.histogram(m.QUEUE).count == 10


def test_data_parallel_ranks_are_added_up_whatever_their_tensor_parallel_rank():
    page = blank()
    for dp, tp in ((0, 0), (0, 1), (1, 2), (1, 10)):
        page.labels = {**RANK, "tp_rank": str(tp), "dp_rank": str(dp)}
        page.series("sglang:num_running_reqs", 5 + dp)
    seen = line(page, ENGINE)
    assert seen.ranks == ("0", "1")
    assert seen.gauge(m.RUNNING).last == 11
    assert seen.gauge(m.RUNNING, "1").last == 6


def test_bytes_are_a_rank_s_own_and_tokens_are_repeated():
    page = blank()
    for rank in ("0", "1"):
        page.labels = {**RANK, "tp_rank": rank}
        page.counter("sglang:load_back_bytes_total", 1000).counter("sglang:hicache_dropped_tokens_total", 7)
        page.histogram("sglang:load_back_duration_seconds", {1.0: 4}, 2.0)
    seen = line(page, ENGINE)
    assert seen.delta(m.LOAD_BYTES) == 2000
    assert seen.delta(m.LOAD_SECONDS) == 2
    assert seen.delta(m.TIER_EVICTIONS) == 7


def test_a_priority_left_empty_is_the_total():
    page = blank(**RANK)
    for priority, number in (("", 9), ("0", 4), ("1", 5)):
        page.series("sglang:num_queue_reqs", number, priority=priority)
    assert line(page, ENGINE).gauge(m.WAITING).last == 9


def test_queues_of_a_disaggregated_pair_wait_too():
    page = blank(**RANK).series("sglang:num_queue_reqs", 2)
    page.series("sglang:num_decode_transfer_queue_reqs", 5)
    page.series("sglang:num_decode_prealloc_queue_reqs", 1)
    seen = line(page, ENGINE)
    assert seen.gauge(m.WAITING).last == 8
    assert seen.gauge(m.KV_FETCH_IN_PROGRESS).last == 5


def test_the_grammar_queue_waits_for_no_kv():
    page = blank(**RANK).series("sglang:num_grammar_queue_reqs", 5)
    assert not line(page, ENGINE).has(m.WAITING_DEFERRED)


def test_transfers_are_mebibytes_and_milliseconds_whatever_their_names_say():
    page = blank(**RANK).histogram("sglang:kv_transfer_total_mb", {64.0: 2}, 100.0)
    page.histogram("sglang:kv_transfer_latency_ms", {50.0: 2}, 60.0)
    seen = line(page, ENGINE)
    assert seen.delta(m.TRANSFER_BYTES) == 100 * 2**20
    assert seen.delta(m.TRANSFER_SECONDS) == pytest.approx(0.06)
    assert seen.delta(m.TRANSFERS) == 2


def test_transfer_gauges_of_old_releases_are_no_sums():
    page = (
        blank(**RANK).series("sglang:kv_transfer_total_mb", 100).series("sglang:kv_transfer_latency_ms", 30)
    )
    seen = line(page, ENGINE)
    assert not seen.has(m.TRANSFER_BYTES)
    assert not seen.has(m.TRANSFER_SECONDS)


def test_hicache_bandwidth_is_in_gibibytes():
    page = blank(**RANK).histogram("sglang:prefetch_bandwidth", {5.0: 3, 10.0: 1}, 16.0)
    seen = line(page, ENGINE).histogram(m.TIER_RATE)
    assert seen.mean == 4 * 2**30
    assert seen.bounds[:2] == (5 * 2**30, 10 * 2**30)


def test_the_host_tier_is_used_over_total():
    page = (
        blank(**RANK)
        .series("sglang:hicache_host_used_tokens", 650)
        .series("sglang:hicache_host_total_tokens", 1000)
    )
    assert line(page, ENGINE).gauge(m.TIER_FILL).last == 0.65


def test_what_a_far_tier_promised_and_did_not_fulfil_is_counted_as_promised():
    page = blank(**RANK).counter("sglang:prefill_effective_tokens_total", 300, mode="storage_hit")
    page.counter("sglang:storage_prefetch_unfulfilled_tokens_total", 700, reason="timeout")
    seen = line(page, ENGINE)
    assert (seen.delta(m.EXTERNAL_HITS), seen.delta(m.PROMPT_EXTERNAL)) == (1000, 300)


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("sglang:num_retracted_requests_total", "counter", 5),
        ("sglang:total_retracted_reqs", "gauge", 5),
        ("sglang:num_retracted_reqs", "gauge", None),
    ],
)
def test_retractions_are_preemptions_where_they_are_counted(name, kind, expected):
    page = blank(**RANK).series(name, [float(i // 6) for i in range(31)], kind)
    assert line(page, ENGINE).delta(m.PREEMPTIONS) == expected


def test_output_tokens_are_counted_by_gaps_where_the_counter_waits_for_the_end():
    page = blank(model_name="m").counter("sglang:generation_tokens_total", 0)
    page.histogram("sglang:inter_token_latency_seconds", {0.02: 900}, 9.0)
    page.histogram("sglang:time_to_first_token_seconds", {0.1: 10}, 0.5)
    assert line(page, ENGINE).delta(m.GENERATED) == 910


def test_a_server_whose_gauges_stand_still_after_its_last_request_is_not_called_stalled_without_doubt():
    page = blank(**RANK).series("sglang:num_running_reqs", 3).series("sglang:num_queue_reqs", 0)
    page.series("sglang:token_usage", 0.4)
    page.counter("sglang:realtime_tokens_total", 0, 500, mode="decode")
    found = judged(page)
    assert found.state is State.STALLED
    assert found.confidence.value == "low"
    assert any("stale" in gap.reason for gap in found.gaps)


def test_the_side_of_a_pair_is_told_by_a_label():
    page = blank(**{**RANK, "engine_type": "decode"}).series("sglang:num_running_reqs", 0)
    assert judged(page).targets[0].role == "decode"


def test_loads_text_has_an_underscore():
    page = blank(dp_rank="0").series("sglang_num_running_reqs", 4).series("sglang_num_waiting_reqs", 6)
    seen = line(page, ENGINE)
    assert (seen.gauge(m.RUNNING).last, seen.gauge(m.WAITING).last) == (4, 6)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["sglang:time_per_output_token_seconds_sum"], "<=0.4.3"),
        (["sglang:cached_tokens_total", "sglang:total_retracted_reqs"], "0.4.10 to 0.5.2"),
        (["sglang:prefill_effective_tokens_total"], ">=0.5.18"),
        (["sglang:queue_time_s_sum"], "0.5.2 to 0.5.2"),
    ],
)
def test_names_tell_the_release(names, expected):
    assert version_range(ENGINE, names) == expected
