"""What fits the memory of one rank: weights, then the pool, then sequences; and what does not fit, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from kvdoctor.roofline import kv, pool, weights
from kvdoctor.roofline.pool import Pool
from kvdoctor.roofline.question import Question
from kvdoctor.roofline.shape import Layout
from kvdoctor.units import gb, gib

# No published deployment of one replica is wider.
_WIDEST = 1024


@dataclass(frozen=True, slots=True)
class Fit:
    """Memory of one rank, in bytes."""

    weights: float
    live: float
    """KV and states of the sequences that this rank decodes."""
    state: float
    """The part of `live` that is recurrent state."""
    card: float | None
    """None where no card is named."""
    usable: float | None
    """Of the card, what the utilization leaves to weights and pool."""
    pool: Pool | None
    """None where neither a pool nor a card is given."""
    basis: str
    """Where the pool comes from."""
    sequences: int | None
    """Sequences of the context that fit over all copies of the attention; None where no pool is known."""
    misfits: tuple[str, ...]


def sequence_bytes(question: Question, *, whole_blocks: bool = False) -> float:
    """Bytes that one sequence holds on one rank, windows and states included; the mean of a mix."""
    return sum(
        share
        * kv.sequence_bytes(
            question.shape,
            tokens=tokens,
            layout=question.layout,
            storage=question.storage,
            whole_blocks=whole_blocks,
        )
        for tokens, share in question.load.lengths
    )


def fit_of(question: Question) -> Fit:
    """Lay weights and KV into the memory of the fullest rank."""
    held = weights.resident(question.shape, layout=question.layout).total
    card = question.card.memory
    usable = card * question.utilization if card else None
    size, basis = _pool_bytes(question, held)
    found = None if size is None else _pool(question, size)
    own = _own_sequences(question)
    copies = max(1, question.layout.dp_attention)
    state = own * kv.state_bytes(question.shape, layout=question.layout, storage=question.storage)
    fit = Fit(
        held,
        own * sequence_bytes(question, whole_blocks=True),
        state,
        card,
        usable,
        found,
        basis,
        found.sequences * copies if found else None,
        (),
    )
    return replace(fit, misfits=_misfits(question, fit))


def _own_sequences(question: Question) -> float:
    """Sequences of the batch that one rank holds: its share under DP attention, never less than one of a batch."""
    batch, copies = question.load.batch, max(1, question.layout.dp_attention)
    return batch if copies == 1 else float(math.ceil(batch / copies))


def _pool_bytes(question: Question, held: float) -> tuple[float | None, str]:
    """The pool as given, else what weights leave of the usable memory."""
    if question.pool_bytes is not None:
        return question.pool_bytes, "given"
    if not question.card.memory:
        return None, ""
    size = pool.pool_bytes(question.card.memory, utilization=question.utilization, weights=held)
    return size, (
        f"{question.utilization:.0%} of {gib(question.card.memory)} less weights; activations and graphs come off"
    )


def _pool(question: Question, size: float) -> Pool | None:
    """What the pool holds; None for a model that keeps neither KV nor state."""
    if not sequence_bytes(question):
        return None
    context = max(1, math.ceil(question.load.context))
    found = pool.fit(
        question.shape, pool_bytes=size, context=context, layout=question.layout, storage=question.storage
    )
    if not question.load.mix:
        return found
    request = sequence_bytes(question, whole_blocks=True)
    return replace(
        found, sequences=math.floor(size / request), concurrency=size / request, request_bytes=request
    )


def _misfits(question: Question, fit: Fit) -> tuple[str, ...]:
    """What does not fit, most fundamental first."""
    if fit.usable is not None and question.pool_bytes is None and fit.weights >= fit.usable:
        return (_weights_misfit(question, fit),)
    if fit.card is not None and question.pool_bytes and fit.weights + question.pool_bytes > fit.card:
        return (
            f"weights of {gib(fit.weights)} and a pool of {gib(question.pool_bytes)} are more than the "
            f"{gib(fit.card)} of the card",
        )
    if fit.sequences is None or fit.pool is None or fit.sequences >= question.load.batch:
        return ()
    return (
        f"{question.load.batch:g} sequences of {question.load.context:,.0f} tokens need {gib(fit.live)} of KV a rank; "
        f"the pool of {gib(fit.pool.bytes)} holds {fit.sequences:,}",
    )


def _weights_misfit(question: Question, fit: Fit) -> str:
    """Weights that no pool is left beside, and how many GPUs it would take."""
    text = (
        f"weights of {gib(fit.weights)} ({gb(fit.weights)}) a rank do not fit the {gib(fit.usable or 0)} usable of "
        f"{gib(fit.card or 0)} a GPU"
    )
    needed = gpus_needed(question)
    return text if needed is None else f"{text}; {needed} such GPUs would hold them"


def gpus_needed(question: Question) -> int | None:
    """GPUs of this card, doubling the width, at which weights and one sequence fit; None where no width does."""
    usable = (question.card.memory or 0.0) * question.utilization
    width = question.layout.tp
    while width < _WIDEST:
        width *= 2
        wide = replace(question, layout=_widened(question.layout, width))
        held = weights.resident(wide.shape, layout=wide.layout).total
        if held + sequence_bytes(wide, whole_blocks=True) <= usable:
            return wide.layout.gpus
    return None


def _widened(layout: Layout, width: int) -> Layout:
    """The layout at another TP width; experts spread with it where they were spread."""
    return replace(layout, tp=width, ep=layout.ep * width // layout.tp if layout.ep > 1 else layout.ep)


def widened(question: Question, factor: int = 2) -> Question:
    """The same service over `factor` times the ranks."""
    return replace(question, layout=_widened(question.layout, question.layout.tp * factor))
