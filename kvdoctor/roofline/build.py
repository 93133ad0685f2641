"""Put one layer together: its mixer, its feed-forward part and its norms."""

from __future__ import annotations

from dataclasses import replace

from kvdoctor.roofline import deltanet, gqa, mamba, mla, moe
from kvdoctor.roofline.family import Family
from kvdoctor.roofline.keys import Keys
from kvdoctor.roofline.pattern import Mixer
from kvdoctor.roofline.shape import Cache, Layer, State, Weight

_GEMMA4 = ("gemma4", "gemma4_text")
_MIMO = ("mimo_v2", "mimo_v2_flash")


def layer_of(
    keys: Keys,
    name: str,
    family: Family,
    hidden: int,
    mixer: Mixer,
    experts: moe.Moe | None,
    *,
    owns_index: bool,
    owns_kv: bool,
) -> Layer:
    """One layer of the given mixer, with experts or a dense FFN (Nemotron-H: the mixer or the FFN alone)."""
    weights, cache, state, kind = _mixer(keys, name, family, hidden, mixer, owns_index=owns_index)
    if cache and not owns_kv:
        cache = replace(cache, owns=False)
    alone = name == "nemotron_h" or (family.norms == 1 and name.endswith(("mamba", "mamba2")))
    has_ffn = mixer.kind in ("ffn", "moe") or not alone
    ffn = _ffn(keys, name, family, hidden, experts, owns_kv=owns_kv) if has_ffn else ()
    norm = hidden * family.norms * (2 if family.norm_bias else 1)
    norms = Weight("norms", "norm", 1, norm, split="replicated", quantizable=False)
    used = experts if has_ffn else None
    return Layer(
        kind,
        (*weights, *ffn, *_extras(keys, hidden), norms),
        cache,
        state,
        used.experts if used else 0,
        used.used if used else 0,
    )


def _mixer(
    keys: Keys, name: str, family: Family, hidden: int, mixer: Mixer, *, owns_index: bool
) -> tuple[tuple[Weight, ...], Cache | None, State | None, str]:
    """Weights, cache, state and kind of the mixer."""
    kind = mixer.kind
    if kind in ("ffn", "moe"):
        return (), None, None, "none"
    if name == "falcon_h1":
        attention, cache, _, _ = _attention(keys, name, family, hidden, mixer, owns_index=False)
        recurrent, state = mamba.mamba2(keys, hidden, "mamba")
        return (*attention, *recurrent), cache, state, "parallel"
    if kind in ("full", "window", "chunk"):
        return (*_attention(keys, name, family, hidden, mixer, owns_index=owns_index),)
    if kind == "kda":
        weights, state = deltanet.kda(keys.section("linear_attn_config"), hidden)
    elif kind == "deltanet":
        weights, state = deltanet.gated_deltanet(keys, hidden)
    elif kind == "lightning":
        weights, state = deltanet.lightning(keys, hidden)
    else:
        module = "mixer" if family.attention == "mixer" else "mamba"
        weights, state = (mamba.mamba1 if kind == "mamba1" else mamba.mamba2)(keys, hidden, module)
    return weights, None, state, kind


def _attention(
    keys: Keys, name: str, family: Family, hidden: int, mixer: Mixer, *, owns_index: bool
) -> tuple[tuple[Weight, ...], Cache, None, str]:
    """MLA where `kv_lora_rank` is present, else heads."""
    if keys.raw("kv_lora_rank"):
        latent, indexer = mla.latent_of(keys), mla.indexer_of(keys)
        weights = mla.weights(hidden, latent, indexer, owns_index=owns_index)
        kind = "dsa" if indexer else "mla"
        return weights, mla.cache(latent, indexer, owns_index=owns_index), None, kind
    heads = _heads(keys, name, mixer)
    equal = name in _GEMMA4 and mixer.kind == "full" and keys.flag("attention_k_eq_v")
    sinks = name == "gpt_oss" or keys.flag(
        "add_swa_attention_sink_bias" if mixer.kind == "window" else "add_full_attention_sink_bias"
    )
    weights = gqa.weights(hidden, heads, family, keys, sinks=sinks, value_is_key=equal)
    reach = "full" if mixer.kind == "full" else mixer.kind
    cache = gqa.cache(
        heads, "window" if reach == "window" else "chunk" if reach == "chunk" else "full", mixer.span
    )
    if owns_index and (sparse := keys.section("sparse_attention_config")):
        weights, cache = _block_sparse(Keys(sparse), hidden, weights, cache)
    return weights, cache, None, cache.reach


