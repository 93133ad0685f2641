"""What a figure leaves out or assumes, said beside it: one sentence each, naming the key or the reason."""

from __future__ import annotations

from kvdoctor import units
from kvdoctor.roofline import kv, weights
from kvdoctor.roofline.formats import weight_format
from kvdoctor.roofline.shape import KvStorage, Layout, ModelShape

# Kernels may pad expert matrices to a multiple of this many (gpt-oss: 2880 to 3072).
_PAD_UNIT = 256
# Leave out what is smaller than this share of the weights.
_SMALL = 0.005


def notes(
    shape: ModelShape,
    *,
    layout: Layout = Layout(),
    storage: KvStorage = KvStorage(),
) -> tuple[str, ...]:
    """All warnings that apply to the figures of this model on this layout."""
    return (*shape.warnings, *_weight_notes(shape, layout), *_kv_notes(shape, layout, storage))


def _weight_notes(shape: ModelShape, layout: Layout) -> list[str]:
    """Draft layers, towers, padding, widths that do not divide."""
    held = weights.resident(shape, layout=layout)
    found = []
    if held.draft:
        found.append(
            f"draft (MTP) layers are not counted: {units.gib(held.draft)} a rank if the engine loads them"
        )
    if held.tower:
        found.append(
            f"vision or audio towers are not counted: about {units.gib(held.tower)}, "
            "on every rank where they are replicated"
        )
    if (padding := padding_bytes(shape, layout)) > _SMALL * held.total:
        found.append(f"kernels that pad expert matrices to {_PAD_UNIT} need {units.gib(padding)} a rank more")
    heads = {layer.cache.query_heads for layer in shape.layers if layer.cache}
    if uneven := [count for count in heads if count % layout.attention_tp]:
        found.append(
            f"TP {layout.attention_tp} does not divide {uneven[0]} query heads: engines refuse or pad"
        )
    if any(layer.cache and layer.cache.latent for layer in shape.layers):
        found.append("MLA engines also keep absorbed copies of the up-projections, in bf16")
    if held.rotary > _SMALL * held.total:
        found.append(f"includes {units.gib(held.rotary)} of rotary table for {shape.max_positions} positions")
    return found


def padding_bytes(shape: ModelShape, layout: Layout, unit: int = _PAD_UNIT) -> float:
    """Bytes that padding one dimension of the routed experts to a multiple of `unit` adds on one rank."""
    total = 0.0
    for layer, count in shape.groups:
        for weight in layer.weights:
            if weight.part == "expert" and weight.inputs > 1 and weight.outputs % unit:
                padded = -(-weight.outputs // unit) * unit
                total += count * weights.rank_bytes(weight, layout) * (padded / weight.outputs - 1)
    return total


def _kv_notes(shape: ModelShape, layout: Layout, storage: KvStorage) -> list[str]:
    """Copied heads, windows, states, sparse reads, the dtype of KV."""
    caches = [layer.cache for layer in shape.layers if layer.cache]
    found = []
    if any(not cache.latent and cache.kv_heads < layout.attention_tp for cache in caches):
        found.append(
            f"fewer KV heads than TP {layout.attention_tp}: ranks hold copies, KV shrinks no further"
        )
    if layout.attention_tp > 1 and any(cache.latent for cache in caches):
        found.append("MLA: every TP rank holds the whole latent, so KV does not shrink with TP")
    if any(cache.reach in ("window", "chunk") for cache in caches) and storage.windows == "exact":
        found.append(
            "sliding or chunked layers are counted at their window; engines keep tokens in flight besides"
        )
    if any(cache.reach == "topk" for cache in caches):
        found.append("sparse attention reads its top-k only and stores every token")
    if any(layer.state for layer in shape.layers):
        found += _state_notes(shape, layout, storage)
    if storage.dtype is None and shape.kv_dtype != shape.dtype:
        found.append(f"the checkpoint asks for {shape.kv_dtype} KV; engines follow it only with `auto`")
    if storage.dtype is None and shape.kv_dtype == shape.dtype and _is_fp8(shape):
        found.append(f"8-bit weights do not make the KV 8-bit: counted as {shape.kv_dtype}")
    return found


def _is_fp8(shape: ModelShape) -> bool:
    """Whether most weights have one byte."""
    return 0.9 < weight_format(shape.weight_format).bytes_per_weight < 1.1


def _state_notes(shape: ModelShape, layout: Layout, storage: KvStorage) -> list[str]:
    """The size of recurrent states depends on the engine, and pools pad to a common page."""
    found = [
        "recurrent states: hybrid pools pad attention blocks and state pages to one size, so engines fit less; "
        "prefix caching and speculation keep more than one state a sequence"
    ]
    vllm = kv.vllm_state_dtype(shape)
    if storage.state_dtype is None and vllm != "fp32":
        size = kv.state_bytes(shape, layout=layout, storage=KvStorage(state_dtype=vllm))
        found.append(
            f"states are counted at 4 bytes (SGLang's default); vLLM's `auto` keeps {units.gib(size)}"
        )
    return found
