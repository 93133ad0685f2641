"""KV and recurrent state: what a token stores, what a sequence holds, what a step reads."""

from __future__ import annotations

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline.formats import index_bytes, kv_format, kv_vector_bytes, latent_bytes, weight_format
from kvdoctor.roofline.shape import Cache, KvStorage, Layer, Layout, ModelShape, State, grouped
from kvdoctor.roofline.weights import stage_layers

# llama.cpp allocates cells of a sliding layer in this unit.
_CELLS = 256
# FlashMLA-like kernels on some backends pad the rotary part of a latent to this many values.
_PADDED_ROPE = 128
_CONV_BYTES = 2
_PLAIN = KvStorage()
# Rows of a state that SGLang keeps at 4 bytes unless told otherwise.
_STATE_DTYPE = "fp32"


def key_bytes(
    cache: Cache, *, layout: Layout, dtype: str, storage: KvStorage = _PLAIN
) -> tuple[float, float]:
    """Bytes that one token stores in one layer on one rank: (KV, index keys).

    GQA: max(1, g/TP) * (dk + dv) * e. MLA: (kv_lora + rope) * e, whole on every rank.
    """
    keys, values = kv_format(dtype)
    index = index_bytes(storage.index_dtype, cache.index_dim) if cache.index_dim else 0.0
    if cache.latent:
        return _latent(cache, keys, storage) / layout.dcp, index / layout.dcp
    if "fp8_ds_mla" in (keys, values):
        raise KvdoctorError("the KV dtype fp8_ds_mla is for MLA models", "use --kv-dtype fp8")
    heads = max(1.0, cache.kv_heads / layout.attention_tp)
    size = heads * (kv_vector_bytes(keys, cache.k_dim) + kv_vector_bytes(values, cache.v_dim))
    return size / layout.dcp, index / layout.dcp


def _latent(cache: Cache, dtype: str, storage: KvStorage) -> float:
    """Bytes of one latent, as the backend lays it out."""
    if storage.latent == "padded":
        return latent_bytes(dtype, cache.k_dim, max(cache.v_dim, _PADDED_ROPE))
    extra = kv_vector_bytes(dtype, cache.k_dim) if storage.latent == "both" else 0.0
    return latent_bytes(dtype, cache.k_dim, cache.v_dim) + extra


