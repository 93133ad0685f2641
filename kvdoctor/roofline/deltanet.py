"""Linear attention with a matrix state: gated DeltaNet, KDA (Kimi Linear) and lightning attention."""

from __future__ import annotations

from kvdoctor.roofline.keys import Json, Keys
from kvdoctor.roofline.mamba import state_asked
from kvdoctor.roofline.shape import State, Weight

_MODULE = "linear_attn"


def gated_deltanet(keys: Keys, hidden: int) -> tuple[tuple[Weight, ...], State]:
    """H*(2*nk*dk + 2*nv*dv) + 2*H*nv + conv*(2*nk*dk + nv*dv) + nv*dv*H; state nv*dk*dv and the convolution."""
    key_heads, key_dim = keys.positive("linear_num_key_heads"), keys.positive("linear_key_head_dim")
    heads, value_dim = keys.positive("linear_num_value_heads"), keys.positive("linear_value_head_dim")
    conv = keys.count("linear_conv_kernel_dim", default=4)
    wide, mixed = heads * value_dim, 2 * key_heads * key_dim + heads * value_dim
    found = (
        Weight(f"{_MODULE}.in_proj_qkv", "linear", hidden, mixed),
        Weight(f"{_MODULE}.in_proj_z", "linear", hidden, wide),
        Weight(f"{_MODULE}.in_proj_ba", "linear", hidden, 2 * heads, quantizable=False),
        Weight(f"{_MODULE}.conv1d", "linear", conv, mixed, quantizable=False),
        Weight(f"{_MODULE}.vectors", "linear", 1, 2 * heads + value_dim, quantizable=False),
        Weight(f"{_MODULE}.out_proj", "linear", wide, hidden),
    )
    state = State("deltanet", (conv - 1) * mixed, heads * key_dim * value_dim, heads, state_asked(keys))
    return found, state


def kda(section: Json, hidden: int) -> tuple[tuple[Weight, ...], State]:
    """Kimi delta attention: q, k, v, o and low-rank decay and output gates; state 3*(conv-1)*h*d and h*d*d."""
    keys = Keys(section)
    heads, size = keys.positive("num_heads"), keys.positive("head_dim")
    conv = keys.count("short_conv_kernel_size", default=4)
    wide = heads * size
    low_rank = Weight("self_attn.f_a_proj", "linear", hidden, size, split="replicated")
    gate = (
        (Weight("self_attn.g_proj", "linear", hidden, wide),)
        if keys.flag("use_full_rank_gate")
        else (
            Weight("self_attn.g_a_proj", "linear", hidden, size, split="replicated"),
            Weight("self_attn.g_b_proj", "linear", size, wide),
        )
    )
    found = (
        Weight("self_attn.qkv_proj", "linear", hidden, 3 * wide),
        Weight("self_attn.conv1d", "linear", conv, 3 * wide, quantizable=False),
        low_rank,
        Weight("self_attn.f_b_proj", "linear", size, wide),
        *gate,
        Weight("self_attn.b_proj", "linear", hidden, heads),
        Weight("self_attn.vectors", "linear", 1, wide + heads + size, quantizable=False),
        Weight("self_attn.o_proj", "linear", wide, hidden),
    )
    return found, State("kda", 3 * (conv - 1) * wide, heads * size * size, heads, True)


def lightning(keys: Keys, hidden: int) -> tuple[tuple[Weight, ...], State]:
    """Lightning attention (MiniMax-Text-01): q, k, v, output gate and o of h*d; state h*d*d."""
    heads = keys.positive("num_attention_heads")
    size = keys.optional("head_dim") or hidden // heads
    wide = heads * size
    found = (
        Weight("self_attn.qkv_proj", "linear", hidden, 3 * wide),
        Weight("self_attn.output_gate", "linear", hidden, wide),
        Weight("self_attn.vectors", "linear", 1, wide, quantizable=False),
        Weight("self_attn.out_proj", "linear", wide, hidden),
    )
    return found, State("lightning", 0, heads * size * size, heads, state_asked(keys))
