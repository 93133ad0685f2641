"""How many layers of a model a decode probe builds, and what the time of a few says about all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvdoctor.errors import Unavailable
from kvdoctor.reference.config import ModelConfig
from kvdoctor.reference.sizes import layer_bytes, outer_bytes, token_bytes, weight_bytes

PAGE = 16
"""Tokens of a KV page."""
CACHES = 8
"""Last-level caches that the smallest working set of a step must exceed: below, a cache answers a share of it."""
STEPS = 3
"""Points of the fit: L, 2 L and 3 L layers. The third is the check."""
OFF = 0.03
"""Share by which the third point may miss the line through the first two."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is built and timed."""

    counts: tuple[int, ...]
    """Numbers of layers; one where the whole model fits, else three."""
    bytes: int
    """Memory that the largest takes, weights and KV."""


def kv_layer_bytes(config: ModelConfig, batch: int, context: int, kv_dtype: str) -> int:
    """KV of all sequences in one layer, in whole pages."""
    return batch * -(-context // PAGE) * PAGE * token_bytes(config, kv_dtype)


class NoRoom(Unavailable):
    """Three steps of different size, of the smallest that say anything, take more than may be taken."""


def fewest_layers(config: ModelConfig, kv_layer: int, cache: int) -> int:
    """The fewest layers of a shape that the caches do not hold; all of them where they are not enough either."""
    each = max(layer_bytes(config, layer) for layer in range(config.layers)) + kv_layer
    return max(1, min(config.layers, -(-(CACHES * cache - outer_bytes(config)) // each)))


def plan(config: ModelConfig, kv_layer: int, *, room: int, cache: int) -> Work:
    """The whole model where it fits into `room` bytes, else a few layers of its true shape.

    Raises Unavailable where not even three small steps fit, or where the step would run from the caches.
    """
    whole = weight_bytes(config) + config.layers * kv_layer
    least = CACHES * cache
    if whole <= room:
        if whole < least:
            raise Unavailable(
                f"a step reads {whole / 2**20:,.0f} MiB, of which the caches of {cache / 2**20:,.0f} MiB hold a share",
                "take a larger model, batch or context",
            )
        return Work((config.layers,), whole)
    each = max(layer_bytes(config, layer) for layer in range(config.layers)) + kv_layer
    outer = outer_bytes(config)
    first = max(1, min((room - outer) // (STEPS * each), config.layers // STEPS))
    needed = outer + STEPS * first * each
    if needed > room or STEPS * first > config.layers:
        raise NoRoom(
            f"three layers of this shape take {(outer + STEPS * each) / 2**20:,.0f} MiB with their KV, "
            f"and {room / 2**20:,.0f} MiB may be taken here",
            "free memory, allow more of it (--size), or lower --batch or --context",
        )
    if outer + first * each < least:
        layers = "1 layer is" if first == 1 else f"{first} layers are"
        raise Unavailable(
            f"{layers} {(outer + first * each) / 2**20:,.0f} MiB, of which the caches hold a share",
            "a larger batch or context",
        )
    return Work(tuple(step * first for step in range(1, STEPS + 1)), needed)


@dataclass(frozen=True, slots=True)
class Fit:
    """t = seconds_outside + seconds_per_layer * layers."""

    seconds_outside: float
    """Embedding, head, choice of the token, and what a step costs besides its layers."""
    seconds_per_layer: float
    miss: float
    """By which share the third point lies beside the line through the first two."""

    def seconds(self, layers: int) -> float:
        """The step of a model with so many layers."""
        return self.seconds_outside + self.seconds_per_layer * layers


def fit(counts: Sequence[int], seconds: Sequence[float]) -> Fit:
    """The line through the first two of three points, checked by the third.

    Raises Unavailable where that one misses by more than OFF: the machine was not the same for all three.
    """
    slope = (seconds[1] - seconds[0]) / (counts[1] - counts[0])
    outside = seconds[0] - slope * counts[0]
    expected = outside + slope * counts[2]
    miss = seconds[2] / expected - 1 if expected > 0 else float("inf")
    if abs(miss) > OFF or slope <= 0:
        told = ", ".join(f"{n} layers {t * 1e3:.3g} ms" for n, t in zip(counts, seconds, strict=True))
        raise Unavailable(
            f"the step does not grow by the layer ({told}): the third misses the line by {miss:+.1%}",
            "other work disturbs it: probe on an idle machine",
        )
    return Fit(outside, slope, miss)
