"""The roofline's answer for machines: the contract of `schema/roofline-1.schema.json`, base units, null for unknown."""

from __future__ import annotations

import json

from kvdoctor import __version__
from kvdoctor.render import roofline_rows as rows
from kvdoctor.roofline import kv
from kvdoctor.roofline.answer import Answer
from kvdoctor.roofline.pool import longest_sequence
from kvdoctor.roofline.report import Report
from kvdoctor.units import precise

SCHEMA_VERSION = 1


def _model(answer: Answer) -> rows.Value:
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


def _machine(answer: Answer) -> rows.Value:
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


def _load(answer: Answer) -> rows.Value:
    load, question = answer.question.load, answer.question
    return {
        "batch": precise(load.batch),
        "context": precise(load.context),
        "mix": [[precise(tokens), precise(share)] for tokens, share in load.mix],
        "draft_tokens": question.drafted,
        "accepted_tokens_per_step": precise(question.accepted),
    }


def _memory(answer: Answer) -> rows.Value:
    fit = answer.fit
    return {
        "card_bytes": precise(fit.card),
        "usable_bytes": precise(fit.usable),
        "weight_bytes": precise(fit.weights),
        "live_bytes": precise(fit.live),
        "live_state_bytes": precise(fit.state),
        "misfits": list(fit.misfits),
    }


def _pool(answer: Answer) -> rows.Value:
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


def _decode(answer: Answer) -> rows.Value:
    decode, step = answer.decode, answer.decode.step
    moved, batch = decode.bytes, answer.question.load.batch
    return {
        "bytes": {"weights": precise(moved.weights), "kv": precise(moved.kv), "state": precise(moved.state)},
        "bytes_range": {
            "weights": rows.pair((moved.weights_low, moved.weights_high)),
            "kv": rows.pair((moved.kv, moved.kv_high)),
        },
        "flops": precise(decode.flops),
        "seconds_by_part": {part: precise(s) for part, s in step.seconds_by_part.items()} if step else None,
        "draft_seconds": precise(decode.draft_seconds),
        "step_seconds_floor": precise(decode.seconds_floor),
        "tokens_per_s_ceiling": precise(decode.ceiling),
        "tokens_per_s_ceiling_per_sequence": precise(decode.ceiling / batch) if decode.ceiling else None,
        "tokens_per_s_expected": rows.pair(decode.expected),
        "expected_basis": decode.basis or None,
        "limit": step.limit if step else None,
    }


def _first_token(answer: Answer) -> rows.Value:
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


def _ridges(answer: Answer) -> rows.Value:
    ridges = answer.ridges
    if ridges is None:
        return None
    return {
        "compute_batch": precise(ridges.compute_batch),
        "kv_batch": precise(ridges.kv_batch),
        "kv_context": precise(ridges.kv_context),
    }


def to_dict(report: Report) -> dict[str, rows.Value]:
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
        "tiers": [rows.tier(place) for place in answer.places],
        "what_if": [rows.what_if(row) for row in report.what_ifs],
        "sweep": rows.sweep(report.sweep),
        "claim": rows.claim(report.claim),
        "warnings": list(answer.warnings),
    }


def render(report: Report) -> str:
    """Return the contract as ASCII text that ends in a newline."""
    return json.dumps(to_dict(report), indent=2, ensure_ascii=True, allow_nan=False) + "\n"
