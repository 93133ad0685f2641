"""What must hold for every model, batch, context, width and machine."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdoctor import units
from kvdoctor.roofline import kv, prefill, serving, weights
from kvdoctor.roofline.presets import preset, preset_names
from kvdoctor.roofline.quantity import rate_bytes_per_s, size_bytes, token_count, tokens_per_s
from kvdoctor.roofline.quantization import reformatted
from kvdoctor.roofline.shape import KvStorage, Layout, ModelShape
from kvdoctor.roofline.step import Load, Machine, decode_step, step_bytes

NAMES = preset_names()
names = st.sampled_from(NAMES)
batches = st.floats(0.5, 5000)
contexts = st.floats(0, 2e6)
widths = st.sampled_from([1, 2, 4, 8, 16])
FORMATS = ("bf16", "fp8-block", "int8", "int4-g128", "nvfp4", "mxfp4")


@cache
def shape_of(name: str) -> ModelShape:
    """A preset, parsed once."""
    return preset(name)


def part(moved: object) -> tuple[float, ...]:
    """All byte counts of a step."""
    return tuple(
        getattr(moved, name) for name in ("weights_low", "weights", "weights_high", "kv", "kv_high", "state")
    )


def no_less(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether every value of `other` is at least that of `one`, to rounding."""
    return all(b >= a * (1 - 1e-12) for a, b in zip(one, other, strict=True))


@settings(max_examples=150, deadline=None)
@given(names, st.tuples(batches, batches), contexts, widths)
def test_bytes_never_fall_with_batch(name: str, pair: tuple[float, float], context: float, tp: int) -> None:
    low, high = (serving.decode_bytes(shape_of(name), batch=b, context=context, tp=tp) for b in sorted(pair))
    assert no_less(part(low), part(high))


@settings(max_examples=150, deadline=None)
@given(names, batches, st.tuples(contexts, contexts), widths)
def test_bytes_never_fall_with_context(name: str, batch: float, pair: tuple[float, float], tp: int) -> None:
    low, high = (serving.decode_bytes(shape_of(name), batch=batch, context=c, tp=tp) for c in sorted(pair))
    assert no_less(part(low), part(high))
    held = [serving.kv_bytes_per_sequence(shape_of(name), context=c, tp=tp) for c in sorted(pair)]
    assert held[0] <= held[1] * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(names, st.sampled_from([("int4-g128", "fp8"), ("fp8", "bf16"), ("nvfp4", "int8"), ("bf16", "fp32")]))
def test_bytes_never_fall_with_the_width_of_an_element(name: str, pair: tuple[str, str]) -> None:
    held = [weights.resident(reformatted(shape_of(name), weights=f), layout=Layout()).total for f in pair]
    assert held[0] <= held[1]


@settings(max_examples=150, deadline=None)
@given(names, st.tuples(widths, widths), st.sampled_from([1, 2, 3]))
def test_tp_never_raises_the_weights_of_a_rank(name: str, pair: tuple[int, int], pp: int) -> None:
    narrow, wide = sorted(pair)
    totals = [weights.resident(shape_of(name), layout=Layout(tp=tp, pp=pp)).total for tp in (narrow, wide)]
    assert totals[1] <= totals[0] * (1 + 1e-12)
    per_token = [serving.kv_bytes_per_token(shape_of(name), tp=tp) for tp in (narrow, wide)]
    assert per_token[1] <= per_token[0] * (1 + 1e-12)


@settings(max_examples=150, deadline=None)
@given(names, batches, contexts, st.tuples(st.floats(1e9, 1e13), st.floats(1e9, 1e13)), widths)
def test_a_ceiling_never_rises_when_bandwidth_falls(
    name: str, batch: float, context: float, pair: tuple[float, float], tp: int
) -> None:
    slow, fast = (
        decode_step(shape_of(name), Machine(rate, 989e12, 450e9), Load(batch, context), Layout(tp=tp))
        for rate in sorted(pair)
    )
    assert slow.tokens_per_s_ceiling <= fast.tokens_per_s_ceiling * (1 + 1e-12)


