"""The decode probe beside a service: memory filled bit by bit, steps that fit a burst, rests after each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Protocol

import torch
from torch import Tensor

from kvdoctor.errors import Unavailable
from kvdoctor.probes.timing import ALONE, BURST_S, Pace
from kvdoctor.reference.config import ModelConfig
from kvdoctor.reference.memory import empty
from kvdoctor.reference.weights import Weights, random_weights

SHARE = 0.7
"""Of a burst that a step may take by a plain read's rate: a step reads more slowly, and others read too."""
SAMPLE, CACHES, SAMPLES = 64 * 2**20, 2, 3
"""Bytes that are read for that rate: no less, and more than the caches hold; the fastest of some readings counts."""
TICK_S = 1e-6
"""Seconds below which a processor's clock tells nothing."""
STEP = 2**20
"""Numbers that are written at once: some milliseconds on a CPU, where fresh pages cost most."""


class Device(Protocol):
    """The device as it is needed here."""

    @property
    def place(self) -> str: ...

    @property
    def cache(self) -> int: ...

    def seconds(self, work: Callable[[], object]) -> float: ...

    def read(self, memory: list[Tensor]) -> float: ...


def step_bytes(device: Device, pace: Pace) -> int:
    """Return the bytes that a step may read: those of a share of a burst, by a plain read of a little memory.

    A reading takes as long as the pace counts it: what is waited for a processor, behind the service, disturbs nobody.
    """
    size = max(SAMPLE, CACHES * device.cache) // 4
    memory = empty((size,), torch.float32, device.place)
    _fill(memory, torch.zeros(STEP, device=device.place), device, pace)
    pace.spend(lambda: device.read([memory]))
    fastest = min(pace.burst(lambda: device.read([memory])) for _ in range(SAMPLES))
    return int(SHARE * BURST_S * memory.nbytes / max(fastest, TICK_S))


def weights(config: ModelConfig, seed: int, device: Device, pace: Pace) -> Weights:
    """Return random weights like those of an engine that is alone, made of one tile of numbers over and over."""
    plan = random_weights(config, device="meta")
    generator = torch.Generator(device.place).manual_seed(seed)
    tile = torch.empty(STEP, device=device.place).uniform_(-1.0, 1.0, generator=generator)

    def made(like: Tensor, around: float = 1.0) -> Tensor:
        found = empty(tuple(like.shape), like.dtype, device.place)
        bound = math.sqrt(3.0 / like.shape[-1]) if like.dim() > 1 else 0.1
        _fill(found, tile * bound + (around if like.dim() == 1 else 0.0), device, pace)
        return found

    layers = []
    for layer in plan.layers:
        shapes = {field.name: getattr(layer, field.name) for field in fields(layer)}
        layers.append(
            replace(
                layer,
                **{
                    name: made(like, 0.0 if name.endswith("bias") else 1.0)
                    for name, like in shapes.items()
                    if like is not None
                },
            )
        )
    embedding = made(plan.embedding)
    head = embedding if plan.head is plan.embedding else made(plan.head)
    return Weights(embedding, tuple(layers), made(plan.norm), head)


def check_step(step: Callable[[], float], pace: Pace) -> None:
    """Take a step, a few where it is long; Unavailable where all are longer than a burst may be, waiting aside."""
    shortest = math.inf
    for _ in range(SAMPLES):
        shortest = min(shortest, pace.burst(step))
        if shortest <= BURST_S:
            return
    raise Unavailable(
        f"a step takes {1e3 * shortest:.0f} ms here, and beside a service no burst is to last more than "
        f"{1e3 * BURST_S:.0f} ms",
        f"--size less, or {ALONE}",
    )


def _fill(into: Tensor, tile: Tensor, device: Device, pace: Pace) -> None:
    """Copy a tile over a tensor, piece by piece."""
    flat = into.view(-1)
    for start in range(0, flat.numel(), tile.numel()):
        piece = flat[start : start + tile.numel()]
        pace.spend(lambda piece=piece: device.seconds(lambda: piece.copy_(tile[: piece.numel()])))  # type: ignore[misc]
