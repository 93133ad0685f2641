"""Bytes that a model takes in memory, from its config alone: what a probe must know before it starts. No torch."""

from __future__ import annotations

from kvdoctor.errors import KvdoctorError
from kvdoctor.reference.config import ModelConfig

_WIDTHS = {"fp32": 4, "bf16": 2, "fp16": 2}
# Bytes a value and bytes of scales a head vector: those of kvformat.py.
_KV = {"fp32": (4, 0), "bf16": (2, 0), "fp16": (2, 0), "fp8": (1, 0), "int8": (1, 4), "int4": (0.5, 4)}


def layer_bytes(config: ModelConfig, layer: int) -> int:
    """All weights of a layer, every expert included."""
    hidden, dim = config.hidden, config.head_dim
    rows = (config.heads + 2 * config.kv_heads) * dim
    count = rows * hidden + config.heads * dim * hidden + 2 * hidden
    count += rows * config.qkv_bias + hidden * config.o_bias + 2 * dim * config.qk_norm
    if config.has_experts(layer):
        count += config.experts * hidden * (1 + 3 * config.expert_ffn)
    else:
        count += 3 * hidden * config.ffn
    return count * _WIDTHS[config.dtype]


def outer_bytes(config: ModelConfig) -> int:
    """Embedding, head and the last norm."""
    matrices = config.vocab * config.hidden * (1 if config.tied else 2)
    return (matrices + config.hidden) * _WIDTHS[config.dtype]


def weight_bytes(config: ModelConfig) -> int:
    """The whole model."""
    return outer_bytes(config) + sum(layer_bytes(config, layer) for layer in range(config.layers))


def token_bytes(config: ModelConfig, kv_dtype: str) -> int:
    """KV of one token in one layer. Raises KvdoctorError for a dtype that is not known."""
    if kv_dtype not in _KV:
        raise KvdoctorError(f"the reference engine has no KV dtype {kv_dtype!r}", f"use {', '.join(_KV)}")
    each, scales = _KV[kv_dtype]
    return int(2 * config.kv_heads * (config.head_dim * each + scales))