@settings(max_examples=150, deadline=None)
@given(names, batches, contexts, widths, st.sampled_from([1, 2, 4]))
def test_the_expectation_lies_below_the_ceiling(
    name: str, batch: float, context: float, tp: int, pp: int
) -> None:
    step = decode_step(
        shape_of(name), Machine(3350e9, 989e12, 450e9), Load(batch, context), Layout(tp=tp, pp=pp)
    )
    low, high = step.tokens_per_s_expected
    assert 0 < low <= high <= step.tokens_per_s_ceiling


@settings(max_examples=100, deadline=None)
@given(names, batches, contexts, st.sampled_from([2, 4, 8]))
def test_more_experts_than_few_and_fewer_than_all(name: str, batch: float, context: float, tp: int) -> None:
    moved = serving.decode_bytes(shape_of(name), batch=batch, context=context, tp=tp)
    assert moved.weights_low <= moved.weights * (1 + 1e-12)
    assert moved.weights <= moved.weights_high * (1 + 1e-12)
    held = weights.resident(shape_of(name), layout=Layout(tp=tp)).total
    assert moved.weights_high <= held * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(names, st.floats(1, 1e5), st.floats(0, 1e5))
def test_a_cached_prefix_never_makes_prefill_cost_more(name: str, new: float, cached: float) -> None:
    hit = prefill.flops(shape_of(name), new=new, cached=cached)
    miss = prefill.flops(shape_of(name), new=new + cached)
    assert hit <= miss * (1 + 1e-9)


@settings(max_examples=100, deadline=None)
@given(names, st.floats(1, 3e5), st.sampled_from(["exact", "vllm", "llamacpp", "full"]))
def test_an_engine_keeps_no_less_than_the_window(name: str, tokens: float, policy: str) -> None:
    shape = shape_of(name)
    kept = KvStorage(windows=policy, in_flight=512)  # type: ignore[arg-type]
    exact = kv.sequence_bytes(shape, tokens=tokens, layout=Layout())
    assert kv.sequence_bytes(shape, tokens=tokens, layout=Layout(), storage=kept) >= exact * (1 - 1e-12)


@settings(max_examples=60, deadline=None)
@given(names, batches, st.sampled_from([2, 4, 8]))
def test_dp_attention_reads_more_weights_and_no_more_kv(name: str, batch: float, tp: int) -> None:
    shape, load = shape_of(name), Load(batch + tp, 2048)
    shared = step_bytes(shape, load, Layout(tp=tp))
    own = step_bytes(shape, load, Layout(tp=tp, dp_attention=tp))
    assert own.weights >= shared.weights * (1 - 1e-12)
    assert own.kv <= shared.kv * (1 + 1e-9)


@pytest.mark.parametrize("form", FORMATS)
def test_a_format_applied_twice_is_applied_once(form: str) -> None:
    once = reformatted(preset("Qwen3-30B-A3B"), weights=form)
    assert replace(reformatted(once, weights=form), basis=once.basis) == once


@given(st.floats(1, 1e15))
def test_sizes_survive_a_round_trip(size: float) -> None:
    assert size_bytes(units.gib(size)) == pytest.approx(size, rel=6e-3, abs=0.51)
    assert size_bytes(units.gb(size)) == pytest.approx(size, rel=6e-3, abs=0.51)


@given(st.floats(1e3, 1e15))
def test_rates_survive_a_round_trip(rate: float) -> None:
    assert rate_bytes_per_s(units.rate_bytes(rate)) == pytest.approx(rate, rel=6e-3)


@given(st.integers(0, 10**9))
def test_token_counts_survive_a_round_trip(tokens: int) -> None:
    assert token_count(f"{tokens:,}") == tokens


@given(st.floats(0.01, 1e6))
def test_token_rates_are_read_as_rates_or_as_times(rate: float) -> None:
    assert tokens_per_s(f"{rate:.6f} tok/s") == pytest.approx(rate, rel=1e-3)
    assert tokens_per_s(f"{1e3 / rate:.9f} ms") == pytest.approx(rate, rel=1e-3)
