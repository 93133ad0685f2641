"""Rows of the roofline's JSON: tiers, what-ifs, sweeps, claims."""

from __future__ import annotations

import math
from typing import TypeAlias

from kvdoctor.roofline.claim import Claim
from kvdoctor.roofline.report import Sweep
from kvdoctor.roofline.tiers import FetchOrCompute
from kvdoctor.roofline.whatif import Side, WhatIf
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
