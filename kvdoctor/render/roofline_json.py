"""The roofline's answer for machines: the contract of `schema/roofline-1.schema.json`, base units, null for unknown."""

from __future__ import annotations

import json
import math
from typing import TypeAlias

from kvdoctor import __version__
from kvdoctor.roofline import kv
from kvdoctor.roofline.answer import Answer
from kvdoctor.roofline.claim import Claim
from kvdoctor.roofline.pool import longest_sequence
from kvdoctor.roofline.report import Report, Sweep
from kvdoctor.roofline.tiers import FetchOrCompute
from kvdoctor.roofline.whatif import Side, WhatIf
from kvdoctor.units import GB, precise

SCHEMA_VERSION = 1

Value: TypeAlias = "str | int | float | bool | list[Value] | dict[str, Value] | None"


def _pair(values: tuple[float, float] | None) -> Value:
    """A range as two numbers."""
    return None if values is None else [precise(values[0]), precise(values[1])]


def _model(answer: Answer) -> Value:
    shape = answer.question.shape
    return {
        "name": shape.name,
        "family": shape.family,
        "layers": len(shape.layers),
        "kv_layers": kv.kv_layers(shape.layers),
        "hidden": shape.hidden,
        "vocab": shape.vocab,
        "max_positions": shape.max_positions,
        "weight_format": shape.weight_format,
        "kv_dtype": answer.question.storage.dtype or shape.kv_dtype,
        "basis": shape.basis,
    }


def _machine(answer: Answer) -> Value:
    question, machine = answer.question, answer.question.machine
    layout = question.layout
    return {
        "gpu": question.card.name or None,
        "gpus": layout.gpus,
        "replicas": question.replicas,
        "tp": layout.tp,
        "pp": layout.pp,
        "ep": layout.ep,
        "dp_attention": layout.dp_attention,
        "dcp": layout.dcp,
        "bandwidth_bytes_per_s": precise(machine.bandwidth) if machine else None,
        "bandwidth_basis": question.card.basis or None,
        "peak_flops_per_s": precise(machine.peak) if machine else None,
        "link_bytes_per_s": precise(machine.link) if machine else None,
        "memory_bytes": precise(question.card.memory),
    }


def _load(answer: Answer) -> Value:
    load, question = answer.question.load, answer.question
    return {
        "batch": precise(load.batch),
        "context": precise(load.context),
        "mix": [[precise(tokens), precise(share)] for tokens, share in load.mix],
        "draft_tokens": question.drafted,
        "accepted_tokens_per_step": precise(question.accepted),
    }


def _memory(answer: Answer) -> Value:
    fit = answer.fit
    return {
        "card_bytes": precise(fit.card),
        "usable_bytes": precise(fit.usable),
        "weight_bytes": precise(fit.weights),
        "live_bytes": precise(fit.live),
        "live_state_bytes": precise(fit.state),
        "misfits": list(fit.misfits),
    }


def _pool(answer: Answer) -> Value:
    pool, question = answer.fit.pool, answer.question
    if pool is None:
        return None
    longest = longest_sequence(
        question.shape, pool_bytes=pool.bytes, layout=question.layout, storage=question.storage
    )
    return {
        "bytes": precise(pool.bytes),
        "blocks": pool.blocks,
        "tokens": pool.tokens,
        "sequences": pool.sequences,
        "concurrency": precise(pool.concurrency),
        "request_bytes": precise(pool.request_bytes),
        "longest_sequence": longest,
        "basis": answer.fit.basis,
    }


def _decode(answer: Answer) -> Value:
    decode, step = answer.decode, answer.decode.step
    moved, batch = decode.bytes, answer.question.load.batch
    return {
        "bytes": {"weights": precise(moved.weights), "kv": precise(moved.kv), "state": precise(moved.state)},
        "bytes_range": {
            "weights": _pair((moved.weights_low, moved.weights_high)),
            "kv": _pair((moved.kv, moved.kv_high)),
        },
        "flops": precise(decode.flops),
        "seconds_by_part": {part: precise(s) for part, s in step.seconds_by_part.items()} if step else None,
        "draft_seconds": precise(decode.draft_seconds),
        "step_seconds_floor": precise(decode.seconds_floor),
        "tokens_per_s_ceiling": precise(decode.ceiling),
        "tokens_per_s_ceiling_per_sequence": precise(decode.ceiling / batch) if decode.ceiling else None,
        "tokens_per_s_expected": _pair(decode.expected),
        "expected_basis": decode.basis or None,
        "limit": step.limit if step else None,
    }


def _first_token(answer: Answer) -> Value:
    first = answer.first_token
    return {
        "tokens": precise(first.tokens),
        "flops": precise(first.flops),
        "seconds_floor": precise(first.floor.seconds) if first.floor else None,
        "seconds_expected": precise(first.expected_seconds),
        "ttft_miss_seconds_floor": precise(first.miss_seconds),
        "ttft_hit_seconds_floor": precise(first.hit_seconds),
        "hit_computed_tokens": precise(first.hit_tokens),
    }


def _tier(place: FetchOrCompute) -> Value:
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


def _what_if(row: WhatIf) -> Value:
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


def _ridges(answer: Answer) -> Value:
    ridges = answer.ridges
    if ridges is None:
        return None
    return {
        "compute_batch": precise(ridges.compute_batch),
        "kv_batch": precise(ridges.kv_batch),
        "kv_context": precise(ridges.kv_context),
    }


def _sweep(sweep: Sweep | None) -> Value:
    if sweep is None:
        return None
    points: list[Value] = [
        {
            "batch": precise(point.batch),
            "context": precise(point.context),
            "step_seconds_floor": precise(point.seconds_floor),
            "tokens_per_s_ceiling": precise(point.ceiling),
            "tokens_per_s_expected": _pair(point.expected),
            "kv_bytes": precise(point.kv_bytes),
            "fits": point.fits,
            "limit": point.limit,
        }
        for point in sweep.points
    ]
    return {"over": sweep.over, "points": points}


def _claim(claim: Claim | None) -> Value:
    if claim is None:
        return None
    verdicts: list[Value] = [
        {
            "reading": verdict.reading,
            "claimed_tokens_per_s": precise(verdict.claimed),
            "tokens_per_s_ceiling": precise(verdict.ceiling),
            "tokens_per_s_expected": _pair(verdict.expected),
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


def to_dict(report: Report) -> dict[str, Value]:
    """Return the contract's object."""
    answer = report.answer
    return {
        "schema_version": SCHEMA_VERSION,
        "kvdoctor": __version__,
        "model": _model(answer),
        "machine": _machine(answer),
        "load": _load(answer),
        "parameters": {
            "total": precise(answer.parameters.total),
            "active": precise(answer.parameters.active),
        },
        "per_rank": {
            "weight_bytes": precise(answer.weights.total),
            "kv_bytes_per_token": precise(answer.kv_per_token),
            "state_bytes_per_sequence": precise(answer.state_per_sequence),
        },
        "kv_bytes_per_sequence": precise(answer.kv_per_sequence),
        "memory": _memory(answer),
        "pool": _pool(answer),
        "decode": _decode(answer),
        "ridges": _ridges(answer),
        "prefill": _first_token(answer),
        "tiers": [_tier(place) for place in answer.places],
        "what_if": [_what_if(row) for row in report.what_ifs],
        "sweep": _sweep(report.sweep),
        "claim": _claim(report.claim),
        "warnings": list(answer.warnings),
    }


def render(report: Report) -> str:
    """Return the contract as ASCII text that ends in a newline."""
    return json.dumps(to_dict(report), indent=2, ensure_ascii=True, allow_nan=False) + "\n"
