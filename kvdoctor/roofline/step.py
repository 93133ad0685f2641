"""One decode step: its bytes, FLOPs and messages, the floor on its time, what to expect, and what rules."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline import collective, hardware, kv, prefill, weights
from kvdoctor.roofline.formats import weight_format
from kvdoctor.roofline.hardware import Gpu
from kvdoctor.roofline.shape import KvStorage, Layout, ModelShape, StepBytes

Limit = Literal["weights", "kv", "state", "compute", "collectives", "latency"]


@dataclass(frozen=True, slots=True)
class Machine:
    """What one GPU of the group can do. Rates in bytes/s and FLOP/s."""

    bandwidth: float
    peak: float | None = None
    """None where no source gives a peak: compute is then not judged."""
    link: float | None = None
    """Bytes/s of one direction to the other ranks; None where unknown: collectives are then not judged."""
    basis: str = "data sheet"
    """Where the bandwidth comes from: data sheet, or a measurement."""
    is_of_steps: bool = False
    """Whether the bandwidth is that of real decode steps, so that a step can be expected to reach all of it."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is decoded."""

    batch: float = 1.0
    """Sequences in all; may be a mean."""
    context: float = 4096.0
    """Mean live tokens of a sequence: prompt and half of the output."""
    tokens_per_sequence: float = 1.0
    """1 plus drafted tokens."""
    mix: tuple[tuple[float, float], ...] = ()
    """(tokens, share) of sequences of unlike lengths, shares adding up to 1; empty: all are near the mean."""

    @property
    def lengths(self) -> tuple[tuple[float, float], ...]:
        """The mix, or the mean alone: windows make a mix read less than its mean would."""
        return self.mix or ((self.context, 1.0),)


@dataclass(frozen=True, slots=True)
class Step:
    """A decode step of the whole batch."""

    bytes: StepBytes
    """Of one rank; with pipeline stages, of one micro-batch through all stages in turn."""
    flops: float
    """Over all ranks and micro-batches."""
    seconds_floor: float
    seconds_by_part: dict[Limit, float]
    """weights, kv, state and compute make the floor; collectives and latency only the expectation."""
    seconds_expected: tuple[float, float]
    """Fast and slow."""
    tokens_per_s_ceiling: float
    """Over the whole batch, one token a sequence and step."""
    tokens_per_s_expected: tuple[float, float]
    """Low and high, over the whole batch."""
    expected_basis: str
    limit: Limit
    """The largest part, the expectation's own included."""


def machine_of(
    gpu: Gpu,
    shape: ModelShape,
    *,
    bandwidth: float | None = None,
    peak: float | None = None,
    link: float | None = None,
) -> Machine:
    """The rates of a card for this model: its peak for the arithmetic of the weights, or what is given instead."""
    arithmetic = weight_format(shape.weight_format).arithmetic
    return Machine(
        bandwidth or gpu.bandwidth(),
        peak or gpu.peak_flops(arithmetic),
        link or gpu.nvlink_bytes_per_s or gpu.pcie_bytes_per_s,
        "measured" if bandwidth else "data sheet",
    )


def micro_batches(batch: float, layout: Layout) -> int:
    """Micro-batches that fill the pipeline: at most one a stage, at least one sequence each."""
    return max(1, min(layout.pp, int(batch)))


def step_bytes(
    shape: ModelShape,
    load: Load,
    layout: Layout = Layout(),
    storage: KvStorage = KvStorage(),
) -> StepBytes:
    """Bytes on one rank. KV counts once a sequence, however many tokens it verifies.

    Under DP attention a rank has its own share of the sequences, at least one while there is one.
    """
    batch = load.batch / micro_batches(load.batch, layout)
    own = max(batch / max(1, layout.dp_attention), min(batch, 1.0))
    read = weights.read_bytes(shape, tokens=batch * load.tokens_per_sequence, layout=layout)
    pairs = [kv.read_bytes(shape, context=n, layout=layout, storage=storage) for n, _ in load.lengths]
    low, high = (
        sum(pair[i] * share for pair, (_, share) in zip(pairs, load.lengths, strict=True)) for i in (0, 1)
    )
    state = 2 * own * kv.state_bytes(shape, layout=layout, storage=storage)
    return StepBytes(read.low, read.estimate, read.high, own * low, own * high, state)


