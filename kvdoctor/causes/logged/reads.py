"""Bandwidth by arithmetic that a report brings along: the bytes that a token reads, and how many are made."""

from __future__ import annotations

import re

from kvdoctor import logmetrics as lm
from kvdoctor.causes.logged.machine import NEAR
from kvdoctor.causes.logged.opinion import Grade, Opinion, likely
from kvdoctor.logview import LogView
from kvdoctor.model import Bound, Metric
from kvdoctor.units import percent

_PARTS = re.compile(r"\b(head|embedding|experts?|kv|attention|weights?)\b")


def bytes_a_token(view: LogView) -> float:
    """Bytes that a token reads, the parts that names tell in sum; 0 without any."""
    parts: dict[str, float] = {}
    for said in view.of(lm.BYTES_A_TOKEN):
        found = _PARTS.search(said.labels.get("as", "").lower())
        part = found[1] if found else ""
        parts[part] = max(said.value, parts.get(part, 0.0))
    return sum(parts.values())


def check(view: LogView) -> tuple[Opinion, ...]:
    """Hold one stream's rate times what a token reads against the memory's rate.

    Rates beyond it are of something else.
    """
    each, ceiling = bytes_a_token(view), max(view.values(lm.REACHABLE), default=0.0)
    if not each or not ceiling or view.of(lm.REACHED) or view.of(lm.DRAM_ACTIVE):
        return ()
    rates = [s.value for q in (lm.DECODE_RATE, lm.GENERATION_RATE) for s in view.of(q)]
    share = max((rate * each / ceiling for rate in rates if rate * each <= ceiling), default=0.0)
    if share < NEAR or (view.mean(lm.CONCURRENCY) or 1) > 1:
        return ()
    evidence = (
        view.evidence("bytes a token x rate over the memory's rate", share, "ratio", threshold=NEAR,
                      of=(lm.BYTES_A_TOKEN, lm.DECODE_RATE, lm.GENERATION_RATE, lm.REACHABLE)),
    )  # fmt: skip
    why = f"What each token reads allows {ceiling / each:.3g} tokens a second, and {percent(share)} of that is made."
    do = "fewer bytes: weights in 8 or 4 bits, fewer layers in a wide format; faster memory; or more requests at once"
    return (likely(Bound.BANDWIDTH, "weights", why, Grade.INFERRED, evidence, do=do, metric=Metric.ITL),)
