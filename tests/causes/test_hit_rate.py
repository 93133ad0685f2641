"""Hit rate: likely only with a witness that counters alone do not give."""

from __future__ import annotations

import pytest
from loads import case, case_of, endpoint, finding
from spellings import old

from kvdoctor.causes import fell, hit_rate
from kvdoctor.model import Finding, Metric, Verdict

# 200 prompts of 500 tokens, none of which hits: 0.4 s of 0.5 s TTFT is prefill.
# The hour before the window had the same load.
COLD = {"hits": 0, "ttft_mean": 0.5, "prefill_mean": 0.408, "before": 119, "computed_before": 119e5}
REQUEST = 0.5 + 19 * 0.008


def of(subclass: str, **numbers: object) -> Finding:
    return finding(hit_rate.check(case(**{**COLD, **numbers})), subclass)


def verdicts(**numbers: object) -> dict[str, Verdict]:
    return {f.subclass: f.verdict for f in hit_rate.check(case(**{**COLD, **numbers}))}


# -- look-alikes: a salted prefix, caching off, a fall -----------------------------------------------------


def test_counters_cannot_tell_a_salted_prefix_from_new_prompts():
    assert verdicts() == {
        "disabled": Verdict.RULED_OUT,
        "fell": Verdict.NO_DATA,
        "promised_not_delivered": Verdict.RULED_OUT,
        "short_prefix": Verdict.RULED_OUT,
        "prefix_mismatch": Verdict.POSSIBLE,
    }


def test_caching_that_is_off_differs_in_a_label_and_in_what_was_looked_up():
    assert verdicts(caching="False", queries=0)["disabled"] is Verdict.LIKELY
    assert verdicts(caching="False", queries=0)["prefix_mismatch"] is Verdict.NO_DATA


def test_a_fall_differs_in_the_past_only():
    past = {"queries_before": 1e6, "hits_before": 8e5}
    assert verdicts(**past)["fell"] is Verdict.LIKELY
    assert verdicts(queries_before=1e6, hits_before=0)["fell"] is Verdict.RULED_OUT


# -- disabled ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caching", "queries", "verdict"),
    [
        pytest.param("False", 0, Verdict.LIKELY, id="label says off"),
        pytest.param("True", 0, Verdict.RULED_OUT, id="label says on, nothing looked up"),
        pytest.param("True", None, Verdict.RULED_OUT, id="label says on"),
        pytest.param(None, None, Verdict.RULED_OUT, id="no label, tokens looked up"),
        pytest.param(None, 0, Verdict.NO_DATA, id="no label, nothing looked up"),
    ],
)
def test_caching_is_off_when_the_configuration_says_so(caching, queries, verdict):
    found = of("disabled", caching=caching, queries=queries)
    assert found.verdict is verdict
    assert found.evidence


@pytest.mark.parametrize(
    ("prefill", "verdict"),
    [
        pytest.param(0.05 * REQUEST + 0.008 - 1e-4, Verdict.POSSIBLE, id="prefill under 5% of a request"),
        pytest.param(0.05 * REQUEST + 0.008 + 1e-4, Verdict.LIKELY, id="prefill over 5% of a request"),
    ],
)
def test_caching_that_is_off_matters_where_prefill_does(prefill, verdict):
    # 0.4 s of front end and no step under way: the ITL is that of the load above.
    found = of("disabled", caching="False", queries=0, prefill_mean=prefill)
    assert found.verdict is verdict


# -- fell --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queries", "hits", "now", "verdict"),
    [
        pytest.param(9_999, 9_000, 0, Verdict.NO_DATA, id="too short a past"),
        pytest.param(10_000, 9_000, 0, Verdict.LIKELY, id="just enough of a past"),
        pytest.param(1e6, 0.5e6, 0.301, Verdict.RULED_OUT, id="fell by under 0.2"),
        pytest.param(1e6, 0.5e6, 0.299, Verdict.LIKELY, id="fell by over 0.2, to under 0.7 of it"),
        pytest.param(1e6, 0.9e6, 0.631, Verdict.RULED_OUT, id="fell by 0.27, to over 0.7 of it"),
        pytest.param(1e6, 0.9e6, 0.629, Verdict.LIKELY, id="fell to under 0.7 of it"),
        pytest.param(1e6, 0.0, 0.5, Verdict.RULED_OUT, id="rose"),
    ],
)
def test_a_fall_is_one_against_this_servers_own_past(queries, hits, now, verdict):
    assert (fell.PAST_TOKENS, fell.FELL_BY, fell.FELL_TO) == (10_000, 0.2, 0.7)
    found = of("fell", queries_before=queries, hits_before=hits, hits=now * 1e5)
    assert found.verdict is verdict


