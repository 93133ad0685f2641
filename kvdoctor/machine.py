"""The machine and the model as far as they are known: the ceiling, and the bytes and FLOPs of a step under it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kvdoctor.errors import KvdoctorError
from kvdoctor.model import Gap
from kvdoctor.roofline import serving
from kvdoctor.roofline.config import shape_from_config
from kvdoctor.roofline.hardware import HBM_READ_FRACTION, Gpu, gpu_by_name
from kvdoctor.roofline.measured import Measured, from_text
from kvdoctor.roofline.shape import Layout, ModelShape, StepBytes
from kvdoctor.roofline.step import micro_batches
from kvdoctor.units import GB

READ_FRACTION = HBM_READ_FRACTION
"""Best plain read over the data sheet's HBM rate (design, rule 10); a measured rate replaces it."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What is known about one rank. Everything may be None: then nothing is modelled."""

    shape: ModelShape | None = None
    bandwidth: float | None = None
    """Highest read rate of one card's HBM, bytes/s."""
    bandwidth_basis: str = ""
    peak_flops: float | None = None
    """Dense peak of one card at the weights' precision."""
    tp: int = 1
    pp: int = 1
    """Pipeline stages: a sequence passes them one after the other, a micro-batch in each."""
    kv_dtype: str | None = None
    gaps: tuple[Gap, ...] = ()
    measured: Measured | None = None
    """What a probe measured, where the bandwidth is its."""

    @property
    def unknown(self) -> tuple[str, str] | None:
        """What is missing to hold a step against a ceiling, and what to give for it; None where nothing is."""
        lacks = [("the model's shape", "--model CONFIG.json")] if self.shape is None else []
        rate = "--gpu NAME (or --bandwidth: GB/s, or the file of kvdoctor probe)"
        lacks += [("the read rate of its memory", rate)] if self.bandwidth is None else []
        if not lacks:
            return None
        return " and ".join(what for what, _ in lacks), " and ".join(option for _, option in lacks)

    def at(self, batch: float | None, context: float | None, step_seconds: float | None) -> Machine:
        """Return the machine under a load: sequences and mean context of one rank, seconds of its steady step.

        What of a probe's conditions is another becomes a gap. Where the service itself reads faster than the
        probe's decode steps did, the ceiling is the plain read beside them.
        """
        if self.measured is None or not self.measured.decode:
            return self
        doubts = self.measured.doubts(self.shape, batch=batch, context=context, kv_dtype=self.kv_dtype)
        found = replace(self, gaps=(*self.gaps, *map(_other_conditions, doubts)))
        read = self.step(batch, context) if batch and context else None
        if read is None or not step_seconds or self.bandwidth is None:
            return found
        if (
            read.weights_low + read.kv
        ) / step_seconds <= self.bandwidth or self.measured.read <= self.bandwidth:
            return found
        return replace(found, bandwidth=self.measured.read, bandwidth_basis=self.measured.read_basis)

    def together(self, batch: float) -> float:
        """Return how many of a rank's sequences share one step: those of one micro-batch (rule 13)."""
        return batch / micro_batches(batch, Layout(pp=self.pp))

    def step(self, batch: float, context: float) -> StepBytes | None:
        """Return the bytes that one output token of each sequence waits for, all stages; None without a shape."""
        if self.shape is None:
            return None
        return serving.decode_bytes(
            self.shape, batch=self.together(batch), context=context, tp=self.tp, kv_dtype=self.kv_dtype
        )

    def step_seconds(self, batch: float, context: float) -> float | None:
        """Return the floor of a decode step: bytes over the ceiling, or FLOPs over the peak if longer."""
        read = self.step(batch, context)
        if read is None or self.bandwidth is None or self.shape is None:
            return None
        floor = read.total / self.bandwidth
        if self.peak_flops is None:
            return floor
        flops = serving.decode_flops(self.shape, batch=self.together(batch), context=context) / self.tp
        return max(floor, flops / self.peak_flops)


