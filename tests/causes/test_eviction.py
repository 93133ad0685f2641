"""Prefix eviction: ruled out by arithmetic first, likely only where prompts are seen to repeat."""

from __future__ import annotations

import math

import pytest
from loads import Page, case, case_of, endpoint

from kvdoctor.causes import eviction
from kvdoctor.model import Finding, Verdict

# 200 prompts of 500 tokens, a third of them hit; 0.4 s of TTFT is prefill. The pool turns over in 1.5 s.
TURNING = {
    "hits": 30_000,
    "ttft_mean": 0.5,
    "prefill_mean": 0.4,
    "pool_tokens": 5_000,
    "computed_buckets": {100.0: 70.0, 500.0: 130.0},
}


def of(page: Page | None = None, **numbers: object) -> Finding:
    (found,) = eviction.check(case_of(page) if page else case(**numbers))
    return found


def test_prompts_that_hit_wholly_or_not_at_all_over_a_pool_that_turns_over_are_evicted():
    found = of(**TURNING)
    assert (found.verdict, found.subclass) == (Verdict.LIKELY, "prefix_eviction")
    assert found.gaps
    assert found.advice


@pytest.mark.parametrize(
    ("hits", "verdict"),
    [
        # Those 70 that hit would have saved at least half of a prompt of 500 tokens.
        pytest.param(70 * 250, Verdict.LIKELY, id="as long as those that miss"),
        pytest.param(70 * 249, Verdict.POSSIBLE, id="short prompts that hit beside long ones that are new"),
    ],
)
def test_look_alike_short_prompts_that_always_hit_beside_long_ones_that_are_new(hits, verdict):
    assert of(**{**TURNING, "hits": hits}).verdict is verdict


@pytest.mark.parametrize(
    ("past", "verdict"),
    [
        pytest.param(26_000, Verdict.RULED_OUT, id="all tokens ever computed just fit"),
        pytest.param(26_001, Verdict.LIKELY, id="one token more than the pool"),
    ],
)
def test_what_fits_into_the_pool_was_never_evicted(past, verdict):
    numbers = {
        **TURNING,
        "pool_tokens": 100_000,
        "generated_before": 0,
        "computed_before": past,
        "seconds": 60,
    }
    kept = case(**numbers)
    assert eviction.ever_evicted(kept) is (verdict is Verdict.LIKELY)
    (found,) = eviction.check(kept)
    assert found.verdict is verdict


def test_look_alike_the_same_window_of_a_young_server():
    """Only the tokens since the start differ."""
    old, young = (
        {**TURNING, "seconds": 60},
        {"computed_before": 0, "generated_before": 0, "pool_tokens": 80_000},
    )
    assert of(**{**old, "pool_tokens": 80_000}).verdict is Verdict.LIKELY
    assert of(**{**old, **young}).verdict is Verdict.RULED_OUT


@pytest.mark.parametrize("past", [0, 1e9], ids=["young", "old"])
def test_one_reading_can_rule_eviction_out_and_nothing_more(past):
    found = of(**TURNING, readings=1, seconds=0, computed_before=past, generated_before=0)
    fits = of(**{**TURNING, "pool_tokens": 1e12}, readings=1, seconds=0, computed_before=past)
    assert found.verdict is Verdict.NO_DATA
    assert fits.verdict is Verdict.RULED_OUT


def test_a_block_stays_as_long_as_the_free_pool_takes_to_fill():
    kept = eviction.retention_seconds(case(**TURNING, usage=0.2))
    assert kept == pytest.approx(5_000 * 0.8 / ((70_000 + 4_000) / 30))


def test_without_anything_computed_a_block_stays_for_ever():
    assert eviction.retention_seconds(case(first_tokens=0, finished=0)) == math.inf


@pytest.mark.parametrize(
    ("pool", "verdict"),
    [
        pytest.param(74_000 / 0.7 - 10, Verdict.LIKELY, id="a block stays just under the window"),
        pytest.param(74_000 / 0.7 + 10, Verdict.RULED_OUT, id="just over the window"),
    ],
)
def test_a_block_that_stays_longer_than_the_window_is_not_lost_in_it(pool, verdict):
    assert of(**{**TURNING, "pool_tokens": pool}).verdict is verdict


