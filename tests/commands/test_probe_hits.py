"""What the `request` probe says where not everything went as planned: nothing hit, some hit, a miss hit, others ran."""

from __future__ import annotations

import json

import pytest

from kvdoctor.commands.probe_request import explained
from kvdoctor.render.probe_text import render

PROMPT = 945
INFO = "vllm:cache_config_info"


def counters(hits=0.0, queries=float(PROMPT), first=1.0, external=0.0):
    """What vLLM's counters rose by in a request."""
    return {
        "vllm:prefix_cache_hits_total": hits,
        "vllm:prefix_cache_queries_total": queries,
        "vllm:external_prefix_cache_hits_total": external,
        "vllm:time_to_first_token_seconds_count": first,
        "vllm:time_to_first_token_seconds_sum": 0.02 * first,
    }


def row(op, times, usage, each):
    names = sorted({name for one in each for name, rise in one.items() if rise})
    return {
        "op": op,
        "ttft_seconds": sorted(times)[len(times) // 2],
        "latency_seconds": None,
        "repeats": list(times),
        "prompt_tokens": PROMPT,
        "cached_tokens": list(usage),
        "counted": {name: sum(one.get(name, 0.0) for one in each) / len(each) for name in names},
        "counted_each": each,
        "conditions": {},
    }


HIT_S = (0.03, 0.04, 0.05)


def told(usage=(None,) * 3, each=None, miss=(None, None), fill=(0.19, 0), settings=None):
    """An explained result with three repeats; `miss` is its usage and counters, `fill` its TTFT and usage."""
    each = each or [counters()] * 3
    rows = [
        row("miss", [0.2], [miss[0]], [miss[1] or counters()]),
        row("fill", [fill[0]], [fill[1]], [counters(hits=float(fill[1] or 0))]),
        row("hit", HIT_S, usage, each),
    ]
    asked = {"probe": "request", "measures": "m", "device": "d", "rows": rows, "settings": settings or {}}
    return explained(asked)


HIT, MISSED, BUSY = counters(hits=896.0), counters(), counters(hits=896.0, queries=3000.0, first=3.0)
OTHER_MISS = counters(queries=3000.0, first=3.0)
ELSEWHERE, NONE = counters(queries=0.0, first=0.0), {}


@pytest.mark.parametrize(
    ("usage", "each", "outcome", "saved"),
    [
        ((896,) * 3, [HIT] * 3, "all", 0.15),
        ((None,) * 3, [HIT] * 3, "all", 0.15),
        ((896,) * 3, [NONE] * 3, "all", 0.15),
        ((896,) * 3, [MISSED] * 3, "all", 0.15),
        ((896,) * 3, [ELSEWHERE] * 3, "all", 0.15),
        ((896,) * 3, [BUSY] * 3, "all", 0.15),
        ((None,) * 3, [counters(external=896.0)] * 3, "all", 0.15),
        ((0,) * 3, [MISSED] * 3, "none", None),
        ((None,) * 3, [MISSED] * 3, "none", None),
        ((0,) * 3, [NONE] * 3, "none", None),
        ((0,) * 3, [BUSY] * 3, "none", None),
        ((None,) * 3, [OTHER_MISS] * 3, "none", None),
        ((1,) * 3, [NONE] * 3, "none", None),
        ((None,) * 3, [BUSY] * 3, "unknown", None),
        ((None,) * 3, [NONE] * 3, "unknown", None),
        ((None,) * 3, [ELSEWHERE] * 3, "unknown", None),
        ((0,) * 3, [HIT] * 3, "unknown", None),
        ((0, 896, 896), [MISSED, HIT, HIT], "some", 0.145),
        ((None,) * 3, [HIT, MISSED, MISSED], "some", 0.16),
        ((None,) * 3, [HIT, BUSY, HIT], "some", 0.15),
    ],
)
def test_what_the_repeats_came_to_and_what_they_saved(usage, each, outcome, saved):
    """TTFT of a miss 190 ms, as `fill` missed too; of the repeats 30, 40 and 50 ms."""
    found = told(usage, each)
    assert found["answer"]["outcome"] == outcome
    assert found["saved_seconds"] == (pytest.approx(saved) if saved is not None else None)
    assert found["answer"]["saved_share"] == (pytest.approx(saved / 0.19) if saved is not None else None)
    text = " ".join(render([found]).split())
    assert ("The hit saved" in text) is (saved is not None)
    if saved is None:
        (gap,) = found["gaps"]
        assert gap["source"] == "what a hit saves"
        assert gap["reason"] in text
        assert gap["cure"]
        assert "no saving follows from that" in text


def why(**more):
    (gap,) = told(**more)["gaps"]
    return gap["reason"], gap["cure"]


OFF, BIG, BLOCK = (
    {INFO: labels} for labels in ({"enable_prefix_caching": "False"}, {"block_size": "1024"}, {})
)


@pytest.mark.parametrize(
    ("each", "settings", "reason", "cure"),
    [
        ([counters(queries=0.0)] * 3, OFF, "prefix caching is off at this engine", "--enable-prefix-caching"),
        ([MISSED] * 3, BIG, "945 tokens are no more than a block of 1,024", "of more than 1,024 tokens"),
        (
            [MISSED] * 3,
            {INFO: {"block_size": "945"}},
            "no more than a block of 945",
            "of more than 945 tokens",
        ),
        ([MISSED] * 3, {INFO: {"block_size": "944"}}, "nothing tells why: it was evicted", "one replica"),
        ([counters(queries=0.0)] * 3, BLOCK, "looks nothing up in a prefix cache", "--enable-prefix-caching"),
        ([OTHER_MISS] * 3, BLOCK, "other requests ran meanwhile and may have evicted it", "a quiet moment"),
    ],
)
def test_why_nothing_hit_is_told_where_it_is_known(each, settings, reason, cure):
    said = why(each=each, settings=settings)
    assert reason in said[0]
    assert cure in said[1]


@pytest.mark.parametrize(
    ("usage", "each", "reason"),
    [
        ((0,) * 3, [HIT] * 3, "usage says that nothing hit, and the engine's counters that something did"),
        ((None,) * 3, [BUSY] * 3, "the engine's counters hold the hits of others too"),
        ((None,) * 3, [ELSEWHERE] * 3, "the counters are of an engine that answered none of it"),
        ((None,) * 3, [NONE] * 3, "neither the server's usage nor a counter says what hit"),
        ((896,) * 3, [MISSED] * 3, "usage tells of hits, and the counters of none"),
        ((896,) * 3, [ELSEWHERE] * 3, "only usage tells of hits"),
        ((0, 896, 896), [MISSED, HIT, HIT], "1 found nothing (evicted meanwhile, or answered by another"),
        ((None,) * 3, [HIT, BUSY, HIT], "of 1 nobody tells"),
    ],
)
def test_usage_and_counters_that_differ_or_say_nothing_are_a_gap(usage, each, reason):
    assert reason in why(usage=usage, each=each)[0]


@pytest.mark.parametrize("miss", [(880, None), (None, HIT), (880, BUSY)])
def test_a_miss_that_hit_leaves_nothing_to_hold_the_hits_against(miss):
    found = told((896,) * 3, [HIT] * 3, miss=miss)
    assert (found["answer"]["outcome"], found["saved_seconds"]) == ("miss hit", None)
    assert "There was no miss: the first request hit too." in " ".join(render([found]).split())
    assert "of a text that the engine has not seen" in found["gaps"][0]["cure"]


def test_the_tokens_that_any_two_prompts_share_make_no_miss_a_hit():
    assert told((940,) * 3, [NONE] * 3, miss=(15, NONE))["answer"]["outcome"] == "all"
    assert told((940,) * 3, [NONE] * 3, miss=(16, NONE))["answer"]["outcome"] == "miss hit"


def test_the_parts_are_those_of_the_repeats_that_hit():
    found = told((0, 896, 896), [MISSED, HIT, HIT])["answer"]
    assert sum(part["seconds"] for part in found["parts"]) == pytest.approx((0.04 + 0.05) / 2)
    assert (found["requests"], found["requests_that_hit"], found["cached_tokens"]) == (3, 2, 896.0)


def test_a_first_request_that_is_slow_for_other_reasons_saves_nothing_more():
    assert told((896,) * 3, fill=(0.06, 0))["saved_seconds"] == pytest.approx(0.02)
    assert told((896,) * 3, fill=(0.06, 896))["saved_seconds"] == pytest.approx(0.16)


def test_what_the_child_told_for_this_alone_is_in_no_result():
    text = json.dumps(told(settings=OFF))
    assert "counted_each" not in text
    assert "settings" not in text
