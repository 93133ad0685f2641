"""A decoder-only transformer over paged KV: rotary GQA attention, gated MLP or experts, greedy tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from kvdoctor.reference import attention
from kvdoctor.reference.batch import Batch, batch_of
from kvdoctor.reference.cache import PagedCache
from kvdoctor.reference.config import ModelConfig, frequencies
from kvdoctor.reference.engine import Output
from kvdoctor.reference.heads import enter
from kvdoctor.reference.linear import gated, linear, norm
from kvdoctor.reference.request import Plan
from kvdoctor.reference.weights import LayerWeights, Weights


class Transformer:
    """Weights and a cache, ready to run plans. On a CPU activations are fp32; on a GPU they have the weights' dtype."""

    def __init__(
        self, config: ModelConfig, weights: Weights, cache: PagedCache, *, native: bool = True
    ) -> None:
        """`native=False` keeps to torch where a compiled path exists."""
        self.config = config
        self.weights = weights
        self.cache = cache
        self.native = native
        self.device = str(weights.norm.device)
        self.dtype = weights.norm.dtype if weights.norm.is_cuda else torch.float32
        self._frequencies = torch.tensor(frequencies(config), device=self.device)
        self._fixed_bytes = weights.fixed_bytes()
        self._norms = tuple(_norms_of(layer, self.dtype) for layer in weights.layers)
        self._last_norm = weights.norm.to(self.dtype)

    def run(self, plan: Plan) -> Output:
        """Compute a plan: the greedy next tokens, and the bytes counted."""
        batch, names = batch_of(plan, self.cache.page, self.device)
        logits, experts_bytes = self.logits(batch)
        tokens = dict(zip(names, logits.argmax(-1).tolist(), strict=True)) if names else {}
        written = len(batch.tokens) * self.config.layers * self.cache.token_bytes()
        return Output(tokens, self._fixed_bytes + experts_bytes, self.kv_bytes(batch), written)

    def logits(self, batch: Batch) -> tuple[Tensor, int]:
        """Logits of the sampled rows [samples, vocab] in fp32, and the bytes of the experts that were chosen."""
        with torch.inference_mode():
            return self._forward(batch)

    def _forward(self, batch: Batch) -> tuple[Tensor, int]:
        """All layers, then the head on the sampled rows."""
        x = functional.embedding(batch.tokens, self.weights.embedding).to(self.dtype)
        angles = batch.positions[:, None] * self._frequencies
        turn = (angles.cos().to(self.dtype)[:, None], angles.sin().to(self.dtype)[:, None])
        experts_bytes = 0
        for index, layer in enumerate(self.weights.layers):
            norms = self._norms[index]
            x = self._attention(index, layer, x, batch, turn)
            after = norm(x, norms.post, self.config.epsilon, native=self.native)
            if layer.router is None:
                x = self._mlp(after, layer.gate_up, layer.down, x)
            else:
                mixed, touched = self._experts(after, layer)
                x, experts_bytes = x + mixed, experts_bytes + touched * layer.expert_bytes
        last = norm(x[batch.samples], self._last_norm, self.config.epsilon, native=self.native)
        return self._linear(last, self.weights.head).float(), experts_bytes

    def kv_bytes(self, batch: Batch) -> int:
        """KV that the attention of a step reads: each sequence's reached tokens in each layer, a window's at most.

        A chunk reads its context once, however many of its tokens look at it.
        """
        reached = 0
        for layer in range(self.config.layers):
            window = self.config.window(layer)
            for tokens, length in batch.lengths:
                reached += min(length, window + tokens - 1) if window else length
        return reached * self.cache.token_bytes()

    def _attention(
        self, index: int, layer: LayerWeights, x: Tensor, batch: Batch, turn: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Norm, project, turn, store, attend, project back; added to x."""
        norms = self._norms[index]
        inside = norm(x, norms.input, self.config.epsilon, native=self.native)
        projected = self._linear(inside, layer.qkv, layer.qkv_bias)
        query = enter(projected, norms.heads, turn, self.cache, index, batch.slots, native=self.native)
        parts = []
        if batch.decode is not None:
            parts.append(
                attention.decode(query[: batch.rows], self.cache, index, batch.decode, native=self.native)
            )
        for part in batch.chunks:
            rows = query[part.first : part.first + part.count]
            parts.append(attention.chunk(rows, self.cache, index, part.table, part.length))
        mixed = parts[0] if len(parts) == 1 else torch.cat(parts)
        return self._linear(mixed.flatten(1), layer.output, layer.output_bias, x)

    def _mlp(
        self, x: Tensor, gate_up: Tensor | None, down: Tensor | None, to: Tensor | None = None
    ) -> Tensor:
        """silu(gate) * up, projected down; added to `to` where given."""
        return self._linear(gated(self._linear(x, gate_up), native=self.native), down, None, to)

    def _experts(self, x: Tensor, layer: LayerWeights) -> tuple[Tensor, int]:
        """The weighted sum of each token's experts, and how many experts any token chose."""
        scores = self._linear(x, layer.router).float().softmax(-1)
        shares, chosen = scores.topk(self.config.experts_used, dim=-1)
        if self.config.renormalize:
            shares = shares / shares.sum(-1, keepdim=True)
        result = torch.zeros_like(x)
        touched = chosen.unique().tolist()
        if layer.experts_gate_up is None or layer.experts_down is None:
            return result, 0
        for expert in touched:
            rows, places = (chosen == expert).nonzero(as_tuple=True)
            given = self._mlp(x[rows], layer.experts_gate_up[expert], layer.experts_down[expert])
            result.index_add_(0, rows, given * shares[rows, places, None].to(x.dtype))
        return result, len(touched)

    def _linear(
        self, x: Tensor, weight: Tensor | None, bias: Tensor | None = None, to: Tensor | None = None
    ) -> Tensor:
        """A product with a weight."""
        return linear(x, weight, bias, to=to, native=self.native)


@dataclass(frozen=True, slots=True)
class _Norms:
    """The norms of a layer in the dtype of the activations."""

    input: Tensor
    post: Tensor
    heads: tuple[Tensor, Tensor] | None


def _norms_of(layer: LayerWeights, dtype: torch.dtype) -> _Norms:
    """Copies where the dtypes differ: some kilobytes."""
    heads = None
    if layer.q_norm is not None and layer.k_norm is not None:
        heads = (layer.q_norm.to(dtype), layer.k_norm.to(dtype))
    return _Norms(layer.input_norm.to(dtype), layer.post_norm.to(dtype), heads)
