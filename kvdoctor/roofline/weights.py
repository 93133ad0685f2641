"""Parameters, resident weight bytes, and the weight bytes that a decode step reads."""

from __future__ import annotations

from dataclasses import dataclass

from kvdoctor.roofline.formats import weight_format
from kvdoctor.roofline.shape import Layer, Layout, ModelShape, Part, Weight, grouped

_ATTENTION_PARTS = ("attention", "linear", "indexer")


@dataclass(frozen=True, slots=True)
class Parameters:
    """Counts of the language model: towers and draft layers are not in them."""

    total: int
    active: float
    """Parameters that one token uses, embedding included."""
    by_part: dict[Part, int]


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes with uniform routing, and with the fewest and the most experts that a step can touch."""

    low: float
    estimate: float
    high: float


@dataclass(frozen=True, slots=True)
class Resident:
    """Weight bytes on one rank; of several pipeline stages, the fullest."""

    total: float
    """Parameters and rotary table."""
    rotary: float
    by_part: dict[Part, float]
    draft: float
    """Further bytes if the draft layers are loaded."""
    tower: float
    """Further bytes if the towers are loaded (16 bits, usually whole on every rank)."""
    stages: tuple[float, ...]


def parameters(shape: ModelShape) -> Parameters:
    """Count total and active parameters."""
    parts: dict[Part, int] = {}
    inactive = 0.0
    for layer, count in shape.groups:
        for weight in layer.weights:
            parts[weight.part] = parts.get(weight.part, 0) + count * weight.params
            if weight.part == "expert":
                inactive += count * weight.params * (1 - layer.used / layer.experts)
    for weight in shape.outer:
        parts[weight.part] = parts.get(weight.part, 0) + weight.params
    total = sum(parts.values())
    return Parameters(total, total - inactive, parts)


def distinct(experts: int, used: int, tokens: float) -> float:
    """Experts of one layer that `tokens` tokens touch under uniform independent routing: E*(1 - (1 - k/E)^B)."""
    if used >= experts:
        return float(experts)
    return float(experts * (1 - (1 - used / experts) ** tokens))


def stored_bytes(weight: Weight) -> float:
    """Bytes of all copies of a weight, before any sharding."""
    return weight_format(weight.format).size(weight.inputs, weight.outputs, weight.copies)


def rank_bytes(weight: Weight, layout: Layout) -> float:
    """Bytes of a weight on one rank of its stage.

    Column and row parallel weights are divided by TP, experts by the expert group, KV projections down to one
    head; DP attention leaves only `attention_tp` ranks for attention and recurrent layers.
    """
    width = layout.attention_tp if weight.part in _ATTENTION_PARTS else layout.tp
    divisor = {
        "tp": width,
        "kv": min(width, weight.heads or width),
        "expert": layout.expert_shards,
        "replicated": 1,
    }[weight.split]
    return stored_bytes(weight) / divisor


def stage_sizes(layers: int, stages: int) -> list[int]:
    """Layers of each pipeline stage: a remainder goes to the stages before the last (vLLM's rule)."""
    sizes = [layers // stages] * stages
    for index in range(2, layers % stages + 2):
        sizes[-index] += 1
    return sizes


def stage_layers(shape: ModelShape, layout: Layout) -> list[tuple[Layer, ...]]:
    """The layers of each pipeline stage, in order."""
    found, start = [], 0
    for size in stage_sizes(len(shape.layers), layout.pp):
        found.append(shape.layers[start : start + size])
        start += size
    return found


def rotary_bytes(shape: ModelShape, positions: int | None = None) -> float:
    """The table of sines and cosines, whole on every rank: positions * rope_dim * 2 bytes."""
    return (shape.max_positions if positions is None else positions) * shape.rope_dim * 2.0


def resident(shape: ModelShape, *, layout: Layout, positions: int | None = None) -> Resident:
    """Weight bytes that stay in memory. `positions` overrides the length of the rotary table."""
    rotary = rotary_bytes(shape, positions)
    stages = []
    for index, layers in enumerate(stage_layers(shape, layout)):
        parts: dict[Part, float] = {}
        for layer, count in grouped(layers):
            for weight in layer.weights:
                parts[weight.part] = parts.get(weight.part, 0.0) + count * rank_bytes(weight, layout)
        for weight in _stage_outer(shape, index, layout.pp):
            parts[weight.part] = parts.get(weight.part, 0.0) + rank_bytes(weight, layout)
        stages.append(parts)
    fullest = max(stages, key=lambda parts: sum(parts.values()))
    draft = sum(rank_bytes(w, layout) for layer in shape.draft for w in layer.weights)
    return Resident(
        total=sum(fullest.values()) + rotary,
        rotary=rotary,
        by_part=fullest,
        draft=draft,
        tower=2.0 * shape.tower_params,
        stages=tuple(sum(parts.values()) + rotary for parts in stages),
    )


def _stage_outer(shape: ModelShape, index: int, stages: int) -> list[Weight]:
    """First stage: embeddings. Last stage: head (the embedding again where tied) and final norm."""
    first, last = index == 0, index == stages - 1
    found = []
    for weight in shape.outer:
        if weight.part == "embedding":
            copy = last and not first and shape.tied and weight.module == "embed_tokens"
            found += [weight] if first or copy else []
        elif last:
            found.append(weight)
    return found


def read_stages(shape: ModelShape, *, tokens: float, layout: Layout) -> list[Range]:
    """Weight bytes that one rank of each pipeline stage reads in a step of `tokens` tokens.

    Everything but the embedding (a gather of a few rows) and the experts that no token chose. The head counts
    in full, tied or not. Expert reads take the tokens of the whole group, also with DP attention.
    """
    found = []
    for index, layers in enumerate(stage_layers(shape, layout)):
        fixed, ranges = 0.0, [0.0, 0.0, 0.0]
        for layer, count in grouped(layers):
            each = sum(rank_bytes(w, layout) for w in layer.weights if w.part == "expert")
            fixed += count * sum(rank_bytes(w, layout) for w in layer.weights if w.part != "expert")
            if each:
                for slot, touched in enumerate(_touched(layer, tokens)):
                    ranges[slot] += count * each * touched / layer.experts
        if index == layout.pp - 1:
            fixed += head_bytes(shape, layout)
        low, estimate, high = (fixed + part for part in ranges)
        found.append(Range(low, estimate, high))
    return found


def _touched(layer: Layer, tokens: float) -> tuple[float, float, float]:
    """Fewest, expected and most experts that the tokens of a step touch."""
    few = min(float(layer.used), layer.used * tokens)
    most = min(float(layer.experts), layer.used * tokens)
    return few, min(most, max(few, distinct(layer.experts, layer.used, tokens))), most


def head_bytes(shape: ModelShape, layout: Layout) -> float:
    """Bytes of the head and what else outside the layers every token reads, on one rank."""
    total = sum(rank_bytes(w, layout) for w in shape.outer if w.part != "embedding")
    if shape.tied:
        total += sum(rank_bytes(w, layout) for w in shape.outer if w.module == "embed_tokens")
    return total


def read_bytes(shape: ModelShape, *, tokens: float, layout: Layout) -> Range:
    """Weight bytes of a step on one rank: the sum over pipeline stages, through which a token passes in turn."""
    stages = read_stages(shape, tokens=tokens, layout=layout)
    return Range(sum(s.low for s in stages), sum(s.estimate for s in stages), sum(s.high for s in stages))
