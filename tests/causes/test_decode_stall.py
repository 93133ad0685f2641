"""Decode stalls: blocks of running sequences lie in an outer tier, and their steps wait for them."""

from __future__ import annotations

import pytest
from loads import Page, case_of, endpoint

from kvdoctor.causes import compute, decode_stall
from kvdoctor.ledger import KV_STALL, STALL
from kvdoctor.machine import Machine
from kvdoctor.model import Metric, Verdict
from kvdoctor.roofline.config import shape_from_config

# 3,800 gaps, of which 200 wait a quarter of a second: 13 ms of the mean.
STUTTER = {"itl_buckets": {0.01: 3600, 0.3: 200}, "itl_sum": 3600 * 0.008 + 200 * 0.258, "e2e_mean": 0.5}
LOST = 200 * 0.25 / 3800
SHAPE = shape_from_config(
    {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 128,
        "vocab_size": 512,
        "dtype": "float32",
    }
)
TOKEN_BYTES = 2 * 2 * 2 * 16 * 4


def stuttering(*, seconds: float = 40.0, size: float = 1e9, **more) -> Page:
    """A service whose ITL stutters while an outer tier loads for `seconds` in all."""
    told = endpoint(**{**STUTTER, **more})
    told.counter("vllm:kv_offload_load_bytes_total", size)
    return told.counter("vllm:kv_offload_load_time_total", seconds)


def of(told: Page, **more):
    (found,) = decode_stall.check(case_of(told, **more))
    return found


def test_loads_that_no_prompt_asked_for_are_named_with_their_share_of_the_itl():
    found = of(stuttering())
    assert (found.verdict, found.subclass, found.metric) == (Verdict.LIKELY, "decode_stall", Metric.ITL)
    assert found.evidence[0].value == pytest.approx(LOST, rel=0.1)
    assert found.share_seconds == pytest.approx(19 * LOST, rel=0.1)


def test_what_waits_for_loads_is_no_prefill_beside_decode():
    case = case_of(stuttering())
    beside = next(f for f in compute.check(case) if f.subclass == "interference")
    assert beside.verdict is Verdict.RULED_OUT
    assert sum(part.seconds for part in case.itl.top()) == pytest.approx(case.itl.seconds)


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        # The mean ITL is 21 ms and a batch of 2.7 waits: 0.2 x 21 ms x 3,800 gaps are 6 s of loads.
        pytest.param(5.5, Verdict.POSSIBLE, id="just under a fifth of the ITL"),
        pytest.param(6.5, Verdict.LIKELY, id="just over it"),
        pytest.param(0.5, Verdict.RULED_OUT, id="under a twentieth of a request"),
    ],
)
def test_a_stall_is_no_longer_than_the_loads(seconds, verdict):
    assert of(stuttering(seconds=seconds)).verdict is verdict


def test_look_alike_loads_for_prompts_leave_decode_alone():
    told = stuttering(external_hits=200 * 400, external=200 * 400)
    assert of(told).verdict is Verdict.RULED_OUT


@pytest.mark.parametrize(
    ("tokens", "verdict"),
    [
        pytest.param(0.1, Verdict.LIKELY, id="a tenth of the bytes were prompts"),
        pytest.param(1.0, Verdict.RULED_OUT, id="all of them were"),
    ],
)
def test_with_the_models_shape_the_bytes_of_prompts_are_taken_off(tokens, verdict):
    size = 1e9
    told = stuttering(
        external_hits=tokens * size / TOKEN_BYTES, external=tokens * size / TOKEN_BYTES, size=size
    )
    assert of(told, machine=Machine(shape=SHAPE)).verdict is verdict


def test_an_even_itl_waits_for_nothing_however_much_is_loaded():
    even = {"itl_buckets": {0.01: 3800}, "itl_sum": 3800 * 0.008}
    assert of(stuttering(**even)).verdict is Verdict.RULED_OUT


def test_a_stall_after_preemption_is_counted_once():
    case = case_of(stuttering(preemptions=50, waiting=1))
    assert case.itl.part(STALL) > 0
    assert case.itl.part(STALL) + case.itl.part(KV_STALL) <= LOST * 1.05


def test_without_a_tier_there_is_no_data():
    found = of(endpoint())
    assert (found.verdict, bool(found.gaps[0].cure)) == (Verdict.NO_DATA, True)
