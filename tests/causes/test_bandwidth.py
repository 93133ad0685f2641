"""Bandwidth: likely only by the fewest bytes that a step must read."""

from __future__ import annotations

import pytest
from loads import case, load
from modelconfigs import LLAMA_8B

from kvdoctor.causes import bandwidth
from kvdoctor.diagnose import diagnose
from kvdoctor.machine import Machine, machine
from kvdoctor.model import Bound, Finding, Verdict
from kvdoctor.roofline.measured import Measured

KNOWN = machine({"model_config": LLAMA_8B}, None)

# 40 sequences of 2,000 tokens in decode: the pool of 100,000 tokens pins 80,000 of them when nothing is shared.
BUSY = {"prompt": 1990, "outputs": 21, "first_tokens": 1500, "itl_mean": 0.04, "usage": 0.8}


def at(ceiling: float) -> Machine:
    return Machine(shape=KNOWN.shape, bandwidth=ceiling, bandwidth_basis="told")


def of(ceiling: float | None, **numbers: object) -> Finding:
    (found,) = bandwidth.check(case(machine=at(ceiling), **{**BUSY, **numbers}))
    return found


def rates(**numbers: object) -> tuple[float, float]:
    """Least and most bytes/s that the step reads."""
    seen = case(machine=at(1e12), **{**BUSY, **numbers})
    reads = bandwidth.read_range(seen)
    step = bandwidth.steady_step(seen)
    return (reads[0] + reads[2]) / step, (reads[1] + reads[3]) / step


LOW, HIGH = rates()
SHARED_LOW, SHARED_HIGH = rates(usage=0.05)


def test_forty_sequences_are_in_decode():
    assert case(**BUSY).traffic.decode_batch == pytest.approx(40)
    assert case(**BUSY).traffic.context == pytest.approx(2000.5)


@pytest.mark.parametrize(
    ("ceiling", "verdict"),
    [
        pytest.param(LOW / bandwidth.NEAR * 0.999, Verdict.LIKELY, id="just over 0.6 of the ceiling"),
        pytest.param(LOW / bandwidth.NEAR * 1.001, Verdict.POSSIBLE, id="just under 0.6 of the ceiling"),
        pytest.param(HIGH / bandwidth.FAR * 0.999, Verdict.POSSIBLE, id="just over 0.4 of the ceiling"),
        pytest.param(HIGH / bandwidth.FAR * 1.001, Verdict.RULED_OUT, id="just under 0.4 of the ceiling"),
        pytest.param(LOW / bandwidth.IMPOSSIBLE * 1.001, Verdict.LIKELY, id="just under 1.05 of the ceiling"),
        pytest.param(
            LOW / bandwidth.IMPOSSIBLE * 0.999, Verdict.POSSIBLE, id="over the ceiling: an input is wrong"
        ),
    ],
)
def test_a_step_is_held_against_the_ceiling(ceiling, verdict):
    found = of(ceiling)
    assert found.verdict is verdict
    assert [e.value for e in found.evidence][:3] == [pytest.approx(LOW), pytest.approx(HIGH), ceiling]


def test_what_is_over_the_ceiling_costs_nothing_and_says_why():
    found = of(LOW / 2)
    assert (found.share_seconds, found.advice) == (0.0, ())
    assert "not as told" in found.argument


def test_shared_pages_count_once_at_the_low_end_and_for_each_sequence_at_the_high_end():
    assert pytest.approx(HIGH) == SHARED_HIGH
    assert SHARED_LOW < LOW
    ceiling = LOW / bandwidth.NEAR * 0.999
    assert of(ceiling).verdict is Verdict.LIKELY
    assert of(ceiling, usage=0.05).verdict is Verdict.POSSIBLE


def test_pages_are_never_counted_more_often_than_there_are_readers():
    assert rates(usage=1.0)[0] <= HIGH


@pytest.mark.parametrize("numbers", [{"usage": None}, {"pool_tokens": None}], ids=["no usage", "no pool"])
def test_without_a_pool_each_sequence_reads_its_own(numbers):
    assert rates(**numbers)[0] == pytest.approx(HIGH)


