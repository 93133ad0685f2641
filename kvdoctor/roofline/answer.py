"""The answer of the roofline: what a model reads, what that caps, what fits, and where a prefix pays."""

from __future__ import annotations

from dataclasses import dataclass

from kvdoctor.roofline.fit import Fit, fit_of
from kvdoctor.roofline.places import prefix_places

from kvdoctor.roofline import kv, prefill, speculation, weights
from kvdoctor.roofline.prefill import PrefillFloor
from kvdoctor.roofline.question import Question, storage_warnings
from kvdoctor.roofline.ridge import Ridges, ridges
from kvdoctor.roofline.shape import StepBytes
from kvdoctor.roofline.step import Step, decode_step, step_bytes
from kvdoctor.roofline.tiers import FetchOrCompute
from kvdoctor.roofline.weights import Parameters, Resident


@dataclass(frozen=True, slots=True)
class Decode:
    """One decode step (a verify step under speculation) and the rates it allows over the whole batch."""

    bytes: StepBytes
    flops: float
    step: Step | None
    """None where no bandwidth is known."""
    seconds_floor: float | None
    """Draft steps included."""
    draft_seconds: float
    ceiling: float | None
    """Tokens/s that cannot be exceeded."""
    expected: tuple[float, float] | None
    """Tokens/s to expect, low and high."""
    basis: str
    """What the expectation is made of."""


@dataclass(frozen=True, slots=True)
class Prefill:
    """The prefill of one sequence of the context."""

    tokens: float
    flops: float
    floor: PrefillFloor | None
    expected_seconds: float | None
    """At the share of the peak that engines reach."""
    miss_seconds: float | None
    """Floor on TTFT without a cached prefix: prefill and one decode step; queueing comes on top."""
    hit_tokens: float
    """Tokens still computed on a hit: those of the last block."""
    hit_seconds: float | None
    """Floor on TTFT where all other blocks are in HBM."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything the command says of one question. Bytes are of one rank unless a name says otherwise."""

    question: Question
    parameters: Parameters
    weights: Resident
    kv_per_token: float
    kv_per_sequence: float
    """At the context, windows and states included; of a mix, the mean."""
    state_per_sequence: float
    fit: Fit
    decode: Decode
    ridges: Ridges | None
    prefill: Prefill
    places: tuple[FetchOrCompute, ...]
    warnings: tuple[str, ...]


def answer(question: Question) -> Answer:
    """Work out everything. Raises KvdoctorError for a question that makes no sense."""
    shape, layout, storage, load = question.shape, question.layout, question.storage, question.load
    machine = question.machine
    decode = decode_of(question)
    return Answer(
        question,
        weights.parameters(shape),
        weights.resident(shape, layout=layout),
        kv.growth_bytes(shape, layout=layout, storage=storage),
        sequence_bytes(question),
        kv.state_bytes(shape, layout=layout, storage=storage),
        fit_of(question),
        decode,
        ridges(shape, machine, batch=load.batch, context=load.context, layout=layout, storage=storage)
        if machine
        else None,
        prefill_of(question),
        prefix_places(question),
        (*shape.warnings, *question.card.warnings, *storage_warnings(question), *_rate_warnings(question)),
    )


def sequence_bytes(question: Question, *, whole_blocks: bool = False) -> float:
    """Bytes that one sequence holds on one rank; the mean of a mix."""
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


def decode_of(question: Question) -> Decode:
    """The decode step of a question, its ceiling and its expectation."""
    machine = question.machine
    if machine is None:
        shape, load = question.shape, question.load
        moved = step_bytes(shape, load, question.layout, question.storage)
        work = sum(
            prefill.decode_flops(shape, batch=load.batch * share, context=n) for n, share in load.lengths
        )
        return Decode(moved, work, None, None, 0.0, None, None, "")
    if question.drafted:
        return _speculative(question)
    step = decode_step(question.shape, machine, question.load, question.layout, question.storage)
    return Decode(
        step.bytes,
        step.flops,
        step,
        step.seconds_floor,
        0.0,
        step.tokens_per_s_ceiling,
        step.tokens_per_s_expected,
        step.expected_basis,
    )


def _speculative(question: Question) -> Decode:
    """The verify step and its draft steps."""
    machine = question.machine
    assert machine is not None
    found = speculation.speculate(
        question.shape,
        machine,
        question.load,
        drafted=question.drafted,
        accepted=question.accepted,
        draft_bytes=speculation.draft_step_bytes(question.shape, layout=question.layout),
        layout=question.layout,
        storage=question.storage,
    )
    verify, tokens = found.verify, question.load.batch * found.accepted
    fast, slow = verify.seconds_expected
    return Decode(
        verify.bytes,
        verify.flops,
        verify,
        verify.seconds_floor + found.draft_seconds,
        found.draft_seconds,
        found.tokens_per_s_ceiling,
        (tokens / (slow + found.draft_seconds), tokens / (fast + found.draft_seconds)),
        f"{verify.expected_basis}; {found.accepted:.3g} tokens accepted a step",
    )
