"""From the options of the command line to a report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline.answer import answer
from kvdoctor.roofline.claim import judge
from kvdoctor.roofline.formats import kv_format, weight_format
from kvdoctor.roofline.machine import card_of
from kvdoctor.roofline.question import UTILIZATION, Question, accepted_of, layout_of, load_of, pool_of
from kvdoctor.roofline.report import Report, Sweep
from kvdoctor.roofline.shape import KvStorage, ModelShape
from kvdoctor.roofline.source import shape_of, with_weights
from kvdoctor.roofline.sweep import Over, sweep
from kvdoctor.roofline.whatif import what_ifs

Windows = Literal["exact", "vllm", "llamacpp", "full"]
Latent = Literal["plain", "padded", "both"]


@dataclass(frozen=True, slots=True)
class Asked:
    """The options as they were written; None where one was left out."""

    model: str
    gpu: str | None = None
    gpus: int | None = None
    tp: int | None = None
    pp: int = 1
    ep: int | None = None
    dp_attention: int = 1
    dcp: int = 1
    batch: float | None = None
    context: str | None = None
    weights: str | None = None
    kv_dtype: str | None = None
    state_dtype: str | None = None
    index_dtype: str | None = None
    windows: str = "exact"
    in_flight: int = 0
    latent: str = "plain"
    draft_kv: bool = False
    block_size: int = 16
    pool: str | None = None
    utilization: float = UTILIZATION
    bandwidth: str | None = None
    measured: str | None = None
    memory: str | None = None
    peak: float | None = None
    link: str | None = None
    draft_tokens: int = 0
    accept: float | None = None
    sweep: str | None = None
    claim: str | None = None


DEFAULT_BATCH, DEFAULT_CONTEXT = 1.0, "4k"


def _one_of(option: str, value: str, kind: object) -> str:
    """A value that is among the names of a Literal, else a refusal that lists them."""
    names = get_args(kind)
    if value not in names:
        raise KvdoctorError(f"{option} {value!r} is not known", f"use one of {', '.join(names)}")
    return value


def storage_of(asked: Asked) -> KvStorage:
    """How KV is stored. Raises KvdoctorError for a dtype, a layout or a block size that is not known."""
    if asked.block_size < 1 or asked.in_flight < 0:
        raise KvdoctorError(
            f"blocks of {asked.block_size} tokens are impossible",
            "give --block-size 16, as the engine has it",
        )
    if asked.kv_dtype and asked.kv_dtype != "auto":
        kv_format(asked.kv_dtype)
    if asked.state_dtype:
        weight_format(asked.state_dtype)
    return KvStorage(
        dtype=None if asked.kv_dtype == "auto" else asked.kv_dtype,
        index_dtype=asked.index_dtype or "fp8",
        latent=cast(Latent, _one_of("--latent", asked.latent, Latent)),
        windows=cast(Windows, _one_of("--windows", asked.windows, Windows)),
        in_flight=asked.in_flight,
        block_size=asked.block_size,
        state_dtype=asked.state_dtype,
        draft=asked.draft_kv,
    )


def shape_asked(asked: Asked, shape: ModelShape | None = None) -> ModelShape:
    """The model, or the `shape` that stands for it, with the weights that were asked for."""
    return with_weights(shape or shape_of(asked.model), asked.weights)


def question_of(asked: Asked, shape: ModelShape | None = None) -> Question:
    """The question that the options ask; a `shape` stands for the model where it is known already.

    Raises KvdoctorError for what makes no sense, with what to try.
    """
    if not 0 < asked.utilization <= 1:
        raise KvdoctorError(
            f"--utilization {asked.utilization:g} is no share of a card", "give 0 to 1, such as 0.9"
        )
    layout, replicas = layout_of(
        asked.gpus,
        tp=asked.tp,
        pp=asked.pp,
        ep=asked.ep,
        dp_attention=asked.dp_attention,
        dcp=asked.dcp,
    )
    shape = shape or shape_asked(asked)
    if asked.pp > len(shape.layers):
        raise KvdoctorError(f"--pp {asked.pp} is more stages than {len(shape.layers)} layers", "lower --pp")
    card = card_of(
        asked.gpu,
        bandwidth=asked.bandwidth,
        measured=Path(asked.measured) if asked.measured else None,
        memory=asked.memory,
        peak=asked.peak,
        link=asked.link,
    )
    return Question(
        shape,
        card,
        layout,
        load_of(DEFAULT_BATCH if asked.batch is None else asked.batch, asked.context or DEFAULT_CONTEXT),
        storage_of(asked),
        pool_of(asked.pool),
        asked.utilization,
        asked.draft_tokens,
        accepted_of(asked.draft_tokens, asked.accept),
        replicas,
    )


def report_of(asked: Asked, shape: ModelShape | None = None, *, figures: bool = False) -> Report:
    """Everything that is shown. `figures` asks for a sweep over the batch where none was asked for."""
    over = cast(Over, _one_of("--sweep", asked.sweep, Over)) if asked.sweep else None
    question = question_of(asked, shape)
    if over is None and figures and question.machine is not None:
        over = "batch"
    found = answer(question)
    return Report(
        found,
        what_ifs(question),
        Sweep(over, sweep(question, over)) if over else None,
        judge(found, asked.claim) if asked.claim else None,
    )
