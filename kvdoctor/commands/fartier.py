"""The table of tiers on this machine: how long a prefix takes from each that was measured, against computing it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvdoctor.probes.tiers import Reach, reaches

TOKENS = (1024, 8192, 32768, 131072)
EFFICIENCY = 0.5
"""Share of the dense peak that prefill reaches, where none was measured: the roofline guide's examples use it."""


def table(results: Sequence[dict[str, Any]], model: str, gpu: str | None, tp: int) -> dict[str, Any]:
    """Return the table as one more JSON object; `refused` where no tier was measured or no card is known."""
    from kvdoctor.roofline.machine import card_of
    from kvdoctor.roofline.shape import Layout
    from kvdoctor.roofline.source import shape_of

    shape, layout = shape_of(model), Layout(tp=tp)
    found = reaches([result for result in results if "rows" in result])
    card = card_of(gpu)
    machine = card.machine(shape)
    peak = machine.peak if machine is not None else None
    head: dict[str, Any] = {
        "schema_version": 1,
        "probe": "tiers",
        "measures": "fetching a prefix against computing it",
    }
    if not found:
        return {
            **head,
            "refused": {"reason": "no tier was measured", "cure": "kvdoctor probe hbm nvme network"},
        }
    from kvdoctor.roofline import kv

    about = {
        "model": shape.name,
        "tp": tp,
        "card": card.name,
        "kv_bytes_per_token": kv.growth_bytes(shape, layout=layout),
        "recompute": f"modelled: {EFFICIENCY:.0%} of the card's dense peak"
        if peak
        else "not known: --gpu NAME",
    }
    rows = [_row(shape, layout, reach, tokens, peak) for reach in found for tokens in TOKENS]
    return {**head, "device": card.name or "no card named", "rows": rows, "conditions": about}


def _row(shape: Any, layout: Any, reach: Reach, tokens: int, peak: float | None) -> dict[str, Any]:
    """One tier at one length. Without a peak only the fetch is known."""
    from kvdoctor.roofline.shape import KvStorage
    from kvdoctor.roofline.tiers import Tier, fetch_or_compute, fetched_bytes, transfer_seconds

    row: dict[str, Any] = {
        "tier": reach.name,
        "tokens": tokens,
        "bytes_per_s": reach.bytes_per_s,
        "source": reach.source,
    }
    if peak is None:
        size = fetched_bytes(
            shape, tokens=tokens, layout=layout, storage=KvStorage(), per_rank=reach.per_rank
        )
        seconds = transfer_seconds(size, rate=reach.bytes_per_s, start=reach.start_s)
        return {
            **row,
            "bytes": size,
            "fetch_seconds": seconds,
            "recompute_seconds": None,
            "break_even_tokens": None,
        }
    tier = Tier(reach.name, reach.bytes_per_s, reach.bytes_per_s, reach.start_s, reach.per_rank)
    both = fetch_or_compute(shape, tier, tokens=tokens, peak=peak, efficiency=EFFICIENCY, layout=layout)
    return {
        **row,
        "bytes": both.bytes,
        "fetch_seconds": both.fetch_seconds,
        "recompute_seconds": both.recompute_seconds,
        "break_even_tokens": both.break_even_tokens,
    }
