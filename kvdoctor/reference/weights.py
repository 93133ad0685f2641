"""The weights of a model: random ones from a seed, in the layout that a step reads them in."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from kvdoctor.reference.config import ModelConfig
from kvdoctor.reference.memory import empty

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer. Q, K and V are one matrix, gate and up another: a step reads each in one product."""

    input_norm: Tensor
    qkv: Tensor
    output: Tensor
    post_norm: Tensor
    gate_up: Tensor | None = None
    down: Tensor | None = None
    router: Tensor | None = None
    experts_gate_up: Tensor | None = None
    """[experts, 2 * width, hidden]"""
    experts_down: Tensor | None = None
    """[experts, hidden, width]"""
    qkv_bias: Tensor | None = None
    output_bias: Tensor | None = None
    q_norm: Tensor | None = None
    k_norm: Tensor | None = None

    def fixed(self) -> Iterator[Tensor]:
        """What every step reads in full: everything but the experts."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not field.name.startswith("experts_"):
                yield value

    @property
    def expert_bytes(self) -> int:
        """Bytes of one expert; 0 for a dense layer."""
        if self.experts_gate_up is None or self.experts_down is None:
            return 0
        return int(self.experts_gate_up[0].nbytes + self.experts_down[0].nbytes)


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights of a model."""

    embedding: Tensor
    layers: tuple[LayerWeights, ...]
    norm: Tensor
    head: Tensor
    """The embedding itself where the model ties them."""

    def fixed_bytes(self) -> int:
        """Bytes that a step reads whatever its tokens: no embedding (a gather of rows), no experts; the head counts."""
        layers = sum(int(tensor.nbytes) for layer in self.layers for tensor in layer.fixed())
        return layers + int(self.norm.nbytes) + int(self.head.nbytes)

    def resident_bytes(self) -> int:
        """Bytes in memory."""
        experts = sum(
            int(tensor.nbytes)
            for layer in self.layers
            for tensor in (layer.experts_gate_up, layer.experts_down)
            if tensor is not None
        )
        embedding = 0 if self.head is self.embedding else int(self.embedding.nbytes)
        return self.fixed_bytes() + experts + embedding


class Random:
    """Makes matrices of uniform numbers from one seed; on the device `meta` only their sizes."""

    def __init__(self, seed: int, dtype: torch.dtype, device: str) -> None:
        self.dtype, self.device = dtype, device
        self.generator = None if device == "meta" else torch.Generator(device).manual_seed(seed)

    def matrix(self, *shape: int) -> Tensor:
        """Uniform, with the variance that keeps activations at their size: 1 / inputs."""
        bound = math.sqrt(3.0 / shape[-1])
        made = empty(shape, self.dtype, self.device)
        return made.uniform_(-bound, bound, generator=self.generator)

    def vector(self, size: int, around: float) -> Tensor:
        """Uniform within a tenth of `around`: no norm or bias is trivial."""
        made = torch.empty(size, dtype=self.dtype, device=self.device)
        return made.uniform_(around - 0.1, around + 0.1, generator=self.generator)


def random_weights(config: ModelConfig, *, seed: int = 0, device: str = "cpu") -> Weights:
    """Weights that no two seeds share."""
    make = Random(seed, DTYPES[config.dtype], device)
    embedding = make.matrix(config.vocab, config.hidden)
    layers = tuple(_layer(make, config, layer) for layer in range(config.layers))
    head = embedding if config.tied else make.matrix(config.vocab, config.hidden)
    return Weights(embedding, layers, make.vector(config.hidden, 1.0), head)


def _layer(make: Random, config: ModelConfig, layer: int) -> LayerWeights:
    """One layer of random numbers."""
    hidden, dim = config.hidden, config.head_dim
    width, rows = config.heads * dim, (config.heads + 2 * config.kv_heads) * dim
    found: dict[str, Tensor] = {
        "input_norm": make.vector(hidden, 1.0),
        "qkv": make.matrix(rows, hidden),
        "output": make.matrix(hidden, width),
        "post_norm": make.vector(hidden, 1.0),
    }
    if config.qkv_bias:
        found["qkv_bias"] = make.vector(rows, 0.0)
    if config.o_bias:
        found["output_bias"] = make.vector(hidden, 0.0)
    if config.qk_norm:
        found["q_norm"], found["k_norm"] = make.vector(dim, 1.0), make.vector(dim, 1.0)
    if config.has_experts(layer):
        found["router"] = make.matrix(config.experts, hidden)
        found["experts_gate_up"] = make.matrix(config.experts, 2 * config.expert_ffn, hidden)
        found["experts_down"] = make.matrix(config.experts, hidden, config.expert_ffn)
    else:
        found["gate_up"], found["down"] = make.matrix(2 * config.ffn, hidden), make.matrix(hidden, config.ffn)
    return LayerWeights(**found)
