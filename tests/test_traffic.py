"""What went through an engine: differences, Little's law, and when histograms may be mixed."""

from __future__ import annotations

import math

import pytest
from loads import Page, case, case_of, endpoint, timeline
from spellings import old

from kvdoctor import metrics as m
from kvdoctor.traffic import (
    COHORT_REQUESTS,
    COHORT_SHARE,
    SHORT_REQUESTS,
    Traffic,
    kv_in_flight,
    pool_tokens,
)


def traffic(**numbers: object) -> Traffic:
    return case(**numbers).traffic


def test_the_numbers_of_a_window_are_differences():
    seen = traffic(first_tokens=200, outputs=20, prompt=500, hits=90_000, hits_before=7e6, queries_before=8e6)
    assert (seen.seconds, seen.first_tokens, seen.finished, seen.generated) == (30, 200, 200, 4000)
    assert (seen.prompt_tokens, seen.queries, seen.hits, seen.computed) == (1e5, 1e5, 9e4, 1e4)
    assert (seen.outputs_per_request, seen.gaps_per_request, seen.prompt_per_request) == (20, 19, 500)
    assert seen.context == 510


@pytest.mark.parametrize(
    ("finished", "seconds"),
    [
        pytest.param(200, 10.0, id="all that begin end"),
        pytest.param(20, 10.0, id="nine of ten are aborted, and their clock is never read"),
        pytest.param(300, 15.0, id="more end than begin"),
    ],
)
def test_time_in_prefill_is_that_of_all_that_began(finished, seconds):
    seen = traffic(first_tokens=200, finished=finished, prefill_mean=0.05)
    assert seen.prefill_seconds == pytest.approx(seconds)


def test_an_old_preemption_is_not_of_this_window():
    assert traffic(preempted_before=70).preemptions == 0


@pytest.mark.parametrize(
    ("hits", "queries", "rate"),
    [(0, 0, None), (0, 100, 0.0), (50, 100, 0.5)],
    ids=["zero queries are undefined", "no hit", "half"],
)
def test_the_hit_rate_over_nothing_is_undefined(hits, queries, rate):
    assert traffic(hits=hits, queries=queries).hit_rate == rate


def test_the_hit_rate_of_an_engine_that_counts_blocks_is_the_same_ratio():
    blocks = old(endpoint(queries=6250, hits=5000))
    assert case_of(blocks).traffic.hit_rate == 0.8


# -- the cohort (rule 4) -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finished", "e2e", "cohort"),
    [
        pytest.param(COHORT_REQUESTS - 1, 0.5, False, id="one finished request too few"),
        pytest.param(COHORT_REQUESTS, 0.5, True, id="just enough finished"),
        pytest.param(COHORT_REQUESTS, COHORT_SHARE * 30 - 0.01, True, id="e2e just under half the window"),
        pytest.param(COHORT_REQUESTS, COHORT_SHARE * 30, False, id="e2e half the window"),
        pytest.param(1000, COHORT_SHARE * 30 + 1, False, id="many, but of before the window"),
    ],
)
def test_histograms_are_mixed_only_when_they_are_of_the_same_requests(finished, e2e, cohort):
    assert traffic(finished=finished, e2e_mean=e2e).cohort is cohort


def test_cohort_thresholds_are_those_of_the_rule():
    assert (COHORT_REQUESTS, COHORT_SHARE) == (20, 0.5)


EMPTY_AT_ENDS = [0.0, *[1.0] * 29, 0.0]


@pytest.mark.parametrize(
    ("numbers", "same"),
    [
        pytest.param({}, True, id="empty at both ends"),
        pytest.param({"finished": 4}, False, id="one more than began"),
        pytest.param({"running": [1.0] * 31}, False, id="running at both ends"),
        pytest.param({"running": [0.0] * 30 + [1.0]}, False, id="running at the end"),
        pytest.param({"waiting": [2.0] + [0.0] * 30}, False, id="waiting at the start"),
        pytest.param({"first_tokens": 0, "finished": 0}, False, id="none at all"),
    ],
)
def test_few_requests_are_the_same_when_the_engine_was_empty_at_both_ends(numbers, same):
    seen = traffic(**{"first_tokens": 3, "finished": 3, "running": EMPTY_AT_ENDS, **numbers})
    assert seen.same_requests is same
    assert seen.cohort is same


