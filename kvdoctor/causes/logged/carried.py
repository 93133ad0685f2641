"""Loads and transfers by arithmetic: the bytes of a request over the rate at which they come."""

from __future__ import annotations

from kvdoctor import logmetrics as lm
from kvdoctor.causes.logged.opinion import MAIN, OF_TTFT, Grade, Opinion, likely
from kvdoctor.logview import LogView
from kvdoctor.model import Bound, Metric
from kvdoctor.quantity import Quantity
from kvdoctor.service import Objective
from kvdoctor.units import duration, rate_bytes

_DO = {
    Bound.OFFLOAD: "a faster tier, prefetch, larger pieces, or recompute where that is quicker",
    Bound.NETWORK: "a faster or direct link, fewer bytes (quantized KV), or layers sent while others compute",
}
_WAYS: tuple[tuple[Quantity, Bound, str], ...] = (
    (lm.LOAD_RATE, Bound.OFFLOAD, "slow_tier"),
    (lm.TRANSFER_RATE, Bound.NETWORK, "slow_link"),
)


def check(view: LogView, objective: Objective) -> tuple[Opinion, ...]:
    """Hold what a request's bytes take against its time to the first token (rule 14)."""
    size, ttft = view.last(lm.REQUEST_BYTES), max(view.values(lm.TTFT), default=0.0)
    ways = [(q, bound, name) for q, bound, name in _WAYS if view.of(q)]
    if not size or len(ways) != 1:
        return ()
    quantity, bound, name = ways[0]
    rate = max(view.values(quantity))
    took = size / rate if rate > 0 else 0.0
    if took < max(MAIN * ttft, OF_TTFT * objective.ttft_p95) or (ttft and took > ttft / MAIN):
        return ()
    why = f"The KV of a request takes {duration(took)} at {rate_bytes(rate)}"
    why += f", and its first token {duration(ttft)}." if ttft else "."
    evidence = (view.evidence("bytes of a request over the rate", took, "seconds", threshold=MAIN * ttft or None,
                              of=(lm.REQUEST_BYTES, quantity)),)  # fmt: skip
    return (likely(bound, name, why, Grade.INFERRED, evidence, do=_DO[bound], metric=Metric.TTFT),)
