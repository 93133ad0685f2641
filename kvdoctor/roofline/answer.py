"""The answer of the roofline: what a model reads, what that caps, what fits, and where a prefix pays."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvdoctor.roofline import kv, weights
from kvdoctor.roofline.fit import Fit, fit_of, sequence_bytes
from kvdoctor.roofline.question import Question
from kvdoctor.roofline.rates import Decode, decode_of
from kvdoctor.roofline.ridge import Ridges, ridges
from kvdoctor.roofline.tiers import FetchOrCompute
from kvdoctor.roofline.ttft import FirstToken, first_token, prefix_places
from kvdoctor.roofline.warning import warnings_of
from kvdoctor.roofline.weights import Parameters, Resident


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything the command says of one question. Bytes are of one rank unless a name says otherwise."""

    question: Question
    parameters: Parameters
    weights: Resident
    kv_per_token: float
    """Growth per token of a long sequence."""
    kv_per_sequence: float
    """At the context, windows and states included; of a mix, the mean."""
    state_per_sequence: float
    fit: Fit
    decode: Decode
    """Of the whole batch, whether or not it fits."""
    fitting: Decode | None
    """Of the sequences that fit at once; None where all do, none does, or no room is known."""
    ridges: Ridges | None
    """None where no bandwidth is known."""
    first_token: FirstToken
    places: tuple[FetchOrCompute, ...]
    """Fetch against recompute of the whole context, by tier; empty where no peak is known."""
    warnings: tuple[str, ...]


def answer(question: Question) -> Answer:
    """Work out everything. Raises KvdoctorError for a question that makes no sense."""
    shape, layout, storage = question.shape, question.layout, question.storage
    decode, fit = decode_of(question), fit_of(question)
    return Answer(
        question,
        weights.parameters(shape),
        weights.resident(shape, layout=layout),
        kv.growth_bytes(shape, layout=layout, storage=storage),
        sequence_bytes(question),
        kv.state_bytes(shape, layout=layout, storage=storage),
        fit,
        decode,
        _fitting(question, fit),
        _ridges(question),
        first_token(question),
        prefix_places(question),
        warnings_of(question, decode),
    )


def _fitting(question: Question, fit: Fit) -> Decode | None:
    """The step of as many sequences as fit, where that is not the batch."""
    if fit.sequences is None or not 0 < fit.sequences < question.load.batch:
        return None
    return decode_of(replace(question, load=replace(question.load, batch=float(fit.sequences))))


def _ridges(question: Question) -> Ridges | None:
    """Where the limit changes; None without a bandwidth."""
    machine, load = question.machine, question.load
    if machine is None:
        return None
    return ridges(
        question.shape,
        machine,
        batch=load.batch,
        context=load.context,
        layout=question.layout,
        storage=question.storage,
    )