def test_a_lifetime_reading_mixes_whatever_finished():
    assert traffic(readings=1, seconds=0, finished=1).cohort
    assert traffic(readings=1, seconds=0).lifetime


# -- Little's law (rule 5) ---------------------------------------------------------------------------------


def test_mean_waiting_over_the_rate_of_first_tokens_is_the_queue_time():
    assert traffic(waiting=10, first_tokens=100, seconds=30).little_queue == pytest.approx(3.0)


@pytest.mark.parametrize("numbers", [{"first_tokens": 0}, {"readings": 1, "seconds": 0}])
def test_without_a_rate_there_is_no_queue_time(numbers):
    assert traffic(waiting=10, **numbers).little_queue is None


def test_gaps_per_second_times_the_mean_gap_is_the_number_in_decode():
    assert traffic(first_tokens=300, outputs=11, itl_mean=0.05, seconds=30).decode_batch == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("e2e", "short"),
    [(SHORT_REQUESTS * 30 - 0.01, True), (SHORT_REQUESTS * 30, False)],
    ids=["under", "a tenth"],
)
def test_requests_are_short_under_a_tenth_of_the_window(e2e, short):
    assert traffic(e2e_mean=e2e).short is short


@pytest.mark.parametrize(
    ("numbers", "seconds"),
    [
        pytest.param({}, 0.2, id="of those that finished in the window"),
        pytest.param({"finished": 0}, None, id="of nobody"),
    ],
)
def test_prefill_is_guessed_from_requests_that_finished(numbers, seconds):
    assert traffic(prefill_mean=0.2, **numbers).prefill_guess == seconds


def test_prefill_is_guessed_from_the_past_where_nobody_finished():
    told = Page(2, 3).histogram("vllm:time_to_first_token_seconds", {0.1: 4}, 0.3)
    for suffix, value in (("bucket", 9.0), ("count", 9.0), ("sum", 1.8)):
        le = {"le": "+Inf"} if suffix == "bucket" else {}
        told.series(f"vllm:request_prefill_time_seconds_{suffix}", value, "histogram", **le)
    assert case_of(told).traffic.prefill_guess == pytest.approx(0.2)


# -- the pool ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "tokens"),
    [
        ({"kv_cache_size_tokens": "5000", "num_gpu_blocks": "100", "block_size": "16"}, 5000),
        ({"kv_cache_size_tokens": "None", "num_gpu_blocks": "100", "block_size": "16"}, 1600),
        ({"num_gpu_blocks": "100", "block_size": "16"}, 1600),
        ({"num_gpu_blocks": "None", "block_size": "16"}, None),
        ({"num_gpu_blocks": "many", "block_size": "16"}, None),
        ({"num_gpu_blocks": "inf", "block_size": "16"}, None),
        ({"kv_cache_size_tokens": "nan"}, None),
        ({}, None),
    ],
    ids=[
        "the engine's own figure",
        "unset",
        "blocks x size",
        "no blocks",
        "junk",
        "infinite",
        "nan",
        "nothing",
    ],
)
def test_the_pool_is_the_engines_own_figure_else_blocks_times_their_size(labels, tokens):
    assert pool_tokens(timeline(Page().series("vllm:cache_config_info", 1.0, **labels))) == tokens


def test_loads_in_progress_are_the_better_witness_of_a_wait_for_kv():
    told = endpoint(deferred=5)
    assert kv_in_flight(timeline(told)) is m.WAITING_DEFERRED
    told.series("vllm:num_requests_kv_fetch_by_stage", 2, stage="in_progress")
    assert kv_in_flight(timeline(told)) is m.KV_FETCH_IN_PROGRESS
    assert case_of(told).traffic.deferred.mean == 2


def test_means_over_nothing_are_none():
    seen = traffic(first_tokens=0, finished=0)
    assert (seen.outputs_per_request, seen.prompt_per_request, seen.context) == (None, None, None)
    assert (seen.decode_batch, seen.gaps_per_request) == (None, 0.0)
    assert not math.isnan(seen.seconds)