def _heads(keys: Keys, name: str, mixer: Mixer) -> gqa.Heads:
    """Heads of the layer: Gemma 4 and MiMo-V2 have two sizes."""
    heads = gqa.heads_of(keys, name)
    if name in _GEMMA4 and mixer.kind == "full":
        size = keys.optional("global_head_dim") or heads.qk_dim
        kv = keys.optional("num_global_key_value_heads") or heads.kv
        return gqa.Heads(heads.query, kv, size, size)
    if mixer.kind == "window" and (other := keys.section("attention_other_setting")):
        return gqa.heads_of(Keys({"hidden_size": keys.positive("hidden_size"), **other}), name)
    if name in _MIMO and mixer.kind == "window":
        size = keys.optional("swa_head_dim") or heads.qk_dim
        return gqa.Heads(
            keys.optional("swa_num_attention_heads") or heads.query,
            keys.optional("swa_num_key_value_heads") or heads.kv,
            size,
            keys.optional("swa_v_head_dim") or size,
        )
    return heads


def _block_sparse(
    sparse: Keys, hidden: int, weights: tuple[Weight, ...], cache: Cache
) -> tuple[tuple[Weight, ...], Cache]:
    """MiniMax-M3: blocks chosen by an index key, GQA within; `sparse_attention_freq` leaves some layers out."""
    if not sparse.flag("use_sparse_attention"):
        return weights, cache
    dim, heads = sparse.positive("sparse_index_dim"), sparse.positive("sparse_num_index_heads")
    tokens = sparse.positive("sparse_topk_blocks") * sparse.positive("sparse_block_size")
    index = Weight("self_attn.indexer.qk", "indexer", hidden, (heads + 1) * dim, split="replicated")
    return (*weights, index), replace(cache, reach="topk", span=tokens, index_dim=dim, index_heads=heads)


def _ffn(
    keys: Keys, name: str, family: Family, hidden: int, experts: moe.Moe | None, *, owns_kv: bool
) -> tuple[Weight, ...]:
    """The dense FFN, the experts, or both side by side (Gemma 4)."""
    bias = keys.flag("mlp_bias")
    if experts:
        found = moe.experts(hidden, experts, family, bias=name == "gpt_oss")
        if name not in _GEMMA4:
            return found
        return (*found, *moe.dense(hidden, keys.positive("intermediate_size"), family))
    if name == "granitemoehybrid":
        width = keys.positive("shared_intermediate_size", "intermediate_size")
    else:
        width = moe.dense_width(keys, name, hidden)
    if keys.flag("use_double_wide_mlp") and not owns_kv:
        width *= 2
    return moe.dense(hidden, width, family, bias=bias)


def _extras(keys: Keys, hidden: int) -> tuple[Weight, ...]:
    """Gemma 3n and small Gemma 4: per-layer inputs, LAuReL and AltUp."""
    found = []
    if size := keys.optional("hidden_size_per_layer_input"):
        found.append(Weight("per_layer_input", "dense", hidden, 2 * size, split="replicated"))
    if rank := keys.optional("laurel_rank"):
        found.append(Weight("laurel", "dense", hidden, 2 * rank, split="replicated"))
    if inputs := keys.optional("altup_num_inputs"):
        width = hidden + 2 * inputs**2
        found.append(Weight("altup", "router", inputs, width, split="replicated", quantizable=False))
    return tuple(found)
