"""How full the steps are of prompts, by whatever an engine tells of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from loads import Page, case, finding
from otherpages import Served, sglang, tgi, trt
from readings import judged

from kvdoctor.case import Case
from kvdoctor.engines import sglang as engine
from kvdoctor.engines import tgi as tgi_engine
from kvdoctor.judged import judge_source
from kvdoctor.model import Verdict
from kvdoctor.steps import (
    FEW_TOKENS,
    MOST_STEPS,
    RIDGE_TOKENS,
    computes_little,
    mixed_share,
    prefill_share,
    prefilling,
    small_steps,
)
from kvdoctor.traffic import Traffic


def answer(page: Page) -> str:
    found = judged(page)
    return "/".join(filter(None, (found.primary_name, found.subclass)))


def judged_case(page: Page) -> Case:
    found = judge_source(page.source(), engine.ENGINE, {})
    assert found is not None
    return found.case


def traffic(**numbers: object) -> Traffic:
    return case(**numbers).traffic


def test_time_in_prefill_is_the_smaller_of_two_bounds():
    even = traffic(prefill_mean=1.0)
    assert prefill_share(even) == 0.0
    gaps = {0.01: 3000, 0.5: 800}
    stretched = traffic(itl_buckets=gaps, itl_sum=3000 * 0.008 + 800 * 0.4, prefill_mean=0.03)
    assert prefill_share(stretched) == pytest.approx(200 * 0.03 / 30)


def test_time_in_prefill_is_never_more_than_all_of_it():
    gaps = {0.01: 3000, 5.0: 800}
    assert prefill_share(traffic(itl_buckets=gaps, itl_sum=3000, prefill_mean=100)) <= 1.0


@pytest.mark.parametrize(
    ("buckets", "share"),
    [
        pytest.param({RIDGE_TOKENS: 501, 512.0: 499}, 0.0, id="under half of the steps are full"),
        pytest.param({RIDGE_TOKENS: 500, 512.0: 500}, 0.9, id="half of the steps are full"),
        pytest.param({RIDGE_TOKENS: 1000}, 0.0, id="none is"),
    ],
)
def test_in_full_steps_prompt_tokens_have_their_share(buckets, share):
    assert MOST_STEPS == 0.5
    seen = traffic(step_buckets=buckets, computed=36_000)
    assert mixed_share(seen) == share
    assert prefill_share(seen) == share


FULL = Served(prompt=6000, computed=6000, ttft=18.0, queue=17.5, prefill=0.3, gap=0.1, e2e=28.0, running=64,
              waiting=120, usage=0.97)  # fmt: skip
SHORT = replace(FULL, computed=300, prefill=0.02, gap=0.01)


@pytest.mark.parametrize("page", [sglang, trt, tgi])
def test_a_pool_that_fills_up_behind_full_steps_is_a_symptom(page):
    busy = replace(FULL, prefill=0.11, gap=0.002) if page is tgi else FULL
    assert answer(page(busy)) == "compute/prefill"
    assert answer(page(SHORT)) == "capacity/admission"


def test_without_a_count_of_hits_a_full_pool_may_be_a_symptom():
    found = judged(sglang(FULL, hits=False))
    assert found.primary_name == "insufficient_evidence"
    assert "full of prompts" in finding(found.findings, "admission").argument


@pytest.mark.parametrize(
    ("gap", "running", "share"),
    [
        pytest.param(0.1, 64, 6000 / 6100, id="two budgets of tokens a step"),
        pytest.param(0.04, 64, 0.0, id="under one, and nothing tells who is in prefill"),
        pytest.param(0.04, 96, 6000 / 6100, id="a third of the running do not decode"),
        pytest.param(0.01, 96, 0.0, id="few tokens a step"),
    ],
)
def test_steps_are_full_by_the_tokens_of_a_usual_gap(gap, running, share):
    """240 requests with 6,000 new tokens each in 30 s: 48,800 tokens a second."""
    number = 240 * 99 * gap / 30
    served = replace(FULL, gap=gap, running=number * running / 64)
    seen = judged_case(sglang(served)).traffic
    assert mixed_share(seen) == pytest.approx(share)


def test_a_tail_that_holds_what_the_prompts_take_leaves_the_usual_step_alone():
    page = sglang(replace(FULL, running=300))
    del page.columns[-4:]
    gaps = 240 * 99
    page.histogram(
        "sglang:inter_token_latency_seconds",
        {0.04: 0.9 * gaps, 0.5: 0, 1.0: 0.1 * gaps},
        (0.027 + 0.09) * gaps,
    )
    assert mixed_share(judged_case(page).traffic) == 0.0


@pytest.mark.parametrize(
    ("numbers", "waiting"),
    [
        pytest.param({"prefill_mean": 0.3}, 2.0, id="by its own clock"),
        pytest.param({"prefill_mean": 0.3, "seconds": 0, "readings": 1}, None, id="no window"),
    ],
)
def test_requests_in_prefill_at_a_time(numbers, waiting):
    assert prefilling(traffic(**numbers)) == (None if waiting is None else pytest.approx(waiting))


@pytest.mark.parametrize(
    ("computed", "share"),
    [
        pytest.param(4100, 4100 / 8100, id="most are of prompts"),
        pytest.param(3900, 0.0, id="most are of outputs"),
    ],
)
def test_a_batch_of_many_sequences_fills_steps_as_well(computed, share):
    """4,000 outputs in steps of over 256 tokens: their time goes with the KV that they read."""
    assert mixed_share(traffic(step_buckets={512.0: 1000.0}, computed=computed)) == share


@pytest.mark.parametrize(
    ("step", "share"), [(0.001, 0.8), (0.003, 0.7), (0.01, 0.0)], ids=["3 s of 30 s in decode", "9 s", "all"]
)
def test_batches_one_after_the_other_share_the_time(step, share):
    """TGI: 240 batches of 0.1 s in prefill, 3,000 steps in decode."""
    found = judge_source(tgi(Served(prefill=0.1, gap=step)).source(), tgi_engine.ENGINE, {})
    assert prefill_share(found.case.traffic) == pytest.approx(share)


@pytest.mark.parametrize(
    ("prompt", "step", "small"),
    [(20, 8, True), (FEW_TOKENS, 8, False), (20, FEW_TOKENS, False), (500, 8, False)],
)
def test_steps_are_small_only_where_prompts_are(prompt, step, small):
    assert small_steps(traffic(prompt=prompt, step_tokens=step)) is small


@pytest.mark.parametrize(
    ("numbers", "little"),
    [
        # 240 requests in 30 s that wait 0.5 s each: four in prefill at a time. 23,760 gaps of 10 ms are 2,970 steps
        # of 8 sequences, so that 200 computed tokens of each prompt are 16 a step.
        pytest.param({}, True, id="sixteen prompt tokens a step, and always four prompts"),
        pytest.param({"ttft": 0.1}, False, id="somebody in prefill eight tenths of the time"),
        pytest.param({"gap": 0.062, "outputs": 20}, True, id="99 tokens a step, of prompts of 200"),
        pytest.param({"gap": 0.064, "outputs": 20}, False, id="102 tokens a step: half of a prompt"),
    ],
)
def test_a_wait_is_no_prefill_where_the_steps_hold_less_than_a_prompt(numbers, little):
    found = judged_case(with_queue(sglang(Served(**{"ttft": 0.5, "e2e": 2.0, **numbers})))).traffic
    assert computes_little(found) is little


def with_queue(page):
    """Let the queue's clock be told, as SGLang does from 0.4.7 on: 5 ms each."""
    page.histogram("sglang:queue_time_seconds", {0.01: 240}, 240 * 0.005)
    return page


def test_what_no_step_computes_is_not_said_to_be_prefill():
    found = finding(judged(with_queue(sglang(Served(ttft=3.0, e2e=4.0)))).findings, "prefill")
    assert found.verdict is Verdict.POSSIBLE
    assert found.gaps[0].source == "front end"
