"""The machine and the model as far as they are known: the ceiling, and the bytes and FLOPs of a step under it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from kvdoctor.errors import KvdoctorError
from kvdoctor.model import Gap
from kvdoctor.roofline import serving
from kvdoctor.roofline.config import shape_from_config
from kvdoctor.roofline.hardware import Gpu, gpu_by_name
from kvdoctor.roofline.shape import ModelShape, StepBytes
from kvdoctor.units import GB

READ_FRACTION = 0.87
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
    kv_dtype: str | None = None
    gaps: tuple[Gap, ...] = ()

    def step(self, batch: float, context: float) -> StepBytes | None:
        """Return the bytes of a decode step on one rank, None without a shape."""
        if self.shape is None:
            return None
        return serving.decode_bytes(
            self.shape, batch=batch, context=context, tp=self.tp, kv_dtype=self.kv_dtype
        )

    def step_seconds(self, batch: float, context: float) -> float | None:
        """Return the floor of a decode step: bytes over the ceiling, or FLOPs over the peak if longer."""
        read = self.step(batch, context)
        if read is None or self.bandwidth is None or self.shape is None:
            return None
        floor = read.total / self.bandwidth
        if self.peak_flops is None:
            return floor
        flops = serving.decode_flops(self.shape, batch=batch, context=context) / self.tp
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


def machine(facts: dict[str, str], cache_dtype: str | None) -> Machine:
    """Put together what the user told (`gpu`, `bandwidth`, `model_config`, `tp`) and what the engine told."""
    gpu, gaps = _gpu(facts.get("gpu"))
    tp, dtype = int(facts.get("tp", "1")), _KV_DTYPES.get(cache_dtype or "auto", cache_dtype)
    shape, more = _shape(facts, tp, dtype)
    bandwidth, basis = None, ""
    if "bandwidth" in facts:
        bandwidth, basis = (
            float(facts["bandwidth"]) * GB,
            facts.get("bandwidth_basis", "as given by --bandwidth"),
        )
    elif gpu is not None and gpu.hbm_bytes_per_s is not None:
        bandwidth = READ_FRACTION * gpu.hbm_bytes_per_s
        basis = f"{READ_FRACTION} x the data sheet of {gpu.name}"
    peak = None
    if gpu is not None and shape is not None:
        peak = gpu.peak_flops(shape.weight_format)
    return Machine(
        shape=shape,
        bandwidth=bandwidth,
        bandwidth_basis=basis,
        peak_flops=peak,
        tp=tp,
        kv_dtype=dtype,
        gaps=gaps + more,
    )