@pytest.mark.parametrize(
    ("prompt", "subclass"), [(500, "weights"), (30_000, "kv_reads")], ids=["short context", "long context"]
)
def test_the_larger_part_of_the_reads_is_named(prompt, subclass):
    numbers = {"prompt": prompt, "pool_tokens": 4e6}
    found = of(rates(**numbers)[0], **numbers)
    assert (found.verdict, found.subclass) == (Verdict.LIKELY, subclass)
    assert not found.advice[0].do.startswith("offload")
    assert "do not offload" in found.advice[1].do


def test_prefill_beside_decode_does_not_hide_a_step_that_reads():
    gaps = {"itl_buckets": {0.05: 28_000.0, 0.3: 2000.0}, "itl_sum": 28_000 * 0.04 + 2000 * 0.25}
    assert bandwidth.steady_step(case(**BUSY, **gaps)) == pytest.approx(0.04, rel=0.2)


@pytest.mark.parametrize(
    ("known", "numbers"),
    [
        pytest.param(Machine(bandwidth=1e12), {}, id="no model"),
        pytest.param(Machine(shape=KNOWN.shape), {}, id="no ceiling"),
        pytest.param(at(1e12), {"outputs": 1}, id="no gap"),
        pytest.param(at(1e12), {"readings": 1, "seconds": 0}, id="one reading"),
    ],
)
def test_without_model_ceiling_or_steps_bandwidth_is_not_judged(known, numbers):
    (found,) = bandwidth.check(case(machine=known, **{**BUSY, **numbers}))
    assert found.verdict is Verdict.NO_DATA
    assert found.gaps[0].cure


def probed(**changes: object) -> dict[str, str]:
    """Facts of a ceiling that a probe measured at forty sequences of 2,000 tokens, just over what the step reads."""
    step = KNOWN.step(40.0, 2000.0)
    assert step is not None
    numbers = {"read": 2 * HIGH, "decode": 1.4 * HIGH, "batch": 40.0, "context": 2000.0}
    words = {"device": "CPU", "model": "Llama-3.1-8B", "weights": "bf16", "kv_dtype": "bf16"}
    found = Measured("decode", **{**numbers, **words, "step_bytes": step.total, **changes})
    told = {"bandwidth": repr(found.bytes_per_s / 1e9), "bandwidth_basis": found.basis}
    return {"model_config": LLAMA_8B, **told, "bandwidth_measured": found.text()}


def test_a_ceiling_of_the_decode_probe_is_named_with_its_conditions():
    found = load(facts=probed(), **BUSY)
    answer = diagnose(found)
    (bound,) = (one for one in answer.findings if one.bound is Bound.BANDWIDTH)
    ceiling = next(one for one in bound.evidence if one.name == "HBM read ceiling")
    assert bound.verdict is Verdict.LIKELY
    assert ceiling.value == pytest.approx(1.4 * HIGH)
    assert ceiling.source.startswith("measured by probe decode at batch 40, context 2,000")
    assert not [gap for gap in answer.gaps if gap.source == "bandwidth"]


def test_a_probe_of_another_batch_is_said_in_the_answer():
    answer = diagnose(load(facts=probed(batch=4.0), **BUSY))
    (gap, *_) = (gap for gap in answer.gaps if gap.source == "bandwidth")
    assert "batch 4, used for batch 40" in gap.reason


def test_conditions_of_a_ceiling_are_no_reason_why_nothing_can_be_judged():
    facts = {name: text for name, text in probed(batch=4.0).items() if name != "model_config"}
    (found,) = bandwidth.check(case(facts=facts, **BUSY))
    (gap,) = found.gaps
    assert gap.reason == "the model's shape is unknown, so no step can be held against a ceiling"
    assert gap.cure == "give --model CONFIG.json"


def test_a_rate_that_was_refused_is_why_nothing_is_judged():
    (found,) = bandwidth.check(case(facts=probed(disturbed="other work left it a fifth"), **BUSY))
    assert found.verdict is Verdict.NO_DATA
    assert "lower bound and no ceiling" in found.gaps[0].reason
    assert found.gaps[0].cure == "probe again while nothing else runs on the machine"
