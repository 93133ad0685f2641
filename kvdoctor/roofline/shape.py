"""What a model is made of, as far as bytes and FLOPs go: plain frozen data, no arithmetic beyond sums."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Part = Literal[
    "embedding",  # a gather of B rows a step: resident, never read in full
    "head",  # read in full every step, tied or not
    "attention",
    "linear",  # projections and convolutions of recurrent layers (Mamba, DeltaNet, KDA, lightning)
    "dense",  # the FFN of a layer that has no experts
    "shared",  # shared experts: every token reads them
    "expert",  # routed experts: only the chosen ones are read
    "router",
    "norm",
    "indexer",  # what picks the tokens in sparse attention
]
Split = Literal[
    "tp",  # divided by the tensor-parallel width
    "kv",  # divided by the width, but never below one KV head a rank
    "expert",  # divided by the width of the expert group
    "replicated",  # whole on every rank
]
Reach = Literal["full", "window", "chunk", "topk"]


@dataclass(frozen=True, slots=True)
class Weight:
    """One matrix, or `copies` equal ones, of a layer or of the whole model."""

    module: str
    """Its name inside the layer as checkpoints spell it, such as `self_attn.q_proj`."""
    part: Part
    inputs: int
    outputs: int
    copies: int = 1
    split: Split = "tp"
    heads: int = 0
    """KV heads, where `split` is `kv`."""
    format: str = "bf16"
    """How it is stored: a name that `formats.weight_format` knows."""
    quantizable: bool = True
    """False for norms, biases, routers, convolutions and what else stays at 16 bits in every format."""

    @property
    def params(self) -> int:
        """Number of parameters in all copies."""
        return self.inputs * self.outputs * self.copies


@dataclass(frozen=True, slots=True)
class Cache:
    """The KV of one layer: what a token stores, and what a step reads of it."""

    kv_heads: int
    """Heads that store keys and values; 1 for MLA, whose latent serves all query heads."""
    k_dim: int
    """Values of one key vector; of the latent (`kv_lora_rank`) for MLA."""
    v_dim: int
    """Values of one value vector; of the rotary part (`qk_rope_head_dim`) for MLA."""
    query_heads: int
    latent: bool = False
    """True for MLA: one latent for all heads, stored once, never divided by TP."""
    head_qk: int = 0
    """MLA only: values of a decompressed query-key head (nope + rope), for prefill FLOPs."""
    head_v: int = 0
    """MLA only: values of a decompressed value head."""
    reach: Reach = "full"
    span: int = 0
    """Tokens of the window, of the chunk, or of the top-k that is read; 0 for full attention."""
    index_dim: int = 0
    """Values of the index key that this layer stores for every token (sparse attention), else 0."""
    index_heads: int = 0
    owns: bool = True
    """False where the layer borrows the KV of an earlier one: it stores nothing and still reads."""


@dataclass(frozen=True, slots=True)
class State:
    """The recurrent state of one layer and sequence, all ranks together: a fixed size, read and written."""

    kind: Literal["mamba1", "mamba2", "deltanet", "kda", "lightning"]
    conv: int
    """Values of the convolution's window, always 2 bytes each."""
    recurrent: int
    """Values of the state proper; their size depends on the engine (`kv.state_bytes`)."""
    heads: int
    """Heads it can be split over; 0 where it is split by channels."""
    configured: bool = False
    """True where the config or the model class asks for fp32, so that every engine keeps 4 bytes."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: its weights, and its cache or its state or neither (or both, side by side)."""

    kind: str
    """full, window, chunk, mla, dsa, mamba1, mamba2, deltanet, kda, lightning, parallel or none."""
    weights: tuple[Weight, ...]
    cache: Cache | None = None
    state: State | None = None
    experts: int = 0
    """Routed experts in the layer; 0 for a dense one."""
    used: int = 0
    """Experts that one token uses."""


