"""Compute: prefill in TTFT, prefill beside decode, drafts that are not accepted."""

from __future__ import annotations

import pytest
from loads import case, case_of, endpoint, finding, recording

from kvdoctor.causes import compute
from kvdoctor.diagnose import diagnose
from kvdoctor.model import Confidence, Finding, Metric, Verdict
from kvdoctor.steps import prefill_share

GAPS = {"itl_buckets": {0.01: 3600.0, 0.5: 200.0}, "itl_sum": 3600 * 0.008 + 200 * 0.2}


def of(subclass: str, **numbers: object) -> Finding:
    return finding(compute.check(case(**numbers)), subclass)


# -- prefill -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefill", "verdict"),
    [
        pytest.param(compute.MAIN - 0.001, Verdict.RULED_OUT, id="under two fifths of TTFT"),
        pytest.param(compute.MAIN + 0.001, Verdict.LIKELY, id="over two fifths of TTFT"),
    ],
)
def test_prefill_is_named_when_it_is_the_main_part_of_ttft(prefill, verdict):
    found = of("prefill", ttft_mean=1.0, prefill_mean=prefill + 0.008, e2e_mean=1.2)
    assert found.verdict is verdict
    assert found.evidence[0].value == pytest.approx(prefill)


@pytest.mark.parametrize(
    ("outputs", "verdict"),
    [
        pytest.param(188, Verdict.LIKELY, id="over 5% of a request"),
        pytest.param(189, Verdict.RULED_OUT, id="under 5% of a request"),
    ],
)
def test_prefill_that_is_small_change_of_a_request_is_ruled_out(outputs, verdict):
    assert (0.08 / (0.1 + (outputs - 1) * 0.008) >= compute.COST) is (verdict is Verdict.LIKELY)
    assert of("prefill", prefill_mean=0.08 + 0.008, outputs=outputs, e2e_mean=1.0).verdict is verdict


def test_the_wait_for_a_step_that_is_full_of_prefill_is_prefills():
    alone = of("prefill", **GAPS, ttft_mean=0.3, prefill_mean=0.15).share_seconds
    busy = case(**GAPS, ttft_mean=0.3, prefill_mean=0.15)
    under_way = busy.ttft.part("step_under_way") * prefill_share(busy.traffic)
    assert under_way > 0
    assert alone == pytest.approx(busy.ttft.part("prefill") + under_way)


@pytest.mark.parametrize(
    ("busy", "queued"),
    [
        pytest.param(compute.PACES - 0.01, 0.0, id="under half of the time in prefill"),
        pytest.param(compute.PACES + 0.01, 0.4, id="over half of the time in prefill"),
    ],
)
def test_the_queue_before_steps_full_of_prefill_is_prefills(busy, queued):
    gaps = {"itl_buckets": {0.01: 2000.0, 0.5: 1800.0}, "itl_sum": 2000 * 0.008 + 1800 * 0.3}
    numbers = {**gaps, "ttft_mean": 1.0, "queue_mean": 0.4, "prefill_mean": busy * 30 / 200, "waiting": 2}
    found = of("prefill", **numbers)
    assert found.evidence[2].value == pytest.approx(queued * busy)


def test_without_a_first_token_there_is_no_prefill_to_judge():
    found = of("prefill", first_tokens=0, finished=0)
    assert (found.verdict, bool(found.gaps[0].cure)) == (Verdict.NO_DATA, True)


# -- interference (rule 12) --------------------------------------------------------------------------------


def part_of(share: float, **more: object) -> Finding:
    """Interference with so large a share of the mean ITL lost beside prefill."""
    seen = case(**GAPS)
    mean, batch = seen.itl.seconds, seen.traffic.decode_batch
    return of("interference", **{**GAPS, "prefill_mean": share * mean * 3800 / 200 / max(1, batch), **more})


@pytest.mark.parametrize(
    ("share", "verdict"),
    [
        pytest.param(compute.BESIDE - 0.001, Verdict.POSSIBLE, id="under a fifth of ITL"),
        pytest.param(compute.BESIDE + 0.001, Verdict.LIKELY, id="over a fifth of ITL"),
    ],
)
def test_prefill_in_the_steps_is_likely_from_a_fifth_of_itl(share, verdict):
    found = part_of(share)
    assert found.verdict is verdict
    assert found.metric is Metric.ITL
    assert found.evidence[0].value == pytest.approx(share * GAPS["itl_sum"] / 3800)


@pytest.mark.parametrize(
    ("share", "verdict"),
    [
        pytest.param(0.05, Verdict.RULED_OUT, id="under 5% of a request"),
        pytest.param(0.1, Verdict.POSSIBLE, id="over 5% of a request"),
    ],
)
def test_prefill_in_the_steps_that_is_small_change_is_ruled_out(share, verdict):
    request = 0.1 + 19 * GAPS["itl_sum"] / 3800
    cost = share * 19 * GAPS["itl_sum"] / 3800 / request
    assert (cost >= compute.COST) is (verdict is Verdict.POSSIBLE)
    assert part_of(share).verdict is verdict


