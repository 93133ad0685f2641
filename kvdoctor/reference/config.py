"""What the engine needs to know of a model, read from a `config.json` of the Llama and Qwen families."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kvdoctor.errors import KvdoctorError

Json = Mapping[str, object]
_DTYPES = {
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "fp32": "fp32",
    "bf16": "bf16",
    "fp16": "fp16",
}
_TYPES = ("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe")
# Model classes tie embedding and head by default up to these hidden sizes, where the key is absent.
_TIED_UP_TO = {"qwen2": 2048, "qwen3": 2560}
_ROPES = ("default", "linear", "llama3")
# Keys of other mixers and of latent attention: such a model is not a plain GQA transformer.
_FOREIGN = (
    "kv_lora_rank",
    "linear_num_key_heads",
    "hybrid_override_pattern",
    "attn_layer_period",
    "block_configs",
)


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary embedding. `factor` and the rest are those of linear and llama3 scaling."""

    theta: float = 10000.0
    kind: str = "default"
    factor: float = 1.0
    low: float = 1.0
    high: float = 4.0
    original: int = 8192


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes of a decoder-only transformer."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    ffn: int
    """Width of a dense gated MLP."""
    tied: bool = False
    windows: tuple[int, ...] = ()
    """Tokens that each layer attends to, 0 for all; empty: all layers attend to everything."""
    experts: int = 0
    experts_used: int = 0
    expert_ffn: int = 0
    sparse: tuple[bool, ...] = ()
    """Which layers have experts; empty: all, where there are any."""
    renormalize: bool = True
    """Whether the chosen experts' weights are made to sum up to 1."""
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: bool = False
    rope: Rope = Rope()
    epsilon: float = 1e-6
    dtype: str = "bf16"
    """fp32, bf16 or fp16."""

    @property
    def group(self) -> int:
        """Query heads a KV head."""
        return self.heads // self.kv_heads

    def window(self, layer: int) -> int:
        """Tokens that a layer attends to, its own included; 0 for all."""
        return self.windows[layer] if self.windows else 0

    def has_experts(self, layer: int) -> bool:
        """Whether a layer's MLP is a mixture of experts."""
        return self.experts > 0 and (not self.sparse or self.sparse[layer])

    def with_layers(self, layers: int) -> ModelConfig:
        """The first layers alone, for a fit over the number of layers."""
        return replace(self, layers=layers, windows=self.windows[:layers], sparse=self.sparse[:layers])


