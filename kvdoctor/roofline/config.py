"""From a published `config.json` to the shape of the model, or a refusal that names the key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvdoctor.roofline import mla, moe, quantization
from kvdoctor.roofline.build import layer_of
from kvdoctor.roofline.draft import draft_layers, tower_params
from kvdoctor.roofline.family import Family, family_of, tied
from kvdoctor.roofline.formats import weight_format
from kvdoctor.roofline.keys import Json, Keys, refusal, text_part
from kvdoctor.roofline.nas import nas_layers
from kvdoctor.roofline.outer import outer_weights, rope_dim
from kvdoctor.roofline.pattern import mixers
from kvdoctor.roofline.scheme import Scheme, scheme_of
from kvdoctor.roofline.shape import Layer, ModelShape

# Keys that change the shape, and the families in which they are understood. Elsewhere they are refused.
_STRUCTURAL: dict[str, tuple[str, ...]] = {
    "compress_ratios": (),
    "cross_attention_layers": (),
    "mlp_module_per_layer": (),
    "block_configs": ("nemotron-nas",),
    "sparse_attention_config": ("minimax_m3",),
    "linear_attn_config": ("kimi_linear", "kimi_k3"),
    "hybrid_override_pattern": ("nemotron_h",),
    "layers_block_type": ("nemotron_h", "jamba", "bamba", "granitemoehybrid"),
    "hybrid_layer_pattern": ("mimo_v2", "mimo_v2_flash"),
    "attn_type_list": ("minimax", "minimax_text_01", "minimax_m2"),
    "attn_layer_period": ("jamba",),
    "attn_layer_indices": ("bamba",),
    "linear_num_key_heads": ("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"),
    "num_kv_shared_layers": ("gemma3n", "gemma3n_text", "gemma4", "gemma4_text"),
    "global_head_dim": ("gemma4", "gemma4_text"),
    "swa_num_key_value_heads": ("mimo_v2", "mimo_v2_flash"),
    "moe_latent_size": ("nemotron_h",),
    "routed_expert_hidden_size": ("kimi_linear", "kimi_k3"),
    "mamba_d_state": ("jamba", "bamba", "granitemoehybrid", "falcon_h1"),
    "ssm_cfg": (),
    "altup_num_inputs": ("gemma3n", "gemma3n_text"),
}
# No model has as many layers.
_MOST_LAYERS = 10_000
# Understood in part: answered, with a warning that names the key.
_PARTLY = {
    "attn_res_block_size": "residual attention over earlier blocks is not modelled; KV and experts are",
    "add_cross_attention": "cross-attention is not modelled",
}


def shape_from_config(config: Json, *, side: Json | None = None, name: str = "") -> ModelShape:
    """The shape of a model from its config, and `hf_quant_config.json` as `side` where there is one.

    Raises KvdoctorError naming the key that is missing or not understood: nothing is guessed silently.
    """
    if not isinstance(config, Mapping):
        raise refusal("config", "is not a JSON object")
    keys = text_part(config)
    for key in (key for key, known in _STRUCTURAL.items() if not known and keys.raw(key)):
        raise refusal(key, f"is not modelled (model_type {keys.text('model_type')!r})")
    family_name, family = family_of(keys)
    _check_structure(keys, family_name)
    parts = _Parts(keys, family_name, family, keys.positive("hidden_size", "n_embd", "d_model"))
    layers = parts.layers()
    dtype = _dtype(keys)
    scheme, kv_dtype = scheme_of(keys.values, side)
    draft = draft_layers(keys, layers, parts.hidden)
    is_tied = tied(keys, family_name, family, parts.hidden)
    shape = ModelShape(
        name=name or keys.text("_name_or_path", default=family_name),
        family=family_name,
        hidden=parts.hidden,
        vocab=keys.positive("vocab_size"),
        tied=is_tied,
        layers=layers,
        outer=outer_weights(keys, family_name, family, parts.hidden, is_tied, len(layers)),
        draft=draft,
        tower_params=tower_params(config),
        dtype=dtype,
        kv_dtype=kv_dtype or ("bf16" if dtype in ("fp8", "bf16") else dtype),
        weight_format=dtype,
        max_positions=keys.count("max_position_embeddings", "n_positions", "n_ctx", default=0),
        rope_dim=rope_dim(keys, family, layers),
        warnings=_warnings(keys, family),
    )
    return _with_formats(shape, scheme)


def _with_formats(shape: ModelShape, scheme: Scheme | None) -> ModelShape:
    """Give every weight its format."""
    if shape.dtype not in ("bf16", "fp16"):
        shape = quantization.reformatted(shape, weights=shape.dtype, head=shape.dtype, embedding=shape.dtype)
    return quantization.scheme_applied(shape, scheme) if scheme else shape


def _dtype(keys: Keys) -> str:
    """The dtype of weights that no scheme names; bf16 where the config has none."""
    return weight_format(keys.text("dtype", "torch_dtype", default="bf16").removeprefix("torch.")).name


def _check_structure(keys: Keys, name: str) -> None:
    """Refuse keys that change the shape of a family in which they are not known, and unknown lists of dicts."""
    for key, known in _STRUCTURAL.items():
        value = keys.raw(key)
        if value and value != -1 and name not in known:
            raise refusal(key, f"is not understood for model_type {name!r}")
    for key, value in keys.values.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping) and key not in _STRUCTURAL:
            raise refusal(key, "is a list of per-layer settings that is not understood")
    if keys.raw("index_topk") and not keys.raw("kv_lora_rank"):
        raise refusal("index_topk", "is set without `kv_lora_rank`")


def _warnings(keys: Keys, family: Family) -> tuple[str, ...]:
    """What is assumed rather than known."""
    found = [f"`{key}`: {text}" for key, text in _PARTLY.items() if keys.raw(key)]
    if family.caveat:
        found.append(family.caveat)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What all layers of a config are built from."""

    keys: Keys
    name: str
    family: Family
    hidden: int

    def layers(self) -> tuple[Layer, ...]:
        """Every layer in order; equal ones are the same object."""
        count = self.keys.positive("num_hidden_layers", "n_layer", "num_layers")
        if count > _MOST_LAYERS:
            raise refusal("num_hidden_layers", f"is {count}")
        if self.name == "nemotron-nas":
            return nas_layers(self.keys, self.family, self.hidden, count)
        kinds = mixers(self.keys, self.name, self.family, count)
        experts = moe.moe_of(self.keys, self.name, self.family)
        sparse = moe.moe_layers(self.keys, count) if experts else [False] * count
        owners = mla.index_owners(self.keys, count)
        if (
            freq := Keys(self.keys.section("sparse_attention_config")).per_layer(
                "sparse_attention_freq", count
            )
        ) is not None:
            owners = [bool(flag) for flag in freq]
        shared = self.keys.count("num_kv_shared_layers", default=0)
        built: dict[tuple[object, ...], Layer] = {}
        found = []
        for index, (kind, has_experts, owner) in enumerate(zip(kinds, sparse, owners, strict=True)):
            key = (kind, has_experts, owner, index >= count - shared)
            if key not in built:
                built[key] = layer_of(
                    self.keys,
                    self.name,
                    self.family,
                    self.hidden,
                    kind,
                    experts if has_experts or kind.kind == "moe" else None,
                    owns_index=owner,
                    owns_kv=index < count - shared,
                )
            found.append(built[key])
        return tuple(found)
