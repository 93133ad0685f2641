"""Llama-Nemotron NAS models: every layer has its own attention (or none) and its own FFN width."""

from __future__ import annotations

from collections.abc import Mapping

from kvdoctor.roofline import gqa, moe
from kvdoctor.roofline.family import Family
from kvdoctor.roofline.keys import Json, Keys, refusal
from kvdoctor.roofline.shape import Cache, Layer, Weight

# FFN widths are rounded up to this many (DeciLM's rule).
_WIDTH_UNIT = 256


def nas_layers(keys: Keys, family: Family, hidden: int, count: int) -> tuple[Layer, ...]:
    """One layer per entry of `block_configs`; equal entries give the same object."""
    blocks = keys.per_layer("block_configs", count)
    if blocks is None:
        raise refusal("block_configs", "is missing")
    built: dict[str, Layer] = {}
    found = []
    for block in blocks:
        key = repr(block)
        if key not in built:
            built[key] = _layer(keys, family, hidden, block)
        found.append(built[key])
    return tuple(found)


def _layer(keys: Keys, family: Family, hidden: int, block: object) -> Layer:
    """One block: attention or none, FFN or none."""
    if not isinstance(block, Mapping):
        raise refusal("block_configs", "has an entry that is not an object")
    attention, cache = _attention(keys, family, hidden, _section(block, "attention"))
    ffn = _ffn(family, hidden, _section(block, "ffn"))
    norms = Weight("norms", "norm", 1, 2 * hidden, split="replicated", quantizable=False)
    return Layer("full" if cache else "none", (*attention, *ffn, norms), cache)


def _section(block: Json, name: str) -> Json:
    """The attention or the ffn part of a block."""
    part = block.get(name)
    if not isinstance(part, Mapping):
        raise refusal(f"block_configs.{name}", "is missing")
    return part


def _attention(
    keys: Keys, family: Family, hidden: int, part: Json
) -> tuple[tuple[Weight, ...], Cache | None]:
    """GQA by `n_heads_in_group`, a single matrix, or nothing."""
    if part.get("no_op"):
        return (), None
    if part.get("replace_with_linear"):
        return (Weight("self_attn.linear", "attention", hidden, hidden),), None
    if part.get("window_length") or part.get("sparsify"):
        raise refusal("block_configs.attention", "has a window or sparsity that is not understood")
    query, group = keys.positive("num_attention_heads"), part.get("n_heads_in_group")
    if not isinstance(group, int) or group <= 0 or query % group:
        raise refusal("block_configs.attention.n_heads_in_group", f"is {group!r}")
    size = keys.optional("head_dim") or hidden // query
    heads = gqa.Heads(query, query // group, size, size)
    return gqa.weights(hidden, heads, family, keys), gqa.cache(heads)


def _ffn(family: Family, hidden: int, part: Json) -> tuple[Weight, ...]:
    """A gated FFN of 2/3 * ffn_mult * H, rounded up to 256; a single matrix; or nothing."""
    if part.get("no_op"):
        return ()
    if part.get("replace_with_linear"):
        return (Weight("mlp.linear", "dense", hidden, hidden),)
    mult = part.get("ffn_mult")
    width = part.get("intermediate_size")
    if isinstance(mult, (int, float)) and mult > 0:
        width = -(-int(2 * mult * hidden / 3) // _WIDTH_UNIT) * _WIDTH_UNIT
    if not isinstance(width, int) or width <= 0:
        raise refusal("block_configs.ffn.ffn_mult", f"is {mult!r}")
    return moe.dense(hidden, width, family)
