"""Mamba-1 and Mamba-2 layers: their projections and the state they keep in place of KV."""

from __future__ import annotations

from kvdoctor.roofline.keys import Keys
from kvdoctor.roofline.shape import State, Weight

_SSM_DTYPE = ("mamba_ssm_cache_dtype", "mamba_ssm_dtype")


def state_asked(keys: Keys, *, by_class: bool = False) -> bool:
    """Whether the config (or its class) fixes the state to fp32 for every engine."""
    return by_class or keys.text(*_SSM_DTYPE) in ("float32", "fp32")


def mamba1(keys: Keys, hidden: int, module: str) -> tuple[tuple[Weight, ...], State]:
    """2*H*di + conv*di + di*(dt_rank + 2N) + dt_rank*di + di*N + di*H; state (conv-1)*di and di*N."""
    inner = keys.count("intermediate_size", default=0) if keys.text("model_type").endswith("mamba") else 0
    inner = inner or keys.count("mamba_expand", "expand", default=2) * hidden
    states = keys.count("mamba_d_state", "state_size", default=16)
    conv = keys.count("mamba_d_conv", "conv_kernel", default=4)
    rank = keys.raw("mamba_dt_rank", "time_step_rank")
    rank = int(rank) if isinstance(rank, int) else -(-hidden // 16)
    found = (
        Weight(f"{module}.in_proj", "linear", hidden, 2 * inner),
        Weight(f"{module}.conv1d", "linear", conv + 1, inner, quantizable=False),
        Weight(f"{module}.x_proj", "linear", inner, rank + 2 * states),
        Weight(f"{module}.dt_proj", "linear", rank, inner),
        Weight(f"{module}.A_log", "linear", inner, states + 2, quantizable=False),
        Weight(f"{module}.out_proj", "linear", inner, hidden),
    )
    return found, State("mamba1", (conv - 1) * inner, inner * states, 0, state_asked(keys))


def mamba2(keys: Keys, hidden: int, module: str) -> tuple[tuple[Weight, ...], State]:
    """H*(2*di + 2*G*N + heads) + conv*(di + 2*G*N) + di*H; state (conv-1)*(di + 2GN) and heads*head_dim*N."""
    heads = keys.positive("mamba_num_heads", "mamba_n_heads", "num_heads")
    size = keys.positive("mamba_head_dim", "mamba_d_head", "head_dim")
    groups = keys.count("mamba_n_groups", "n_groups", default=1)
    states = keys.positive("ssm_state_size", "mamba_d_state", "state_size")
    conv = keys.count("conv_kernel", "mamba_d_conv", default=4)
    inner = heads * size
    mixed = inner + 2 * groups * states
    found = (
        Weight(f"{module}.in_proj", "linear", hidden, inner + mixed + heads),
        Weight(f"{module}.conv1d", "linear", conv + 1, mixed, quantizable=False),
        Weight(f"{module}.vectors", "linear", 1, 3 * heads + inner, quantizable=False),
        Weight(f"{module}.out_proj", "linear", inner, hidden),
    )
    asked = state_asked(keys, by_class=keys.text("model_type") == "nemotron_h")
    return found, State("mamba2", (conv - 1) * mixed, inner * states, heads, asked)
