"""FLOPs of prefill and decode, and the floor on prefill time."""

from __future__ import annotations

from dataclasses import dataclass

from kvdoctor.roofline import kv, weights
from kvdoctor.roofline.shape import Cache, KvStorage, Layout, ModelShape


@dataclass(frozen=True, slots=True)
class PrefillFloor:
    """The least time that a prefill takes, and what sets it."""

    flops: float
    seconds: float
    compute_seconds: float
    read_seconds: float


def linear_params(shape: ModelShape, *, head: bool) -> float:
    """Parameters that each token multiplies: active ones without the embedding, with or without the head."""
    total = 0.0
    for layer, count in shape.groups:
        used = layer.used / layer.experts if layer.experts else 1.0
        total += count * sum(w.params * (used if w.part == "expert" else 1.0) for w in layer.weights)
    total += sum(w.params for w in shape.outer if w.part not in ("embedding", "head"))
    if head:
        total += shape.hidden * shape.vocab
    return total


def pairs(new: float, cached: float, span: float) -> float:
    """Query-key pairs of `new` causal tokens after `cached` ones, each seeing at most `span` keys (0: all).

    Without a span n*p + n*n/2. With one, tokens whose past is shorter than the span see their past.
    """
    if span <= 0 or cached + new <= span:
        return new * cached + new * new / 2
    short = max(0.0, min(new, span - cached))
    return short * cached + short * short / 2 + (new - short) * span


def _pair_flops(cache: Cache, *, absorbed: bool) -> float:
    """FLOPs of one query token against one key, all heads: scores and weighted sum.

    2*h*(dk + dv); MLA decompressed 2*h*(nope + rope + v), absorbed 2*h*(lora + rope + lora).
    """
    if not cache.latent:
        return 2.0 * cache.query_heads * (cache.k_dim + cache.v_dim)
    if absorbed:
        return 2.0 * cache.query_heads * (2 * cache.k_dim + cache.v_dim)
    return 2.0 * cache.query_heads * (cache.head_qk + cache.head_v)


def flops(shape: ModelShape, *, new: float, cached: float = 0.0) -> float:
    """FLOPs over all ranks to prefill `new` tokens on a cached prefix; the head runs on the last token only.

    2*n*P_active + the causal pairs of every attention layer. Recurrent updates are left out: a lower bound.
    """
    total = 2.0 * new * linear_params(shape, head=False) + 2.0 * shape.hidden * shape.vocab
    for layer, count in shape.groups:
        if not layer.cache:
            continue
        cache = layer.cache
        span = cache.span / 2 if cache.reach == "chunk" else cache.span
        total += count * _pair_flops(cache, absorbed=False) * pairs(new, cached, span)
        total += count * 2.0 * cache.index_heads * cache.index_dim * pairs(new, cached, 0)
    return total


def decode_flops(
    shape: ModelShape, *, batch: float, context: float, tokens_per_sequence: float = 1.0
) -> float:
    """FLOPs over all ranks of one decode step: 2*B*P_active (head included) and attention over the context."""
    tokens = batch * tokens_per_sequence
    total = 2.0 * tokens * linear_params(shape, head=True)
    for layer, count in shape.groups:
        if layer.cache:
            reached = kv.reached_tokens(layer.cache, context)[0]
            total += count * tokens * reached * _pair_flops(layer.cache, absorbed=True)
            total += count * tokens * context * 2.0 * layer.cache.index_heads * layer.cache.index_dim
    return total


def floor(
    shape: ModelShape,
    *,
    new: float,
    cached: float,
    layout: Layout,
    bandwidth: float,
    peak: float,
    storage: KvStorage = KvStorage(),
    chunk: float | None = None,
    efficiency: float = 1.0,
) -> PrefillFloor:
    """The least seconds to prefill `new` tokens of one sequence after `cached` ones.

    max(FLOPs / (GPUs * peak * efficiency), (weights + KV written and read) / bandwidth). Of the cached KV what one
    token attends to is read: windows and sparse attention leave the rest. `bandwidth` in bytes/s and `peak` in
    FLOP/s are of one GPU; `chunk` re-reads the weights once every so many tokens. With PP a single prompt passes
    the stages in turn, so that only one stage's GPUs work at a time.
    """
    work = flops(shape, new=new, cached=cached)
    working = layout.gpus / layout.pp
    compute = work / (working * peak * efficiency)
    pieces = max(1.0, new / chunk) if chunk else 1.0
    read = weights.read_bytes(shape, tokens=new / pieces, layout=layout).estimate * pieces
    before, after = (
        kv.sequence_bytes(shape, tokens=tokens, layout=layout, storage=storage)
        for tokens in (cached, cached + new)
    )
    past = _cached_bytes(shape, cached, layout, storage) if cached else 0.0
    moved = (read + max(0.0, after - (before if cached else 0.0)) + past) / bandwidth
    return PrefillFloor(work, max(compute, moved), compute, moved)


def _cached_bytes(shape: ModelShape, cached: float, layout: Layout, storage: KvStorage) -> float:
    """Bytes of a cached prefix that the next pass reads on one rank at least: KV in reach, and all states."""
    reached = kv.read_bytes(shape, context=cached, layout=layout, storage=storage)[0]
    return reached + kv.state_bytes(shape, layout=layout, storage=storage)
