"""The few questions that the ledger, the advice and the reference engine ask of the roofline."""

from __future__ import annotations

from kvdoctor.roofline import kv, prefill, quantization, weights
from kvdoctor.roofline.shape import KvStorage, Layout, ModelShape, StepBytes


def decode_bytes(
    shape: ModelShape,
    *,
    batch: float,
    context: float,
    tp: int = 1,
    kv_dtype: str | None = None,
    weight_format: str | None = None,
    tokens_per_sequence: float = 1.0,
) -> StepBytes:
    """Bytes of one decode step on one rank, for `batch` sequences of mean length `context`.

    Both may be fractions. `tokens_per_sequence` is 1 plus the drafted tokens of a verify step.
    `kv_dtype` and `weight_format` replace what the config says.
    """
    model = quantization.reformatted(shape, weights=weight_format) if weight_format else shape
    layout = Layout(tp=tp)
    read = weights.read_bytes(model, tokens=batch * tokens_per_sequence, layout=layout)
    kv_low, kv_high = kv.read_bytes(model, context=context, layout=layout, storage=KvStorage(dtype=kv_dtype))
    state = 2 * batch * kv.state_bytes(model, layout=layout)
    return StepBytes(read.low, read.estimate, read.high, batch * kv_low, batch * kv_high, state)


def kv_bytes_per_token(shape: ModelShape, *, tp: int = 1, kv_dtype: str | None = None) -> float:
    """Bytes that one more token of a long sequence stores on one rank (windowed layers grow no more)."""
    return kv.growth_bytes(shape, layout=Layout(tp=tp), storage=KvStorage(dtype=kv_dtype))


def kv_bytes_per_sequence(
    shape: ModelShape, *, context: float, tp: int = 1, kv_dtype: str | None = None
) -> float:
    """Bytes that a sequence of `context` tokens stores on one rank: windows, chunks and states included."""
    return kv.sequence_bytes(shape, tokens=context, layout=Layout(tp=tp), storage=KvStorage(dtype=kv_dtype))


def prefill_flops(shape: ModelShape, *, new: float, cached: float = 0.0) -> float:
    """FLOPs over all ranks to prefill `new` tokens on top of `cached` ones."""
    return prefill.flops(shape, new=new, cached=cached)


def decode_flops(shape: ModelShape, *, batch: float, context: float) -> float:
    """FLOPs over all ranks of one decode step."""
    return prefill.decode_flops(shape, batch=batch, context=context)


def state_bytes_per_sequence(shape: ModelShape, *, tp: int = 1, state_dtype: str | None = None) -> float:
    """Bytes of all recurrent states of one sequence on one rank; 0 without recurrent layers."""
    return kv.state_bytes(shape, layout=Layout(tp=tp), storage=KvStorage(state_dtype=state_dtype))


def resident_weight_bytes(shape: ModelShape, *, tp: int = 1, weight_format: str | None = None) -> float:
    """Weight bytes that stay in the memory of the fullest rank."""
    model = quantization.reformatted(shape, weights=weight_format) if weight_format else shape
    return weights.resident(model, layout=Layout(tp=tp)).total