def config_of(config: Json) -> ModelConfig:
    """Read a config. Raises KvdoctorError naming what is not a plain GQA transformer."""
    kind = str(config.get("model_type", ""))
    if kind not in _TYPES:
        raise KvdoctorError(
            f"the reference engine does not run model_type {kind!r}", f"it runs {', '.join(_TYPES)}"
        )
    if foreign := next((key for key in _FOREIGN if config.get(key)), None):
        raise KvdoctorError(f"the reference engine does not run models with `{foreign}`", "use a GQA model")
    layers, heads, hidden = (
        _int(config, k) for k in ("num_hidden_layers", "num_attention_heads", "hidden_size")
    )
    experts = _int(config, "num_local_experts", "num_experts", default=0)
    kv_heads = _int(config, "num_key_value_heads", default=heads)
    if not kv_heads or heads % kv_heads:
        raise KvdoctorError(f"{kv_heads} KV heads do not divide {heads} query heads", "check the config")
    return ModelConfig(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=_int(config, "head_dim", default=hidden // heads),
        vocab=_int(config, "vocab_size"),
        ffn=_int(config, "intermediate_size", default=0 if experts else None),
        tied=bool(config.get("tie_word_embeddings", hidden <= _TIED_UP_TO.get(kind, 0))),
        windows=_windows(config, layers, kind),
        experts=experts,
        experts_used=_int(config, "num_experts_per_tok", default=0),
        expert_ffn=_int(config, "moe_intermediate_size", "intermediate_size", default=0),
        sparse=_sparse(config, layers) if experts else (),
        renormalize=kind == "mixtral" or bool(config.get("norm_topk_prob", kind != "qwen3_moe")),
        qkv_bias=kind == "qwen2" or bool(config.get("attention_bias")),
        o_bias=kind != "qwen2" and bool(config.get("attention_bias")),
        qk_norm=kind in ("qwen3", "qwen3_moe"),
        rope=_rope(config),
        epsilon=_float(config, "rms_norm_eps", 1e-6),
        dtype=_dtype(config),
    )


def _int(config: Json, *names: str, default: int | None = None) -> int:
    """The first of the keys that holds a whole number."""
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    if default is None:
        raise KvdoctorError(f"the config has no `{names[0]}`", "give the config.json of the model")
    return default


def _float(config: Json, name: str, default: float) -> float:
    """A number, or its default."""
    value = config.get(name)
    return float(value) if isinstance(value, int | float) else default


def _dtype(config: Json) -> str:
    """The dtype of the weights; quantized checkpoints are measured at the width of their other weights."""
    name = str(config.get("dtype") or config.get("torch_dtype") or "bfloat16").removeprefix("torch.")
    if name not in _DTYPES:
        raise KvdoctorError(
            f"the reference engine has no weights of dtype {name!r}", "use float32, bfloat16, float16"
        )
    return _DTYPES[name]


def _windows(config: Json, layers: int, kind: str) -> tuple[int, ...]:
    """Sliding layers: named one by one, else all of a Mistral, else those from `max_window_layers` on (Qwen)."""
    span = _int(config, "sliding_window", default=0)
    longest = _int(config, "max_position_embeddings", default=0)
    if not span or config.get("use_sliding_window") is False or (longest and span >= longest):
        return ()
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        return tuple(span if kind == "sliding_attention" else 0 for kind in kinds)
    first = 0 if kind in ("mistral", "mixtral") else _int(config, "max_window_layers", default=0)
    return tuple(span if layer >= first else 0 for layer in range(layers))


def _sparse(config: Json, layers: int) -> tuple[bool, ...]:
    """Layers with experts: every `decoder_sparse_step`-th that is not listed as dense."""
    step = max(1, _int(config, "decoder_sparse_step", default=1))
    listed = config.get("mlp_only_layers")
    dense = listed if isinstance(listed, list) else []
    return tuple((layer + 1) % step == 0 and layer not in dense for layer in range(layers))


def _rope(config: Json) -> Rope:
    """Rotary settings, under either of their two names."""
    found = config.get("rope_parameters") or config.get("rope_scaling") or {}
    scaling: Json = found if isinstance(found, Mapping) else {}
    kind = str(scaling.get("rope_type") or scaling.get("type") or "default")
    if kind not in _ROPES:
        raise KvdoctorError(f"rotary scaling {kind!r} is not known here", f"known are {', '.join(_ROPES)}")
    return Rope(
        theta=_float(scaling, "rope_theta", _float(config, "rope_theta", 10000.0)),
        kind=kind,
        factor=_float(scaling, "factor", 1.0),
        low=_float(scaling, "low_freq_factor", 1.0),
        high=_float(scaling, "high_freq_factor", 4.0),
        original=_int(scaling, "original_max_position_embeddings", default=8192),
    )


def frequencies(config: ModelConfig) -> list[float]:
    """Radians a position of each pair of a head, scaled as the config asks."""
    rope = config.rope
    plain = [rope.theta ** (-2 * i / config.head_dim) for i in range(config.head_dim // 2)]
    if rope.kind == "linear":
        return [f / rope.factor for f in plain]
    return [_llama3(f, rope) for f in plain] if rope.kind == "llama3" else plain


def _llama3(frequency: float, rope: Rope) -> float:
    """Llama 3.1: long waves are slowed down by `factor`, short ones kept, those between blended."""
    turns = rope.original * frequency / (2 * math.pi)
    share = min(1.0, max(0.0, (turns - rope.low) / (rope.high - rope.low)))
    return frequency * (share + (1 - share) / rope.factor)
