"""Where the limit of a decode step changes: the batch and the context at which one part overtakes another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvdoctor.roofline import kv, prefill, weights
from kvdoctor.roofline.shape import KvStorage, Layout, ModelShape
from kvdoctor.roofline.step import Machine

# Beyond this batch no ridge is looked for.
_MOST = 1e7


@dataclass(frozen=True, slots=True)
class Ridges:
    """Batches and the context at which the limit changes; None where it never does."""

    compute_batch: float | None
    """Weight reads take as long as the FLOPs of the linear part: more batch is no longer free."""
    kv_batch: float | None
    """KV reads take as long as weight reads, at the given context."""
    kv_context: float | None
    """The same in tokens, at the given batch."""


def crossing(above: Callable[[float], bool], low: float = 1e-3, high: float = _MOST) -> float | None:
    """The smallest argument from which `above` holds, to a part in a million; None where it never does."""
    if not above(high):
        return None
    while high / low > 1 + 1e-6:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if above(middle) else (middle, high)
    return high


def ridges(
    shape: ModelShape,
    machine: Machine,
    *,
    batch: float,
    context: float,
    layout: Layout = Layout(),
    storage: KvStorage = KvStorage(),
) -> Ridges:
    """Find the ridges. For dense weights the first is peak / (2 * bandwidth) * bytes a weight."""
    gpus = layout.gpus / layout.pp
    dp = max(1, layout.dp_attention)

    def read_weights(tokens: float) -> float:
        return weights.read_bytes(shape, tokens=tokens, layout=layout).estimate

    linear = prefill.linear_params(shape, head=True)
    peak = machine.peak

    def computing(tokens: float) -> bool:
        if not peak:
            return False
        return 2 * tokens * linear / (gpus * peak) >= read_weights(tokens) / machine.bandwidth

    def read_kv(length: float) -> float:
        return kv.read_bytes(shape, context=length, layout=layout, storage=storage)[0] / dp

    return Ridges(
        crossing(computing) if peak else None,
        crossing(lambda tokens: tokens * read_kv(context) >= read_weights(tokens)),
        crossing(lambda length: batch * read_kv(length) >= read_weights(batch), low=1.0),
    )
