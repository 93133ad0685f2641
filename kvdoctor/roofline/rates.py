"""Rates of decoding: the step of a question, the ceiling it sets, and what to expect beside it."""

from __future__ import annotations

from dataclasses import dataclass

from kvdoctor.roofline import prefill, speculation
from kvdoctor.roofline.question import Question
from kvdoctor.roofline.shape import StepBytes
from kvdoctor.roofline.step import Machine, Step, decode_step, step_bytes


@dataclass(frozen=True, slots=True)
class Decode:
    """One decode step (a verify step under speculation) and the rates it allows over the whole batch."""

    bytes: StepBytes
    flops: float
    step: Step | None = None
    """None where no bandwidth is known."""
    seconds_floor: float | None = None
    """Draft steps included."""
    draft_seconds: float = 0.0
    ceiling: float | None = None
    """Tokens/s that cannot be exceeded."""
    expected: tuple[float, float] | None = None
    """Tokens/s to expect, low and high."""
    basis: str = ""
    """What the expectation is made of."""


def decode_of(question: Question) -> Decode:
    """The decode step of a question, its ceiling and its expectation; bytes and FLOPs alone without a machine."""
    machine = question.machine
    if machine is None:
        load = question.load
        tokens = question.drafted + 1
        work = sum(
            prefill.decode_flops(
                question.shape, batch=load.batch * share, context=n, tokens_per_sequence=tokens
            )
            for n, share in load.lengths
        )
        return Decode(step_bytes(question.shape, load, question.layout, question.storage), work)
    if question.drafted:
        return _speculative(question, machine)
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


def _speculative(question: Question, machine: Machine) -> Decode:
    """The verify step and its draft steps."""
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
