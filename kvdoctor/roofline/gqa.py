"""Attention with keys and values per head: MHA, GQA, MQA, unequal K and V, output gates."""

from __future__ import annotations

from dataclasses import dataclass

from kvdoctor.roofline.family import Family
from kvdoctor.roofline.keys import Keys, refusal
from kvdoctor.roofline.shape import Cache, Reach, Weight


@dataclass(frozen=True, slots=True)
class Heads:
    """Counts and sizes of the heads of one layer."""

    query: int
    kv: int
    qk_dim: int
    v_dim: int


def heads_of(keys: Keys, name: str) -> Heads:
    """Heads of a plain layer. An explicit head size wins over hidden / heads."""
    query = keys.positive("num_attention_heads", "n_head")
    hidden = keys.positive("hidden_size", "n_embd", "d_model")
    size = keys.optional("head_dim", "attention_head_dim")
    if not size and hidden % query:
        raise refusal(
            "num_attention_heads", f"does not divide the hidden size {hidden}, and `head_dim` is missing"
        )
    size = size or hidden // query
    return Heads(query, kv_heads(keys, name, query), size, keys.optional("v_head_dim") or size)


def kv_heads(keys: Keys, name: str, query: int) -> int:
    """KV heads; Falcon and GPT-BigCode say `multi_query`, whatever `num_kv_heads` says."""
    if name == "gpt_bigcode":
        return 1 if keys.flag("multi_query", default=True) else query
    if name == "falcon" and not keys.flag("new_decoder_architecture"):
        return 1 if keys.flag("multi_query", default=True) else keys.count("num_kv_heads", default=query)
    found = keys.count("num_key_value_heads", "num_kv_heads", "num_attention_groups", default=query)
    if found == 0 or query % found:
        raise refusal("num_key_value_heads", f"is {found}, which does not divide {query} query heads")
    return found


def cache(heads: Heads, reach: Reach = "full", span: int = 0) -> Cache:
    """What one token stores in such a layer, and what a step reads."""
    return Cache(heads.kv, heads.qk_dim, heads.v_dim, heads.query, reach=reach, span=span)


def weights(
    hidden: int, heads: Heads, family: Family, keys: Keys, *, sinks: bool = False, value_is_key: bool = False
) -> tuple[Weight, ...]:
    """Q, K, V and O projections, with biases, head norms and sinks where the family has them.

    H*h*d (Q, doubled by an output gate) + H*g*(dk + dv) (K, V) + h*dv*H (O).
    """
    module = family.attention
    query_width = heads.query * heads.qk_dim * (2 if family.gate_query else 1)
    found = [
        Weight(f"{module}.q_proj", "attention", hidden, query_width),
        Weight(f"{module}.k_proj", "attention", hidden, heads.kv * heads.qk_dim, split="kv", heads=heads.kv),
        Weight(f"{module}.o_proj", "attention", heads.query * heads.v_dim, hidden),
    ]
    if not value_is_key:
        found.insert(
            2,
            Weight(
                f"{module}.v_proj", "attention", hidden, heads.kv * heads.v_dim, split="kv", heads=heads.kv
            ),
        )
    small = _bias_width(hidden, heads, family, keys, query_width) + _norm_width(heads, family, keys)
    small += heads.query if sinks else 0
    if small:
        found.append(Weight(f"{module}.vectors", "norm", 1, small, split="replicated", quantizable=False))
    return tuple(found)


def _bias_width(hidden: int, heads: Heads, family: Family, keys: Keys, query_width: int) -> int:
    """Values of all attention biases of a layer."""
    asked = keys.raw("attention_bias", "qkv_bias", "bias", "use_qkv_bias", "use_bias")
    kind = family.bias if asked is None else (family.bias_if_asked if asked else "none")
    if asked and family.bias == "qkv":
        kind = "qkv"
    widths = {"none": 0, "qkv": query_width + heads.kv * (heads.qk_dim + heads.v_dim)}
    return widths["qkv"] + hidden if kind == "all" else widths[kind]


def _norm_width(heads: Heads, family: Family, keys: Keys) -> int:
    """Values of the norms on queries and keys."""
    kind = family.qk_norm
    if kind == "none" and keys.flag("use_qk_norm"):
        kind = "head"
    if kind == "full" and keys.raw("use_qk_norm") is False:
        kind = "none"
    return {"none": 0, "head": 2 * heads.qk_dim, "full": (heads.query + heads.kv) * heads.qk_dim}[kind]
