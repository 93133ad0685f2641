"""Multi-head latent attention (DeepSeek V2/V3, Kimi K2, GLM-5), with the indexer of sparse attention (DSA)."""

from __future__ import annotations

from dataclasses import dataclass

from kvdoctor.roofline.keys import Keys, refusal
from kvdoctor.roofline.shape import Cache, Weight


@dataclass(frozen=True, slots=True)
class Latent:
    """Sizes of the latents and heads of one MLA layer. `num_key_value_heads` says nothing about them."""

    heads: int
    q_lora: int
    """0 where queries are projected directly (V2-Lite)."""
    kv_lora: int
    nope: int
    rope: int
    value: int


@dataclass(frozen=True, slots=True)
class Indexer:
    """What picks the tokens of a sparse layer: one index key a token, `topk` latents read."""

    heads: int
    dim: int
    topk: int


def latent_of(keys: Keys) -> Latent:
    """Read the MLA sizes; raises KvdoctorError naming the one that is missing."""
    return Latent(
        keys.positive("num_attention_heads"),
        keys.count("q_lora_rank", default=0),
        keys.positive("kv_lora_rank"),
        keys.positive("qk_nope_head_dim"),
        keys.count("qk_rope_head_dim"),
        keys.positive("v_head_dim"),
    )


def indexer_of(keys: Keys) -> Indexer | None:
    """Read the indexer, or None for dense MLA."""
    topk = keys.optional("index_topk")
    if not topk:
        return None
    return Indexer(keys.positive("index_n_heads"), keys.positive("index_head_dim"), topk)


def index_owners(keys: Keys, layers: int) -> list[bool]:
    """Which layers own index keys: all, or those that `indexer_types` calls full (GLM-5.2: 21 of 78)."""
    kinds = keys.per_layer("indexer_types", layers)
    if kinds is None:
        return [True] * layers
    if not set(kinds) <= {"full", "shared"}:
        raise refusal("indexer_types", f"has the values {sorted({str(kind) for kind in kinds})}")
    return [kind == "full" for kind in kinds]


def cache(latent: Latent, indexer: Indexer | None, *, owns_index: bool = True) -> Cache:
    """(kv_lora + rope) values a token, once; sparse layers read `topk` of them and every index key."""
    return Cache(
        kv_heads=1,
        k_dim=latent.kv_lora,
        v_dim=latent.rope,
        query_heads=latent.heads,
        latent=True,
        head_qk=latent.nope + latent.rope,
        head_v=latent.value,
        reach="topk" if indexer else "full",
        span=indexer.topk if indexer else 0,
        index_dim=indexer.dim if indexer and owns_index else 0,
        index_heads=indexer.heads if indexer and owns_index else 0,
    )


def weights(
    hidden: int, latent: Latent, indexer: Indexer | None, *, owns_index: bool = True
) -> tuple[Weight, ...]:
    """Down-projections (whole on every rank), up-projections (divided by TP) and O.

    H*q_lora + q_lora*h*(nope+rope) + H*(kv_lora+rope) + kv_lora*h*(nope+v) + h*v*H.
    """
    query = latent.heads * (latent.nope + latent.rope)
    if latent.q_lora:
        down = Weight("self_attn.q_a_proj", "attention", hidden, latent.q_lora, split="replicated")
        queries = [down, Weight("self_attn.q_b_proj", "attention", latent.q_lora, query)]
    else:
        queries = [Weight("self_attn.q_proj", "attention", hidden, query)]
    up = latent.heads * (latent.nope + latent.value)
    both = latent.kv_lora + latent.rope
    found = [
        *queries,
        Weight("self_attn.kv_a_proj_with_mqa", "attention", hidden, both, split="replicated"),
        Weight("self_attn.kv_b_proj", "attention", latent.kv_lora, up),
        Weight("self_attn.o_proj", "attention", latent.heads * latent.value, hidden),
        Weight(
            "self_attn.vectors", "norm", 1, latent.q_lora + latent.kv_lora, 1, "replicated", quantizable=False
        ),
    ]
    if indexer and owns_index:
        found += _indexer_weights(hidden, latent.q_lora, indexer)
    return tuple(found)


def _indexer_weights(hidden: int, q_lora: int, indexer: Indexer) -> list[Weight]:
    """q_lora*n*d + H*d + H*n, whole on every rank."""
    wide = indexer.heads * indexer.dim
    return [
        Weight("self_attn.indexer.wq_b", "indexer", q_lora or hidden, wide, split="replicated"),
        Weight("self_attn.indexer.wk", "indexer", hidden, indexer.dim, split="replicated"),
        Weight(
            "self_attn.indexer.weights_proj",
            "indexer",
            hidden,
            indexer.heads,
            split="replicated",
            quantizable=False,
        ),
    ]