def decode_step(
    shape: ModelShape,
    machine: Machine,
    load: Load,
    layout: Layout = Layout(),
    storage: KvStorage = KvStorage(),
) -> Step:
    """Work out one decode step.

    T >= max((W + K + S) / bandwidth, FLOPs / peak). With pipeline stages a sequence waits for all of them in
    turn, so they do not add bandwidth. Raises KvdoctorError for a batch or a bandwidth that is not positive.
    """
    if load.batch <= 0 or load.context < 0 or machine.bandwidth <= 0:
        raise KvdoctorError("a step needs a batch, a context and a bandwidth above zero", "check the options")
    moved = step_bytes(shape, load, layout, storage)
    work = sum(
        prefill.decode_flops(
            shape, batch=load.batch * share, context=n, tokens_per_sequence=load.tokens_per_sequence
        )
        for n, share in load.lengths
    )
    parts = _parts(shape, machine, load, layout, moved, work)
    floor = max(parts["weights"] + parts["kv"] + parts["state"], parts["compute"])
    fractions = read_fractions(shape, machine, layout, load.batch)
    fast, slow = _expected(parts, shape, fractions)
    return Step(
        moved,
        work,
        floor,
        parts,
        (fast, slow),
        load.batch / floor,
        (load.batch / slow, load.batch / fast),
        expected_basis(fractions, layout, load.batch),
        max(parts, key=lambda part: parts[part]),
    )


def _parts(
    shape: ModelShape, machine: Machine, load: Load, layout: Layout, moved: StepBytes, work: float
) -> dict[Limit, float]:
    """Seconds of each part, each as if it were alone."""
    count = micro_batches(load.batch, layout)
    tokens = load.batch * load.tokens_per_sequence / count
    stage_gpus = layout.gpus / layout.pp
    compute = work / count / (stage_gpus * machine.peak) if machine.peak else 0.0
    own = tokens / max(1, layout.dp_attention)
    messages = 0.0
    if machine.link:
        messages = collective.tp_seconds(shape, tokens=own, layout=layout, link=machine.link)
        messages += collective.ep_seconds(shape, tokens=own, layout=layout, link=machine.link)
    latency = len(shape.layers) * hardware.LAYER_LATENCY_S if stage_gpus > 1 else 0.0
    return {
        "weights": moved.weights / machine.bandwidth,
        "kv": moved.kv / machine.bandwidth,
        "state": moved.state / machine.bandwidth,
        "compute": compute,
        "collectives": messages,
        "latency": latency,
    }


def _expected(
    parts: dict[Limit, float], shape: ModelShape, fractions: tuple[float, float]
) -> tuple[float, float]:
    """Fast and slow seconds of a step: fractions of the roof, plus messages and a latency a layer."""
    reads = parts["weights"] + parts["kv"] + parts["state"]
    high, low = fractions
    latency = parts["latency"] * hardware.LAYER_LATENCY_HIGH_S / hardware.LAYER_LATENCY_S
    if not parts["latency"]:
        latency = len(shape.layers) * hardware.LAUNCH_LATENCY_S
    fast = max(reads / high, parts["compute"] / hardware.COMPUTE_FRACTION)
    slow = max(reads / low, parts["compute"] / min(low, hardware.PREFILL_FRACTION))
    return fast + parts["collectives"] + parts["latency"], slow + parts["collectives"] + latency


def read_fractions(shape: ModelShape, machine: Machine, layout: Layout, batch: float) -> tuple[float, float]:
    """Shares of the bandwidth over a decode step, (good, poor).

    The good one is all of it where real decode steps measured it. The poor one depends on the width and the weight
    format, and falls with the batch to what serving engines reach while prefill shares their steps.
    """
    size = weight_format(shape.weight_format).bytes_per_weight
    alone = next(fraction for limit, fraction in hardware.DECODE_FRACTION_LOW if size >= limit)
    low = hardware.TP_FRACTION_LOW if layout.gpus > layout.pp else alone
    filled = min(1.0, math.log(max(1.0, batch)) / math.log(hardware.SERVING_BATCH))
    high = 1.0 if machine.is_of_steps else hardware.DECODE_FRACTION
    return high, low * (hardware.SERVING_FRACTION_LOW / low) ** filled


def expected_basis(fractions: tuple[float, float], layout: Layout, batch: float) -> str:
    """One line that says what the expected range is made of."""
    high, low = fractions
    text = f"{low:.0%} to {high:.0%} of the bandwidth"
    if layout.gpus > layout.pp:
        latency, most = hardware.LAYER_LATENCY_S * 1e6, hardware.LAYER_LATENCY_HIGH_S * 1e6
        text += f" and {latency:.0f} to {most:.0f} us a layer"
    shared = "the low end with prefill in the steps" if batch > 1 else "decode alone"
    return f"{text}; {shared}"
