"""Changes to a service, each a function from its question to the changed one, or None where it does not apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline import kv, weights
from kvdoctor.roofline.fit import sequence_bytes, widened
from kvdoctor.roofline.quantization import reformatted
from kvdoctor.roofline.question import Question
from kvdoctor.roofline.shape import Layer, ModelShape, Weight
from kvdoctor.roofline.speculation import accepted_tokens

Kind = Literal["service", "machine", "model", "load"]
# A share of the bytes that a change must save to be a change at all.
_WORTH = 0.01
# Query heads that share a KV head in the GQA models that followed MHA ones (Llama 3, Mistral: 32 over 8).
_GROUP = 4
# What a drafted token's acceptance is taken to be where nobody measured it.
ASSUMED_ACCEPTANCE = 0.7
ASSUMED_DRAFTED = 3


@dataclass(frozen=True, slots=True)
class Change:
    """One what-if."""

    name: str
    kind: Kind
    """What it takes: a setting of the service, more machines, another model; or `load`, which is no remedy."""
    note: str
    apply: Callable[[Question], Question | None]


def _kv_dtype(dtype: str) -> Callable[[Question], Question | None]:
    """Store KV in another dtype, where that is smaller and the model's layers allow it."""

    def apply(question: Question) -> Question | None:
        changed = replace(question, storage=replace(question.storage, dtype=dtype))
        try:
            before, after = sequence_bytes(question), sequence_bytes(changed)
        except KvdoctorError:
            return None
        return changed if after < before * (1 - _WORTH) else None

    return apply


def _weight_format(name: str) -> Callable[[Question], Question | None]:
    """Quantize what quantizes, where that reads fewer bytes."""

    def apply(question: Question) -> Question | None:
        shape = reformatted(question.shape, weights=name)
        before = weights.resident(question.shape, layout=question.layout).total
        after = weights.resident(shape, layout=question.layout).total
        return replace(question, shape=shape) if after < before * (1 - _WORTH) else None

    return apply


def _tp(question: Question) -> Question | None:
    """Twice the ranks; none where the memory is a whole machine's, whose like has no known link to it."""
    return None if question.card.is_host_memory else widened(question)


def _dcp(question: Question) -> Question | None:
    """Divide a sequence's KV by tokens where its heads can't be divided further."""
    layout = question.layout
    caches = [x.cache for x in question.shape.layers if x.cache]
    heads = max((1 if c.latent else c.kv_heads for c in caches), default=0)
    spare = layout.attention_tp // max(1, heads) // layout.dcp
    return replace(question, layout=replace(layout, dcp=layout.dcp * 2)) if caches and spare >= 2 else None


def _gqa(question: Question) -> Question | None:
    """Share each KV head between four query heads, where every query head has its own."""
    shape = question.shape
    mha = {id(x) for x in shape.layers if x.cache and _is_mha(x)}
    if not mha:
        return None
    done: dict[int, Layer] = {key: _grouped(x) for x in shape.layers if (key := id(x)) in mha}
    return replace(question, shape=replace(shape, layers=tuple(done.get(id(x), x) for x in shape.layers)))


def _is_mha(layer: Layer) -> bool:
    """Whether each query head of a layer has KV of its own."""
    cache = layer.cache
    return bool(
        cache and not cache.latent and cache.kv_heads == cache.query_heads and cache.kv_heads % _GROUP == 0
    )


def _grouped(layer: Layer) -> Layer:
    """The layer with a quarter of its KV heads and of its K and V projections."""

    def narrower(weight: Weight) -> Weight:
        if weight.split != "kv":
            return weight
        return replace(weight, outputs=weight.outputs // _GROUP, heads=weight.heads // _GROUP)

    if layer.cache is None:
        return layer
    cache = replace(layer.cache, kv_heads=layer.cache.kv_heads // _GROUP)
    return replace(layer, cache=cache, weights=tuple(narrower(w) for w in layer.weights))


def _speculation(question: Question) -> Question | None:
    """Draft a few tokens a step; without it where the service drafts already."""
    if question.drafted:
        return replace(question, drafted=0, accepted=1.0)
    accepted = accepted_tokens(ASSUMED_ACCEPTANCE, ASSUMED_DRAFTED)
    return replace(question, drafted=ASSUMED_DRAFTED, accepted=accepted)


def _batch(question: Question) -> Question | None:
    """Twice the sequences."""
    return replace(question, load=replace(question.load, batch=question.load.batch * 2))


def _context(question: Question) -> Question | None:
    """Twice the length, where the model reaches so far."""
    load = question.load
    limit = question.shape.max_positions
    if limit and 2 * max(n for n, _ in load.lengths) > limit:
        return None
    mix = tuple((2 * n, share) for n, share in load.mix)
    return replace(question, load=replace(load, context=2 * load.context, mix=mix))


def _speculation_change(question: Question) -> Change:
    """Speculation where there is none, with what it assumes; none where there is."""
    if question.drafted:
        return Change("no speculation", "service", "", _speculation)
    own = "its own draft layer" if question.shape.draft else "the drafter's cost left out"
    note = f"if {ASSUMED_ACCEPTANCE:.0%} of drafted tokens are accepted (measure it); {own}"
    return Change(f"speculation, {ASSUMED_DRAFTED} drafted", "service", note, _speculation)


def changes_for(question: Question) -> tuple[Change, ...]:
    """All changes, in the order in which people ask for them; those that do not apply return None."""
    fp8 = "fp8_ds_mla" if _sparse(question.shape) else "fp8"
    quality = "check answers: quantization can cost quality"
    return (
        Change("KV fp8", "service", quality, _kv_dtype(fp8)),
        Change("KV int8", "service", quality, _kv_dtype("int8")),
        Change("KV int4", "service", quality, _kv_dtype("int4")),
        Change("weights fp8", "service", quality, _weight_format("fp8")),
        Change("weights int4", "service", f"weight-only; {quality}", _weight_format("int4-g128")),
        Change("TP x2", "machine", "twice the GPUs", _tp),
        Change("DCP x2", "service", "one exchange a layer more", _dcp),
        Change("GQA (4 query heads a KV head)", "model", "another model, or an uptrained one", _gqa),
        _speculation_change(question),
        Change("batch x2", "load", "", _batch),
        Change("context x2", "load", "", _context),
    )


def _sparse(shape: ModelShape) -> bool:
    """Whether the model reads its latents sparsely, with FlashMLA's own fp8 layout."""
    return any(x.cache and x.cache.latent and x.cache.reach == "topk" for x in shape.layers)


def keeps_kv(question: Question) -> bool:
    """Whether the model stores any KV."""
    return kv.kv_layers(question.shape.layers) > 0