def test_a_fall_costs_the_tokens_that_no_longer_hit():
    found = of("fell", queries_before=1e6, hits_before=8e5, hits=2e4)
    assert found.share_seconds == pytest.approx(0.4 * 0.6 / 0.8, rel=0.02)
    assert found.metric is Metric.TTFT
    assert "80%" in found.argument
    assert "20%" in found.argument


def test_a_fall_that_costs_little_is_only_possible():
    assert of("fell", queries_before=1e6, hits_before=8e5, prefill_mean=0.02).verdict is Verdict.POSSIBLE


def rates(first: float, second: float, third: float) -> list[float]:
    """Hits at 31 readings, over thirds of a window in which each looks up 33,333 tokens."""
    hits, seen = [0.0], 0.0
    for i in range(30):
        seen += (first, second, third)[min(2, i // 10)] * 1e5 / 30
        hits.append(seen)
    return hits


@pytest.mark.parametrize(
    ("course", "verdict"),
    [
        pytest.param((0.9, 0.9, 0.1), Verdict.LIKELY, id="fell in the last third"),
        pytest.param((0.1, 0.9, 0.2), Verdict.LIKELY, id="from the best third"),
        pytest.param((0.9, 0.9, 0.75), Verdict.NO_DATA, id="hardly fell"),
        pytest.param((0.1, 0.5, 0.9), Verdict.NO_DATA, id="rises"),
    ],
)
def test_a_fall_within_the_window_needs_no_past(course, verdict):
    told = endpoint(**COLD)
    told.columns = [c for c in told.columns if c.name != "vllm:prefix_cache_hits_total"]
    told.series("vllm:prefix_cache_hits_total", rates(*course), "counter")
    assert finding(hit_rate.check(case_of(told)), "fell").verdict is verdict


@pytest.mark.parametrize(
    ("readings", "prompt", "rates_"),
    [
        pytest.param(6, 500, None, id="too few readings"),
        pytest.param(7, 500, (0.0, 0.0), id="just enough"),
        pytest.param(31, 49.9, None, id="too few tokens a third"),
        pytest.param(31, 50.1, (0.0, 0.0), id="enough tokens a third"),
    ],
)
def test_a_third_of_a_window_needs_readings_and_tokens(readings, prompt, rates_):
    assert fell.within_rates(case(**COLD, readings=readings, prompt=prompt)) == rates_


def test_a_text_cut_at_the_last_reading_is_no_fall():
    told = endpoint(**{**COLD, "hits": 90_000}, queries_before=1e6, hits_before=9e5)
    for column in told.columns:
        if column.name == "vllm:prefix_cache_hits_total":
            column.value[-1] = float("nan")
    assert finding(hit_rate.check(case_of(told)), "fell").verdict is Verdict.RULED_OUT


FALLEN = {"queries_before": 1e6, "hits_before": 8e5}


@pytest.mark.parametrize(
    ("numbers", "verdict", "words"),
    [
        pytest.param({"prompt": 624}, Verdict.LIKELY, "their front has changed", id="prompts under a quarter longer"),
        pytest.param({"prompt": 626}, Verdict.POSSIBLE, "prompts of 626 tokens came where 500", id="over"),
        pytest.param({"prompt": 399}, Verdict.POSSIBLE, "prompts of 399 tokens", id="a fifth shorter"),
        pytest.param({"computed_buckets": {100.0: 19.0, 500.0: 181.0}}, Verdict.LIKELY, "front", id="few still hit"),
        pytest.param(
            {"computed_buckets": {100.0: 21.0, 500.0: 179.0}}, Verdict.POSSIBLE, "10% of the requests still hit",
            id="a tenth still hits",
        ),
        pytest.param({"first_tokens": 80, "before": 297.5}, Verdict.POSSIBLE, "run at a time", id="a smaller load"),
    ],
)  # fmt: skip
def test_prompts_that_look_other_than_those_before_may_be_new(numbers, verdict, words):
    found = of("fell", **{**FALLEN, **numbers})
    assert (found.verdict, words in found.argument) == (verdict, True)
    assert ("the prompts are new" in found.argument) is (verdict is Verdict.POSSIBLE)


@pytest.mark.parametrize(("requests", "gap"), [(200, "prompts"), (101, "prompts"), (99, "load")])
def test_a_fall_is_never_sure_by_counters_alone(requests, gap):
    """Of 200 requests in 30 s before; how many ran at a time is not told."""
    page = endpoint(**{**COLD, **FALLEN, "first_tokens": requests, "before": 119 * 200 / requests})
    page.columns = [c for c in page.columns if "e2e" not in c.name]
    found = finding(hit_rate.check(case_of(page)), "fell")
    assert found.verdict is Verdict.LIKELY
    assert [g.source for g in found.gaps] == [gap]


# -- promised, not delivered -------------------------------------------------------------------------------

EXTERNAL = {"external_hits": 50_000, "running": 0, "waiting": 0}


@pytest.mark.parametrize(
    ("delivered", "verdict"),
    [
        pytest.param(50_000, Verdict.RULED_OUT, id="all came"),
        pytest.param(45_001, Verdict.RULED_OUT, id="under a tenth missing"),
        pytest.param(44_999, Verdict.LIKELY, id="over a tenth missing"),
        pytest.param(0, Verdict.LIKELY, id="none came"),
    ],
)
def test_promised_tokens_that_do_not_come_are_a_lost_hit(delivered, verdict):
    assert hit_rate.LOST == 0.1
    found = of("promised_not_delivered", **EXTERNAL, external=delivered)
    assert found.verdict is verdict
    assert [e.value for e in found.evidence][:2] == [50_000, delivered]


@pytest.mark.parametrize(
    ("running", "verdict"), [(9, Verdict.LIKELY), (11, Verdict.RULED_OUT)], ids=["few", "many"]
)
def test_tokens_of_requests_on_their_way_are_not_missing(running, verdict):
    # 250 promised tokens a request: 11 at either end may account for 5,500 of 10,000 missing ones.
    found = of("promised_not_delivered", **{**EXTERNAL, "running": running}, external=40_000)
    assert found.verdict is verdict


@pytest.mark.parametrize(
    ("promised", "verdict"),
    [(0, Verdict.RULED_OUT), (None, Verdict.NO_DATA)],
    ids=["no promise", "no counters"],
)
def test_without_a_promise_nothing_is_lost(promised, verdict):
    told = endpoint(**COLD)
    told = old(told) if promised is None else told
    found = finding(hit_rate.check(case_of(told)), "promised_not_delivered")
    assert found.verdict is verdict


# -- short prompts, mismatched prompts ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "hits", "verdict"),
    [
        pytest.param(33, 0, Verdict.RULED_OUT, id="over two blocks"),
        pytest.param(32, 0, Verdict.POSSIBLE, id="two blocks"),
        pytest.param(32, 16, Verdict.RULED_OUT, id="two blocks, and something hit"),
    ],
)
def test_a_prompt_of_hardly_a_block_cannot_hit(prompt, hits, verdict):
    assert of("short_prefix", prompt=prompt, hits=hits).verdict is verdict


def test_short_prompts_that_cost_nothing_are_ruled_out():
    assert of("short_prefix", prompt=20, prefill_mean=0.01).verdict is Verdict.RULED_OUT


@pytest.mark.parametrize(
    ("hits", "prefill", "verdict"),
    [
        pytest.param(0.499, 0.408, Verdict.POSSIBLE, id="under half hit"),
        pytest.param(0.5, 0.408, Verdict.RULED_OUT, id="half hit"),
        pytest.param(0.0, 0.02, Verdict.RULED_OUT, id="prefill is small change"),
        pytest.param(0.0, 0.0, Verdict.RULED_OUT, id="no prefill at all"),
    ],
)
def test_a_mismatch_is_possible_where_few_hit_and_prefill_costs(hits, prefill, verdict):
    assert hit_rate.LOW == 0.5
    found = of("prefix_mismatch", hits=hits * 1e5, prefill_mean=prefill)
    assert found.verdict is verdict
    if verdict is Verdict.POSSIBLE:
        assert "0 to" in found.argument
        assert found.gaps[0].cure


def test_zero_queries_are_undefined_and_not_zero_percent():
    found = of("prefix_mismatch", queries=0)
    assert (found.verdict, found.evidence[0].value) == (Verdict.NO_DATA, None)
    assert "0%" not in found.argument
