"""The table of tiers on this machine: how long a prefix takes from each that was measured, against computing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvdoctor.commands.prefill_rate import Prefill
from kvdoctor.probes.tiers import Reach, reaches
from kvdoctor.roofline.shape import KvStorage, Layout, ModelShape

TOKENS = (1024, 8192, 32768, 131072)
EFFICIENCY = 0.5
"""Share of the dense peak that prefill reaches, where none was measured: the roofline guide's examples use it."""


@dataclass(frozen=True, slots=True)
class Compute:
    """How fast a prefix is computed again."""

    flops_per_s: float
    """Of one GPU, as it is reached."""
    says: str


def table(
    results: Sequence[dict[str, Any]],
    model: str | ModelShape,
    gpu: str | None,
    tp: int,
    prefill: Prefill | None = None,
) -> dict[str, Any]:
    """Return the table as one more JSON object; `refused` where no tier was measured.

    Computing takes as long as `prefill` shows, else as long as half of the card's dense peak gives, else it is unknown.
    """
    from kvdoctor.roofline import kv
    from kvdoctor.roofline.machine import card_of
    from kvdoctor.roofline.source import shape_of

    shape, layout = shape_of(model) if isinstance(model, str) else model, Layout(tp=tp)
    found = reaches([result for result in results if "rows" in result])
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
    card = card_of(gpu)
    machine = card.machine(shape)
    compute = _measured(shape, layout, prefill) or _modelled(machine.peak if machine is not None else None)
    about = {
        "model": shape.name,
        "tp": tp,
        "card": card.name,
        "kv_bytes_per_token": kv.growth_bytes(shape, layout=layout),
        "recompute": compute.says if compute is not None else "not known: --gpu NAME, or --url of the engine",
        "recompute_is_measured": prefill is not None,
    }
    rows = [_row(shape, layout, reach, tokens, compute) for reach in found for tokens in TOKENS]
    return {**head, "device": card.name or "no card named", "rows": rows, "conditions": about}


def _measured(shape: ModelShape, layout: Layout, prefill: Prefill | None) -> Compute | None:
    """Return the FLOP/s that prefill really reaches: other lengths take as long as their FLOPs at that pace."""
    from kvdoctor.roofline.prefill import flops

    if prefill is None:
        return None
    pace = flops(shape, new=prefill.computed, cached=prefill.cached) / prefill.seconds
    return Compute(pace * layout.pp / layout.gpus, f"{prefill.says}; other lengths by the model's FLOPs")


def _modelled(peak: float | None) -> Compute | None:
    if not peak:
        return None
    return Compute(EFFICIENCY * peak, f"modelled: {EFFICIENCY:.0%} of the card's dense peak")


def _row(
    shape: ModelShape, layout: Layout, reach: Reach, tokens: int, compute: Compute | None
) -> dict[str, Any]:
    """One tier at one length. Without a pace of computing only the fetch is known."""
    from kvdoctor.roofline.tiers import Tier, fetch_or_compute, fetched_bytes, transfer_seconds

    row: dict[str, Any] = {
        "tier": reach.name,
        "tokens": tokens,
        "bytes_per_s": reach.bytes_per_s,
        "source": reach.source,
    }
    if compute is None:
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
    both = fetch_or_compute(
        shape, tier, tokens=tokens, peak=compute.flops_per_s, efficiency=1.0, layout=layout
    )
    return {
        **row,
        "bytes": both.bytes,
        "fetch_seconds": both.fetch_seconds,
        "recompute_seconds": both.recompute_seconds,
        "break_even_tokens": both.break_even_tokens,
    }
