"""What a reader of an answer should know before believing it: assumptions, unusual layouts, missing figures."""

from __future__ import annotations

from kvdoctor.roofline.notes import notes
from kvdoctor.roofline.question import Question
from kvdoctor.roofline.rates import Decode

# GPUs of a usual host, whose link the messages are counted at; racks of Grace cards share NVLink further.
_HOST_GPUS = 8
_RACK_CARDS = ("GB200", "GB300")
# Experts read with uniform routing against the most that can be read: say so where they differ by this much.
_ROUTING_SPREAD = 0.02


def warnings_of(question: Question, decode: Decode) -> tuple[str, ...]:
    """All warnings: of the card, of the context and the layout, of the model's figures, of the rates."""
    found = (
        *question.card.warnings,
        *_measured(question),
        *_context(question),
        *_layout(question),
        *notes(question.shape, layout=question.layout, storage=question.storage),
        *_rates(question, decode),
    )
    return tuple(dict.fromkeys(found))


def _measured(question: Question) -> list[str]:
    """Conditions of the measured bandwidth that are not those of the question."""
    measured, load = question.card.measured, question.load
    if measured is None:
        return []
    copies = max(1, question.layout.dp_attention)
    doubts = measured.doubts(
        question.shape,
        batch=load.batch / copies,
        context=load.context,
        kv_dtype=question.storage.dtype,
    )
    return [f"the bandwidth was measured under other conditions: {doubt}" for doubt in doubts]


def _context(question: Question) -> list[str]:
    """A context that the model was not made for."""
    limit = question.shape.max_positions
    longest = max(tokens for tokens, _ in question.load.lengths)
    if not limit or longest <= limit:
        return []
    return [f"a context of {longest:,.0f} tokens is beyond the {limit:,} positions of the config"]


def _layout(question: Question) -> list[str]:
    """Replicas, and KV heads that the ranks cannot share equally."""
    width, found = question.layout.attention_tp, []
    if question.replicas > 1:
        found.append(
            f"{question.replicas} replicas of {question.layout.gpus} GPUs: all figures are of one, with its own batch"
        )
    if question.layout.tp > _HOST_GPUS and question.card.link is None and not _is_rack(question):
        found.append(
            f"TP {question.layout.tp} spans more than the {_HOST_GPUS} GPUs of a usual host: messages are counted at "
            "the link within a host; between hosts they take longer (--link GB/S)"
        )
    caches = [x.cache for x in question.shape.layers if x.cache and not x.cache.latent]
    for count in sorted({c.kv_heads for c in caches}):
        if width < count and count % width:
            found.append(
                f"{count} KV heads do not divide over {width} ranks: engines refuse it; this is a mean"
            )
    return found


def _is_rack(question: Question) -> bool:
    """Whether the card's NVLink reaches beyond one host."""
    return any(name in question.card.name for name in _RACK_CARDS)


def _rates(question: Question, decode: Decode) -> list[str]:
    """What is missing or spread in the rates."""
    if question.machine is None:
        return ["no card is named, so there are no rates: add --gpu H100, or --bandwidth in GB/s"]
    found, moved = [], decode.bytes
    if question.machine.peak is None:
        found.append(
            "no dense peak is known: compute, prefill and recomputation are not judged (--peak TFLOPS)"
        )
    if question.drafted and not question.shape.draft:
        found.append("the drafter's own reads are not counted: no draft layer ships with the model")
    if moved.weights_high > moved.weights * (1 + _ROUTING_SPREAD):
        low, high = moved.weights_low / 1e9, moved.weights_high / 1e9
        found.append(
            f"expert reads assume uniform routing: {low:.3g} to {high:.3g} GB of weights a step are possible, and "
            "skewed routing reads less"
        )
    if moved.kv_high > moved.kv:
        found.append("chunked layers are counted half full; a full chunk reads twice that")
    return found