_KV_DTYPES = {"auto": None, "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "bfloat16": "bf16", "float16": "fp16"}


def _gpu(name: str | None) -> tuple[Gpu | None, tuple[Gap, ...]]:
    if not name:
        return None, ()
    try:
        return gpu_by_name(name), ()
    except KvdoctorError as error:
        return None, (Gap("gpu", error.message, error.hint),)


def _shape(facts: dict[str, str], tp: int, dtype: str | None) -> tuple[ModelShape | None, tuple[Gap, ...]]:
    """Read the model's shape, unless nothing can be said of its bytes: of a KV dtype not known here, say."""
    text, side = facts.get("model_config"), facts.get("model_side")
    if not text:
        return None, ()
    try:
        shape = shape_from_config(json.loads(text), side=json.loads(side) if side else None)
        serving.decode_bytes(shape, batch=1.0, context=1.0, tp=tp, kv_dtype=dtype)
    except KvdoctorError as error:
        return None, (Gap("model", error.message, error.hint),)
    return shape, ()


_CEILING, _RATE = "the ceiling was measured", "the read rate that was measured"


def objections(gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """Return those gaps that speak against a rate which a probe measured: they are warned of, not just listed."""
    return tuple(g for g in gaps if g.source == "bandwidth" and g.reason.startswith((_CEILING, _RATE)))


def _other_conditions(doubt: str) -> Gap:
    return Gap(
        "bandwidth",
        f"{_CEILING} under other conditions than the service's: {doubt}",
        "kvdoctor probe decode with the service's own: --pid PID, or --model, --batch, --context, --kv-dtype",
    )


def _disturbed(measured: Measured) -> Gap:
    what = "is a lower bound and no ceiling, and was not used" if measured.is_lower_bound else "is uncertain"
    return Gap(
        "bandwidth",
        f"{_RATE} {what}: {measured.disturbed}",
        "probe again while nothing else runs on the machine",
    )


def _other_card(measured: Measured, gpu: Gpu) -> Gap:
    return Gap(
        "bandwidth",
        f"{_CEILING} on {measured.device} and the service runs on {gpu.name}: not used",
        "kvdoctor probe decode on the service's own card",
    )


def _is_unusable(measured: Measured, gpu: Gpu | None) -> bool:
    """Whether a rate is no ceiling of this card: another's, or what other work left over."""
    return measured.is_lower_bound or (gpu is not None and not measured.is_of(gpu.name))


def _objections(measured: Measured, gpu: Gpu | None) -> Iterator[Gap]:
    """What is said against a measured rate."""
    if measured.disturbed:
        yield _disturbed(measured)
    if gpu is not None and not measured.is_of(gpu.name):
        yield _other_card(measured, gpu)


def _ceiling(
    facts: dict[str, str], gpu: Gpu | None
) -> tuple[float | None, str, Measured | None, tuple[Gap, ...]]:
    """Return the read rate in bytes/s with its basis: told or measured, else a share of the data sheet's."""
    gaps: tuple[Gap, ...] = ()
    if "bandwidth" in facts:
        basis = facts.get("bandwidth_basis", "as given by --bandwidth")
        measured = from_text(facts.get("bandwidth_measured", ""))
        if measured is not None and measured.basis != basis:
            # The rate was told again since.
            measured = None
        gaps = tuple(_objections(measured, gpu)) if measured else ()
        if measured is None or not _is_unusable(measured, gpu):
            return float(facts["bandwidth"]) * GB, basis, measured, gaps
    if gpu is None or gpu.hbm_bytes_per_s is None:
        return None, "", None, gaps
    return READ_FRACTION * gpu.hbm_bytes_per_s, f"{READ_FRACTION} x the data sheet of {gpu.name}", None, gaps


def machine(facts: dict[str, str], cache_dtype: str | None) -> Machine:
    """Put together what the user told (`gpu`, `bandwidth`, `model_config`, `tp`, `pp`) and what the engine told."""
    gpu, gaps = _gpu(facts.get("gpu"))
    tp, dtype = int(facts.get("tp", "1")), _KV_DTYPES.get(cache_dtype or "auto", cache_dtype)
    shape, more = _shape(facts, tp, dtype)
    bandwidth, basis, measured, others = _ceiling(facts, gpu)
    peak = None
    if gpu is not None and shape is not None:
        peak = gpu.peak_flops(shape.weight_format)
    return Machine(
        shape=shape,
        bandwidth=bandwidth,
        bandwidth_basis=basis,
        peak_flops=peak,
        tp=tp,
        pp=int(facts.get("pp", "1")),
        kv_dtype=dtype,
        gaps=gaps + more + others,
        measured=measured,
    )
