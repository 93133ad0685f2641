"""What a decode probe answers: its times as rates, beside the conditions that they hold under."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvdoctor.probes.decode_plan import PAGE, Fit, fit
from kvdoctor.probes.timing import Row
from kvdoctor.reference.config import ModelConfig

if TYPE_CHECKING:
    from kvdoctor.probes.decode_run import Bench


@dataclass(frozen=True, slots=True)
class Asked:
    """The step that was asked for."""

    model: str
    batch: int
    context: int
    config: ModelConfig
    kv_dtype: str
    native: bool = True


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of every repeat: of each bench's steps, and of the plain read of the largest."""

    steps: list[list[float]]
    reads: list[float]


def result(
    asked: Asked, counts: Sequence[int], benches: list[Bench], times: Times, course: dict[str, Any]
) -> dict[str, Any]:
    """What was measured, and what it means for the whole model. Raises Unavailable where no line fits the layers."""
    last, layers = benches[-1], asked.config.layers
    medians = [statistics.median(taken) for taken in times.steps]
    line = fit(counts, medians) if len(counts) > 1 else None
    step = line.seconds(layers) if line else medians[-1]
    size = last.bytes_of(layers)
    plain = last.read_bytes / statistics.median(times.reads)
    best = last.bytes / min(times.steps[-1]) / (last.read_bytes / min(times.reads))
    return {
        "probe": "decode",
        "measures": f"decode of {asked.model}, batch {asked.batch}, context {asked.context}",
        "device": last.device.name,
        "step_seconds": step,
        "tokens_per_s": asked.batch / step,
        "bytes_per_step": size,
        "achieved_bytes_per_s": size / step,
        "plain_read_bytes_per_s": plain,
        "fraction": size / step / plain,
        "best_fraction": best,
        "step_repeats_seconds": [list(taken) for taken in times.steps],
        "basis": "fit over layers" if line else "measured",
        "fit": _told(line, counts) if line else None,
        "kv_relative_error": last.kv_error,
        "rows": [row.as_dict() for row in _rows(benches, times, plain)],
        "conditions": {
            **_conditions(asked),
            "rounds": len(times.reads),
            **course,
            **last.device.conditions(native=asked.native),
        },
    }


def _told(line: Fit, counts: Sequence[int]) -> dict[str, Any]:
    """The line over the layers."""
    return {
        "layers": list(counts),
        "seconds_outside": line.seconds_outside,
        "seconds_per_layer": line.seconds_per_layer,
        "third_point_off": line.miss,
    }


def _rows(benches: list[Bench], times: Times, plain: float) -> list[Row]:
    """A row for each bench, and one for the plain read."""
    rows = []
    for bench, taken in zip(benches, times.steps, strict=True):
        rate = bench.bytes / statistics.median(taken)
        rows.append(Row(f"decode, {bench.layers} layers", bench.bytes, rate, _rates(bench.bytes, taken)))
    size = benches[-1].read_bytes
    return [*rows, Row("plain read", size, plain, _rates(size, times.reads))]


def _conditions(asked: Asked) -> dict[str, Any]:
    """What the figures are figures of."""
    return {
        "model": asked.model,
        "layers": asked.config.layers,
        "batch": asked.batch,
        "context": asked.context,
        "weights": asked.config.dtype,
        "kv_dtype": asked.kv_dtype,
        "page": PAGE,
        "block_table": "random permutation",
    }


def _rates(size: int, seconds: list[float]) -> tuple[float, ...]:
    """Bytes a second of every repeat."""
    return tuple(size / each for each in seconds)