def grouped(layers: tuple[Layer, ...]) -> tuple[tuple[Layer, int], ...]:
    """The same objects counted once, in the order of their first places."""
    counts: dict[int, int] = {}
    known: dict[int, Layer] = {}
    for layer in layers:
        known[id(layer)] = layer
        counts[id(layer)] = counts.get(id(layer), 0) + 1
    return tuple((layer, counts[key]) for key, layer in known.items())


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A model: its layers in order, the weights outside of them, and what the config says of dtypes."""

    name: str
    family: str
    """The `model_type` of the text part."""
    hidden: int
    vocab: int
    tied: bool
    layers: tuple[Layer, ...]
    outer: tuple[Weight, ...]
    """Embedding, head (absent where tied), final norm, position and per-layer embeddings."""
    draft: tuple[Layer, ...] = ()
    """Multi-token-prediction layers that ship with the checkpoint: not part of the plain totals."""
    tower_params: int = 0
    """Parameters of vision or audio towers, estimated from their few sizes: not part of the plain totals."""
    dtype: str = "bf16"
    kv_dtype: str = "bf16"
    """What `auto` means: the dtype of the model, or what the checkpoint's KV scheme asks for."""
    weight_format: str = "bf16"
    """The format that most weights have, for people; each weight carries its own."""
    max_positions: int = 0
    rope_dim: int = 0
    """Values of a head that rotary tables cover; 0 without rotary embedding."""
    basis: str = "formula from config.json"
    """Where the bytes of the weights come from: a formula, or the headers or total of the checkpoint."""
    warnings: tuple[str, ...] = ()
    groups: tuple[tuple[Layer, int], ...] = field(init=False, repr=False, compare=False)
    """The layers with equal ones counted once, worked out from `layers`."""

    def __post_init__(self) -> None:
        """Group the layers once, for all sums over them."""
        object.__setattr__(self, "groups", grouped(self.layers))


@dataclass(frozen=True, slots=True)
class Layout:
    """How the model is spread over GPUs. `tp` counts the GPUs of one pipeline stage.

    With DP attention the `tp` GPUs hold `dp_attention` independent copies of the attention, each for its own
    sequences, and share the experts (SGLang's way of counting; vLLM's `dp=8, ep` is `tp=8, dp_attention=8`).
    """

    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp_attention: int = 1
    dcp: int = 1
    """Decode context parallelism: ranks over which the KV of one sequence is divided by tokens."""

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return max(self.tp, self.ep) * self.pp

    @property
    def attention_tp(self) -> int:
        """Ranks over which one sequence's heads are divided."""
        return max(1, self.tp // max(1, self.dp_attention))

    @property
    def expert_shards(self) -> int:
        """Ranks over which the experts of a layer are divided, by TP or by EP."""
        return max(self.tp, self.ep)


@dataclass(frozen=True, slots=True)
class KvStorage:
    """How an engine stores KV, where the config leaves it open."""

    dtype: str | None = None
    """None is `auto`: the model's dtype, or what the checkpoint asks for."""
    index_dtype: str = "fp8"
    """Index keys of sparse attention: engines keep fp8 with a 4-byte scale."""
    latent: Literal["plain", "padded", "both"] = "plain"
    """MLA: rotary part padded to 128 values, or the latent kept as K and again as V."""
    windows: Literal["exact", "vllm", "llamacpp", "full"] = "exact"
    """What stays of a sliding layer: the window; window and tokens in flight in blocks; cells; everything."""
    in_flight: int = 0
    """Tokens of one step (chunk or micro-batch) that a window must also hold."""
    block_size: int = 16
    state_dtype: str | None = None
    """Recurrent states: None is 4 bytes (SGLang's default); bf16 is vLLM's where the model asks for nothing."""
    draft: bool = False
    """Whether the draft layers of the checkpoint hold KV too."""


@dataclass(frozen=True, slots=True)
class StepBytes:
    """Bytes that one rank reads (states: reads and writes) in one decode step.

    `weights` is the estimate with uniform routing; low is every token choosing the same experts, high every
    token choosing others. Dense models have one value. `kv_high` differs from `kv` for chunked attention.
    """

    weights_low: float
    weights: float
    weights_high: float
    kv: float
    kv_high: float
    state: float

    @property
    def total(self) -> float:
        """The estimate of all bytes of the step."""
        return self.weights + self.kv + self.state
