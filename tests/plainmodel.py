"""The same transformer in float64, token by token, without pages, caches or batches: written to be read."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kvdoctor.reference.config import ModelConfig, frequencies
from kvdoctor.reference.weights import LayerWeights, Weights


def norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + epsilon).sqrt() * weight.double()


def turned(x: Tensor, position: int, config: ModelConfig) -> Tensor:
    """[heads, dim] as complex numbers, multiplied by e^(i * angle)."""
    half = config.head_dim // 2
    angle = position * torch.tensor(frequencies(config), dtype=torch.float64)
    pairs = torch.complex(x[:, :half], x[:, half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat((pairs.real, pairs.imag), 1)


def projected(
    x: Tensor, position: int, layer: LayerWeights, config: ModelConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value heads of one token."""
    rows = layer.qkv.double() @ x
    if layer.qkv_bias is not None:
        rows = rows + layer.qkv_bias.double()
    heads = rows.view(-1, config.head_dim)
    query, key, value = heads.split((config.heads, config.kv_heads, config.kv_heads))
    if layer.q_norm is not None:
        query, key = norm(query, layer.q_norm, config.epsilon), norm(key, layer.k_norm, config.epsilon)
    return turned(query, position, config), turned(key, position, config), value


def attended(
    query: Tensor, keys: list[Tensor], values: list[Tensor], config: ModelConfig, window: int
) -> Tensor:
    """Each query head over the keys of its KV head, the last `window` of them where there is one."""
    if window:
        keys, values = keys[-window:], values[-window:]
    mixed = []
    for head in range(config.heads):
        mine = head // config.group
        scores = torch.stack([query[head] @ key[mine] for key in keys]) / math.sqrt(config.head_dim)
        mixed.append(sum(w * value[mine] for w, value in zip(scores.softmax(0), values, strict=True)))
    return torch.cat(mixed)


def mlp(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    gate, up = (gate_up.double() @ x).chunk(2)
    return down.double() @ (gate / (1 + torch.exp(-gate)) * up)


def experts(x: Tensor, layer: LayerWeights, config: ModelConfig) -> Tensor:
    shares = (layer.router.double() @ x).softmax(0)
    chosen = shares.argsort(descending=True)[: config.experts_used]
    total = shares[chosen].sum() if config.renormalize else 1.0
    return sum(
        shares[e] / total * mlp(x, layer.experts_gate_up[e], layer.experts_down[e]) for e in chosen.tolist()
    )


def logits(tokens: list[int], weights: Weights, config: ModelConfig) -> Tensor:
    """Logits after every token, [tokens, vocab]."""
    caches: list[tuple[list[Tensor], list[Tensor]]] = [([], []) for _ in weights.layers]
    found = []
    for position, token in enumerate(tokens):
        x = weights.embedding[token].double()
        for index, layer in enumerate(weights.layers):
            inside = norm(x, layer.input_norm, config.epsilon)
            query, key, value = projected(inside, position, layer, config)
            keys, values = caches[index]
            keys.append(key)
            values.append(value)
            mixed = attended(query, keys, values, config, config.window(index))
            out = layer.output.double() @ mixed
            x = x + (out if layer.output_bias is None else out + layer.output_bias.double())
            after = norm(x, layer.post_norm, config.epsilon)
            x = x + (
                experts(after, layer, config)
                if layer.router is not None
                else mlp(after, layer.gate_up, layer.down)
            )
        found.append(weights.head.double() @ norm(x, weights.norm, config.epsilon))
    return torch.stack(found)