@pytest.mark.parametrize(
    ("tail", "verdict"),
    [
        pytest.param(compute.TAIL_GAPS - 1, Verdict.RULED_OUT, id="four long gaps"),
        pytest.param(compute.TAIL_GAPS, Verdict.LIKELY, id="five"),
    ],
)
def test_a_tail_of_a_few_gaps_is_an_accident(tail, verdict):
    gaps = {"itl_buckets": {0.01: 3000.0, 5.0: float(tail)}, "itl_sum": 3000 * 0.008 + tail * 4.0}
    assert of("interference", **gaps, prefill_mean=1.0).verdict is verdict


def test_look_alike_a_tail_with_no_prompt_computed_is_no_interference():
    assert part_of(0.5).verdict is Verdict.LIKELY
    assert part_of(0.5, computed=0).verdict is Verdict.RULED_OUT


def test_look_alike_a_tail_that_preemption_explains_is_no_interference():
    assert of("interference", **GAPS, prefill_mean=0.5).verdict is Verdict.LIKELY
    stalled = of("interference", **GAPS, prefill_mean=0.5, preemptions=1800, waiting=90)
    assert stalled.verdict is Verdict.RULED_OUT


@pytest.mark.parametrize(
    ("busy", "elsewhere"),
    [
        pytest.param(compute.PACES - 0.01, True, id="under half of the time in prefill"),
        pytest.param(compute.PACES + 0.01, False, id="over half: elsewhere it would pace just as well"),
    ],
)
def test_prefill_elsewhere_is_advised_only_while_prefill_is_not_the_pace(busy, elsewhere):
    gaps = {"itl_buckets": {0.01: 2000.0, 0.5: 1800.0}, "itl_sum": 2000 * 0.008 + 1800 * 0.3}
    advice = of("interference", **gaps, prefill_mean=busy * 30 / 200).advice
    assert any("elsewhere" in each.do for each in advice) is elsewhere
    (chunks,) = (each for each in advice if "chunks" in each.do)
    assert chunks.gain_seconds is None


def test_without_a_gap_there_is_no_interference_to_judge():
    found = of("interference", outputs=1)
    assert (found.verdict, bool(found.gaps[0].cure)) == (Verdict.NO_DATA, True)


# -- speculation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accepted", "verdict"),
    [
        pytest.param(299, Verdict.POSSIBLE, id="29.9% accepted"),
        pytest.param(300, Verdict.RULED_OUT, id="30% accepted"),
    ],
)
def test_drafts_that_are_seldom_accepted_may_not_pay(accepted, verdict):
    assert compute.POOR_ACCEPT == 0.3
    told = endpoint()
    told.counter("vllm:spec_decode_num_drafts_total", 250)
    told.counter("vllm:spec_decode_num_draft_tokens_total", 1000)
    told.counter("vllm:spec_decode_num_accepted_tokens_total", accepted)
    found = finding(compute.check(case_of(told)), "speculation")
    assert found.verdict is verdict
    assert [e.value for e in found.evidence] == [accepted / 1000, 1 + accepted / 250]


def test_without_drafts_speculation_is_ruled_out_with_its_number():
    none = of("speculation")
    told = endpoint().counter("vllm:spec_decode_num_draft_tokens_total", 0)
    zero = finding(compute.check(case_of(told)), "speculation")
    assert {none.verdict, zero.verdict} == {Verdict.RULED_OUT}
    assert (none.evidence[0].value, zero.evidence[0].value) == (None, 0)


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        pytest.param({}, Verdict.POSSIBLE, id="loads that nobody counts"),
        pytest.param({"external": 74_000}, Verdict.LIKELY, id="less than three quarters from outside"),
        pytest.param({"waiting": 2, "deferred": 1}, Verdict.LIKELY, id="deferred while they load"),
    ],
)
def test_prefill_of_prompts_from_an_outer_tier_may_be_loading(numbers, verdict):
    loads = {"ttft_mean": 1.0, "prefill_mean": 0.9, "hits": 0, "external": 95_000, "external_hits": 95_000}
    found = finding(compute.check(case(**{**loads, **numbers})), "prefill")
    assert found.verdict is verdict
    assert bool(found.gaps) is (verdict is Verdict.POSSIBLE)


@pytest.mark.parametrize(("items", "told"), [(0, False), (90, True)], ids=["text alone", "with images"])
def test_multimodal_inputs_are_named_beside_the_prompts(items, told):
    page = endpoint(ttft_mean=2.5, prefill_mean=2.3, e2e_mean=2.7, hits=0)
    page.counter("vllm:mm_cache_queries_total", items, 500)
    found = diagnose(recording(page))
    prefill = finding(found.findings, "prefill")
    assert prefill.verdict is Verdict.LIKELY
    assert ("90 images, sounds or videos" in prefill.argument) is told
    assert (found.confidence is Confidence.LOW) is told
    assert ("the encoder of 90 multimodal inputs counts as prefill" in found.confidence_reasons) is told
