"""Feed-forward layers: dense, mixture of experts, shared experts, latent experts."""

from __future__ import annotations

from dataclasses import dataclass

from kvdoctor.roofline.family import Family
from kvdoctor.roofline.keys import Keys, refusal
from kvdoctor.roofline.shape import Weight

_EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
_USED = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "top_k_experts",
    "moe_k",
    "moe_topk",
    "moe_top_k",
)
_DENSE = ("dense_intermediate_size", "intermediate_size", "ffn_dim", "n_inner")


@dataclass(frozen=True, slots=True)
class Moe:
    """Sizes of a layer with experts."""

    experts: int
    used: int
    width: int
    shared: int
    """Width of all shared experts together; 0 without."""
    latent: int = 0
    """Size that tokens are projected to before the experts (Nemotron-3-Super, Kimi-K3); 0 for the hidden size."""
    shared_gate: bool = False


def moe_of(keys: Keys, name: str, family: Family) -> Moe | None:
    """Read the expert sizes, or None for a dense model."""
    experts = keys.optional(*_EXPERTS) or 0
    if experts <= 1 or keys.raw("enable_moe_block") is False:
        return None
    used = keys.positive(*_USED)
    if used > experts:
        raise refusal("num_experts_per_tok", f"is {used} of {experts} experts")
    width = keys.positive(family.expert_width, "moe_intermediate_size", "intermediate_size")
    latent = keys.optional("moe_latent_size", "routed_expert_hidden_size") or 0
    gate = bool(keys.optional("shared_expert_intermediate_size")) and name != "step3p7"
    return Moe(experts, used, width, _shared_width(keys, name, width), latent, gate)


def _shared_width(keys: Keys, name: str, width: int) -> int:
    """Width of the shared experts: an explicit width wins over a count times the expert width."""
    explicit = keys.optional(
        "shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim"
    )
    if explicit is not None:
        return explicit
    if name in ("llama4", "llama4_text"):
        return width
    count = keys.count("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", default=0)
    return count * keys.count("moe_shared_expert_intermediate_size", default=width)


def moe_layers(keys: Keys, layers: int) -> list[bool]:
    """Which layers have experts, for a model that has some."""
    if (flags := keys.per_layer("moe_layer_freq", layers)) is not None:
        return [bool(flag) for flag in flags]
    if (kinds := keys.per_layer("mlp_layer_types", layers)) is not None:
        return [kind == "sparse" for kind in kinds]
    if (places := keys.items("moe_layers")) is not None:
        return [i in places for i in range(layers)]
    if listed := keys.text("moe_layers_enum"):
        return [str(i) in listed.replace(" ", "").split(",") for i in range(layers)]
    if period := keys.optional("expert_layer_period"):
        offset = keys.count("expert_layer_offset", default=0)
        return [i % period == offset for i in range(layers)]
    if step := keys.optional("interleave_moe_layer_step"):
        return [(i + 1) % step == 0 for i in range(layers)]
    if step := keys.optional("decoder_sparse_step"):
        dense = keys.items("mlp_only_layers") or []
        return [i not in dense and (i + 1) % step == 0 for i in range(layers)]
    first = keys.count("first_k_dense_replace", "moe_layer_start_index", default=0)
    every = max(1, keys.count("moe_layer_freq", "moe_layer_interval", default=1))
    dense = keys.items("mlp_only_layers") or []
    return [i >= first and i % every == 0 and i not in dense for i in range(layers)]


def dense_width(keys: Keys, name: str, hidden: int) -> int:
    """FFN width of a layer without experts; 4H where GPT-2 and Falcon leave it out."""
    if name in ("llama4", "llama4_text"):
        return keys.positive("intermediate_size_mlp", "intermediate_size")
    if (each := keys.items("intermediate_size")) is not None:
        if len(set(map(str, each))) > 1 or not isinstance(each[0], int):
            raise refusal("intermediate_size", "differs from layer to layer")
        return each[0]
    found = keys.optional(*_DENSE)
    if found:
        return found
    if name in ("gpt2", "gpt_bigcode", "falcon", "bloom", "gptj"):
        return keys.count("ffn_hidden_size", default=4 * hidden)
    raise refusal("intermediate_size", "is missing")


def dense(hidden: int, width: int, family: Family, *, bias: bool = False) -> tuple[Weight, ...]:
    """3*H*I gated, 2*H*I ungated, with biases where the family has them."""
    found = [
        Weight(f"{family.ffn}.up_proj", "dense", hidden, width),
        Weight(f"{family.ffn}.down_proj", "dense", width, hidden),
    ]
    if family.gated:
        found.insert(0, Weight(f"{family.ffn}.gate_proj", "dense", hidden, width))
    if family.ffn_bias or bias:
        wide = (2 if family.gated else 1) * width + hidden
        found.append(Weight(f"{family.ffn}.vectors", "norm", 1, wide, split="replicated", quantizable=False))
    return tuple(found)


def experts(hidden: int, moe: Moe, family: Family, *, bias: bool = False) -> tuple[Weight, ...]:
    """E * 3*H*I_e (2*H*I_e ungated), router H*E, shared experts, latent projections, expert biases."""
    inner, module = moe.latent or hidden, family.ffn
    found = [
        Weight(f"{module}.experts.0.up_proj", "expert", inner, moe.width, moe.experts, "expert"),
        Weight(f"{module}.experts.0.down_proj", "expert", moe.width, inner, moe.experts, "expert"),
        Weight(f"{module}.gate", "router", hidden, moe.experts, 1, "replicated", quantizable=False),
    ]
    if family.gated:
        found.append(
            Weight(f"{module}.experts.0.gate_proj", "expert", inner, moe.width, moe.experts, "expert")
        )
    if bias:
        wide = (2 if family.gated else 1) * moe.width + inner
        found.append(
            Weight(f"{module}.experts.0.vectors", "expert", 1, wide, moe.experts, "expert", quantizable=False)
        )
    if moe.latent:
        found += [
            Weight(f"{module}.latent_down_proj", "shared", hidden, moe.latent, split="replicated"),
            Weight(f"{module}.latent_up_proj", "shared", moe.latent, hidden, split="replicated"),
        ]
    return tuple(found) + _shared(hidden, moe, family)


def _shared(hidden: int, moe: Moe, family: Family) -> tuple[Weight, ...]:
    """Shared experts: one FFN that every token passes, with a scalar gate in the Qwen families."""
    if not moe.shared:
        return ()
    module = f"{family.ffn}.shared_experts"
    found = [
        Weight(f"{module}.up_proj", "shared", hidden, moe.shared),
        Weight(f"{module}.down_proj", "shared", moe.shared, hidden),
    ]
    if family.gated:
        found.append(Weight(f"{module}.gate_proj", "shared", hidden, moe.shared))
    if moe.shared_gate:
        found.append(
            Weight(
                f"{family.ffn}.shared_expert_gate", "router", hidden, 1, 1, "replicated", quantizable=False
            )
        )
    return tuple(found)
