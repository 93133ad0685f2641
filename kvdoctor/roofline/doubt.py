"""Name the usual mistake behind a published size that differs from the computed one by a telling ratio."""

from __future__ import annotations

from kvdoctor.roofline.shape import ModelShape

# How far a ratio may lie from a telling one.
_NEAR = 0.015


def suspects(shape: ModelShape, *, claimed: float, computed: float) -> tuple[str, ...]:
    """Mistakes that would turn the computed bytes of KV into the claimed ones; empty where they agree or none fits."""
    ratio = claimed / computed
    if abs(ratio - 1) < _NEAR:
        return ()
    return tuple(why for telling, why in _telling(shape) if abs(ratio / telling - 1) < _NEAR)


def _telling(shape: ModelShape) -> list[tuple[float, str]]:
    """Ratios and what each suggests, for this model."""
    cache = next((layer.cache for layer in shape.layers if layer.cache), None)
    found = [
        (2.0, "twice too much: 4 bytes an element, K and V counted twice, or twice the KV heads"),
        (0.5, "half of it: one byte an element (an fp8 model need not have fp8 KV), or only K"),
        (2**30 / 10**9, "GiB written as GB"),
        (10**9 / 2**30, "GB written as GiB"),
    ]
    if cache and not cache.latent and cache.query_heads != cache.kv_heads:
        found.append((cache.query_heads / cache.kv_heads, "query heads taken for KV heads"))
    holding = [layer.cache for layer in shape.layers if layer.cache and layer.cache.owns]
    growing = [one for one in holding if one.reach in ("full", "topk")]
    if growing and len(growing) < len(shape.layers):
        found.append((len(shape.layers) / len(growing), "all layers counted as full attention"))
    return found
