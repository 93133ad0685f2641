"""Rows of the roofline's JSON: tiers, what-ifs, sweeps, claims."""

from __future__ import annotations

import math
from typing import TypeAlias

from kvdoctor.roofline.claim import Claim
from kvdoctor.roofline.report import Sweep
from kvdoctor.roofline.tiers import FetchOrCompute
from kvdoctor.roofline.whatif import Side, WhatIf
from kvdoctor.roofline.widening import Widening
from kvdoctor.units import GB, precise

Value: TypeAlias = "str | int | float | bool | list[Value] | dict[str, Value] | None"


def pair(values: tuple[float, float] | None) -> Value:
    """A range as two numbers."""
    return None if values is None else [precise(values[0]), precise(values[1])]


def tier(place: FetchOrCompute) -> Value:
    return {
        "name": place.tier.name,
        "gb_per_s": precise(place.tier.measured / GB),
        "line_gb_per_s": precise(place.tier.line_rate / GB),
        "bytes": precise(place.bytes),
        "fetch_seconds": precise(place.fetch_seconds),
        "recompute_seconds": precise(place.recompute_seconds),
        "break_even_tokens": precise(place.break_even_tokens),
        "break_even_gb_per_s": precise(place.break_even_bytes_per_s / GB),
    }


def _side(side: Side) -> Value:
    return {
        "step_bytes": precise(side.step_bytes),
        "step_seconds_floor": precise(side.step_seconds),
        "tokens_per_s_ceiling": precise(side.ceiling),
        "sequences": side.sequences,
        "tokens_per_s_served": precise(side.served),
    }


def what_if(row: WhatIf) -> Value:
    return {
        "change": row.change,
        "kind": row.kind,
        "before": _side(row.before),
        "after": _side(row.after),
        "gain": precise(row.gain),
        "makes_it_fit": row.gain is not None and math.isinf(row.gain),
        "advised": row.advised,
        "note": row.note,
        "widening": _widening(row.widening),
    }


def _widening(found: Widening | None) -> Value:
    if found is None:
        return None
    parts: list[Value] = [
        {
            "name": part.name,
            "before_bytes": precise(part.before_bytes),
            "after_bytes": precise(part.after_bytes),
            "undivided_bytes": precise(part.undivided_bytes),
            "before_seconds": precise(part.before_seconds),
            "after_seconds": precise(part.after_seconds),
            "lost_seconds": precise(part.lost_seconds),
        }
        for part in found.parts
    ]
    return {
        "ranks": list(found.ranks),
        "batches": pair(found.batches),
        "before_seconds": precise(found.before_seconds),
        "after_seconds": precise(found.after_seconds),
        "parts": parts,
        "all_reduces": found.all_reduces,
        "all_reduce_bytes": precise(found.message_bytes),
        "link_bytes_per_s": precise(found.link),
        "layer_seconds": precise(found.layer_seconds),
    }


def sweep(sweep: Sweep | None) -> Value:
    if sweep is None:
        return None
    points: list[Value] = [
        {
            "batch": precise(point.batch),
            "context": precise(point.context),
            "step_seconds_floor": precise(point.seconds_floor),
            "tokens_per_s_ceiling": precise(point.ceiling),
            "tokens_per_s_expected": pair(point.expected),
            "kv_bytes": precise(point.kv_bytes),
            "fits": point.fits,
            "limit": point.limit,
        }
        for point in sweep.points
    ]
    return {"over": sweep.over, "points": points}


def claim(claim: Claim | None) -> Value:
    if claim is None:
        return None
    verdicts: list[Value] = [
        {
            "reading": verdict.reading,
            "claimed_tokens_per_s": precise(verdict.claimed),
            "tokens_per_s_ceiling": precise(verdict.ceiling),
            "tokens_per_s_expected": pair(verdict.expected),
            "possible": verdict.possible,
        }
        for verdict in claim.verdicts
    ]
    return {
        "text": claim.text,
        "possible": claim.possible,
        "fits": claim.fits,
        "verdicts": verdicts,
        "remedies": list(claim.remedies),
    }