def kept_tokens(cache: Cache, tokens: float, storage: KvStorage = _PLAIN) -> float:
    """Tokens of a sequence that a layer still holds: all, or those of its window or chunk."""
    if cache.reach in ("full", "topk") or storage.windows == "full":
        return tokens
    if storage.windows == "exact" or cache.reach == "chunk":
        return min(tokens, float(cache.span))
    unit = _CELLS if storage.windows == "llamacpp" else storage.block_size
    return float(-(-min(tokens, cache.span + storage.in_flight) // unit) * unit)


def _owning(shape: ModelShape, storage: KvStorage) -> list[tuple[Cache, int]]:
    """Layers that store KV, equal ones counted once, on the pipeline's whole length."""
    groups = (*shape.groups, *(grouped(shape.draft) if storage.draft else ()))
    return [(layer.cache, count) for layer, count in groups if layer.cache and layer.cache.owns]


def stage_share(shape: ModelShape, layout: Layout) -> float:
    """Share of the KV-owning layers that the fullest pipeline stage holds."""
    if layout.pp == 1:
        return 1.0
    counts = [sum(1 for x in stage if x.cache or x.state) for stage in stage_layers(shape, layout)]
    return max(counts) / sum(counts) if sum(counts) else 1.0


def growth_bytes(shape: ModelShape, *, layout: Layout, storage: KvStorage = _PLAIN) -> float:
    """Bytes that one more token of a long sequence stores on one rank.

    Layers with a window or a chunk no longer grow. Where every layer has one (Mistral-7B v0.1), the growth up
    to the window is given.
    """
    dtype = storage.dtype or shape.kv_dtype
    owning = _owning(shape, storage)
    growing = [pair for pair in owning if pair[0].reach in ("full", "topk") or storage.windows == "full"]
    total = sum(
        n * sum(key_bytes(c, layout=layout, dtype=dtype, storage=storage)) for c, n in growing or owning
    )
    return total * stage_share(shape, layout)


def is_uniform(shape: ModelShape, storage: KvStorage = _PLAIN) -> bool:
    """Whether every byte of KV grows with the tokens: no window, no chunk, no recurrent state."""
    if any(layer.state for layer in shape.layers):
        return False
    caches = [cache for cache, _ in _owning(shape, storage)]
    return storage.windows == "full" or all(cache.reach in ("full", "topk") for cache in caches)


def sequence_bytes(
    shape: ModelShape,
    *,
    tokens: float,
    layout: Layout,
    storage: KvStorage = _PLAIN,
    whole_blocks: bool = False,
) -> float:
    """Bytes that a sequence holds on one rank: KV of every layer and all states.

    With `whole_blocks` the tokens of every layer are rounded up to blocks.
    """
    dtype = storage.dtype or shape.kv_dtype
    total = 0.0
    for cache, count in _owning(shape, storage):
        kept = kept_tokens(cache, tokens, storage)
        if whole_blocks:
            kept = -(-kept // storage.block_size) * storage.block_size
        total += count * kept * sum(key_bytes(cache, layout=layout, dtype=dtype, storage=storage))
    share = stage_share(shape, layout)
    return total * share + state_bytes(shape, layout=layout, storage=storage) * share


def read_bytes(
    shape: ModelShape, *, context: float, layout: Layout, storage: KvStorage = _PLAIN
) -> tuple[float, float]:
    """Bytes of KV that a step reads for one sequence on one rank (all pipeline stages): (floor, most).

    Full layers read everything, sliding ones their window, sparse ones `topk` latents and every index key.
    A chunk holds half its size on average and all of it at most; borrowing layers read their owner's KV again.
    """
    dtype = storage.dtype or shape.kv_dtype
    low = high = 0.0
    for layer, count in shape.groups:
        if not layer.cache:
            continue
        size, index = key_bytes(layer.cache, layout=layout, dtype=dtype, storage=storage)
        few, many = reached_tokens(layer.cache, context)
        low += count * (few * size + context * index)
        high += count * (many * size + context * index)
    return low, high


def reached_tokens(cache: Cache, context: float) -> tuple[float, float]:
    """Tokens that one query attends to at a context, (mean, most)."""
    if cache.reach == "full":
        return context, context
    if cache.reach == "chunk":
        return min(context, cache.span / 2), min(context, float(cache.span))
    return min(context, float(cache.span)), min(context, float(cache.span))


def state_bytes(shape: ModelShape, *, layout: Layout, storage: KvStorage = _PLAIN) -> float:
    """Bytes of all recurrent states of one sequence on one rank; heads are split over TP."""
    element = weight_format(storage.state_dtype or _STATE_DTYPE).bytes_per_weight
    total = 0.0
    for state, count in recurrent(shape):
        width = min(layout.attention_tp, state.heads or layout.attention_tp)
        total += count * (state.conv * _CONV_BYTES + state.recurrent * element) / width
    return total


def recurrent(shape: ModelShape) -> list[tuple[State, int]]:
    """Recurrent states of the model, equal ones counted once."""
    return [(layer.state, count) for layer, count in shape.groups if layer.state]


def vllm_state_dtype(shape: ModelShape) -> str:
    """What vLLM's `auto` keeps: fp32 where the config or the model class asks for it, else the model's dtype."""
    asked = [state.configured for state, _ in recurrent(shape)]
    return _STATE_DTYPE if asked and all(asked) else shape.dtype


def kv_layers(layers: tuple[Layer, ...]) -> int:
    """Layers that store KV of their own."""
    return sum(1 for layer in layers if layer.cache and layer.cache.owns)