@pytest.mark.parametrize(
    ("hits", "verdict"),
    [
        pytest.param(eviction.LOW_HITS * 1e5 - 1, Verdict.LIKELY, id="69.9% hit"),
        pytest.param(eviction.LOW_HITS * 1e5, Verdict.RULED_OUT, id="70% hit"),
    ],
)
def test_prompts_that_mostly_hit_are_not_robbed(hits, verdict):
    assert of(**{**TURNING, "hits": hits, "pool_tokens": 1_000}).verdict is verdict


@pytest.mark.parametrize(
    ("hit", "miss", "verdict"),
    [
        pytest.param(20, 180, Verdict.LIKELY, id="a tenth hit wholly"),
        pytest.param(19, 181, Verdict.POSSIBLE, id="fewer hit wholly"),
        pytest.param(179, 21, Verdict.LIKELY, id="a tenth miss wholly"),
        pytest.param(181, 19, Verdict.POSSIBLE, id="fewer miss wholly"),
    ],
)
def test_prompts_repeat_when_some_hit_wholly_and_some_not_at_all(hit, miss, verdict):
    assert eviction.MIXED == 0.1
    numbers = {**TURNING, "hits": 60_000, "computed_buckets": {200.0: hit, 500.0: miss}}
    assert of(**numbers).verdict is verdict


@pytest.mark.parametrize(
    ("bucket", "shares"),
    [
        pytest.param(200.0, (1.0, 0.0), id="two fifths of a prompt: hit"),
        pytest.param(500.0, (0.0, 1.0), id="wholly: missed"),
        pytest.param(250.0, (0.0, 0.0), id="half of it: neither"),
    ],
)
def test_a_request_hits_or_misses_by_what_was_computed_of_it(bucket, shares):
    assert (eviction.HIT_WHOLLY, eviction.MISS_WHOLLY) == (0.4, 0.6)
    assert eviction.hit_and_miss(case(**{**TURNING, "computed_buckets": {bucket: 200.0}})) == shares


@pytest.mark.parametrize(
    ("prefill", "verdict"),
    [
        pytest.param(0.01, Verdict.POSSIBLE, id="recomputing is small change"),
        pytest.param(0.4, Verdict.LIKELY, id="recomputing is a share of a request"),
    ],
)
def test_eviction_is_likely_only_where_it_costs_something(prefill, verdict):
    assert of(**{**TURNING, "prefill_mean": prefill}).verdict is verdict


@pytest.mark.parametrize(
    ("gap", "verdict"),
    [
        pytest.param(4.99, Verdict.POSSIBLE, id="evicted long after the usual reuse"),
        pytest.param(5.0, Verdict.LIKELY, id="reuse gap half of the idle time at eviction"),
    ],
)
def test_sampled_evictions_show_blocks_lost_before_their_next_use(gap, verdict):
    told = endpoint(**{**TURNING, "computed_buckets": {500.0: 200.0}})
    told.histogram("vllm:kv_block_reuse_gap_seconds", {5.0: 100.0}, 100 * gap)
    told.histogram("vllm:kv_block_idle_before_evict_seconds", {10.0: 100.0}, 1000.0)
    assert eviction.CLOSE == 0.5
    found = of(told)
    assert found.verdict is verdict
    assert bool(found.gaps) is (verdict is Verdict.POSSIBLE)


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        pytest.param({"pool_tokens": None}, Verdict.NO_DATA, id="no pool size"),
        pytest.param({"usage": None}, Verdict.NO_DATA, id="no usage"),
        pytest.param({"queries": 0, "hits": 0}, Verdict.RULED_OUT, id="nothing looked up"),
    ],
)
def test_what_is_missing(numbers, verdict):
    found = of(**{**TURNING, **numbers})
    assert found.verdict is verdict
    assert verdict is not Verdict.NO_DATA or found.gaps[0].cure
