"""The answer for machines, by the contract of `schema/diagnosis-1.schema.json`: the same bytes each time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import Enum
from typing import TypeAlias

from kvdoctor.model import Diagnosis, Finding, Gap, Ledger, Part
from kvdoctor.service import TargetInfo
from kvdoctor.units import precise

SCHEMA_VERSION = 1

Value: TypeAlias = "str | int | float | bool | list[Value] | dict[str, Value] | None"


def _name(item: Enum | None) -> str | None:
    return None if item is None else str(item.value)


def _strings(items: Iterable[str]) -> list[Value]:
    return list(items)


def _target(target: TargetInfo) -> dict[str, Value]:
    out: dict[str, Value] = {
        "engine": target.engine,
        "version": target.version,
        "model": target.model,
        "role": target.role,
    }
    if target.pid is not None:
        out["pid"] = target.pid
    if target.url is not None:
        out["url"] = target.url
    memory = target.memory
    return out | {
        "ranks": _strings(target.ranks),
        "gpus": _strings(target.gpus),
        "memory": {name: precise(getattr(memory, name)) for name in ("weights", "pool", "used", "free")},
        "uptime_seconds": precise(target.uptime_seconds),
    }


def _window(diagnosis: Diagnosis) -> dict[str, Value]:
    window = diagnosis.window
    return {
        "start": precise(window.start),
        "seconds": precise(window.seconds),
        "requests": precise(window.requests),
        "finished": precise(window.finished),
        "restarts": window.restarts,
        "scrapes": window.scrapes,
        "lifetime": window.lifetime,
        "generated_tokens": precise(window.generated_tokens),
        "prompt_tokens": precise(window.prompt_tokens),
    }


def _part(part: Part) -> dict[str, Value]:
    out: dict[str, Value] = {"name": part.name}
    if part.parent is not None:
        out["parent"] = part.parent
    out |= {"seconds": precise(part.seconds), "basis": part.basis.value}
    return out | {"note": part.note} if part.note else out


def _ledger(ledger: Ledger) -> dict[str, Value]:
    return {
        "seconds": precise(ledger.seconds),
        "count": precise(ledger.count),
        "parts": [_part(part) for part in ledger.parts],
    }


def _gaps(gaps: Iterable[Gap]) -> list[Value]:
    return [{"source": gap.source, "reason": gap.reason, "cure": gap.cure} for gap in gaps]


def _finding(finding: Finding) -> dict[str, Value]:
    return {
        "bound": finding.bound.value,
        "subclass": finding.subclass,
        "verdict": finding.verdict.value,
        "argument": finding.argument,
        "metric": _name(finding.metric),
        "share_seconds": precise(finding.share_seconds),
        "recoverable_seconds": precise(finding.recoverable_seconds),
        "evidence": [
            {
                "name": item.name,
                "value": precise(item.value),
                "unit": item.unit,
                "threshold": precise(item.threshold),
                "source": item.source,
            }
            for item in finding.evidence
        ],
        "gaps": _gaps(finding.gaps),
        "advice": [
            {
                "do": item.do,
                "expect": item.expect,
                "basis": item.basis.value,
                "gain_seconds": precise(item.gain_seconds),
            }
            for item in finding.advice
        ],
    }


def _roofline(diagnosis: Diagnosis) -> Value:
    point = diagnosis.roofline
    if point is None:
        return None
    return {
        "bandwidth": precise(point.bandwidth),
        "bandwidth_basis": point.bandwidth_basis,
        "achieved_low": precise(point.achieved_low),
        "achieved_high": precise(point.achieved_high),
        "step_seconds": precise(point.step_seconds),
        "floor_seconds": precise(point.floor_seconds),
        "batch": precise(point.batch),
        "context": precise(point.context),
    }


def _sums(diagnosis: Diagnosis) -> Value:
    sums = diagnosis.sums
    if sums is None:
        return None
    return {
        "prefill_saved_seconds": precise(sums.prefill_saved_seconds),
        "decode_read_bytes": precise(sums.decode_read_bytes),
        "load_seconds": precise(sums.load_seconds),
        "note": sums.note,
    }


def _verdict(diagnosis: Diagnosis) -> dict[str, Value]:
    return {
        "state": diagnosis.state.value,
        "primary": diagnosis.primary_name,
        "family": diagnosis.family,
        "subclass": diagnosis.subclass,
        "primary_by_metric": dict(diagnosis.primary_by_metric),
        "subclass_by_metric": dict(diagnosis.subclass_by_metric),
        "paced_by": diagnosis.paced_by,
        "contributing": [
            {"bound": bound.value, "subclass": subclass} for bound, subclass in diagnosis.contributing
        ],
        "confidence": diagnosis.confidence.value,
        "confidence_reasons": _strings(diagnosis.confidence_reasons),
        "summary": diagnosis.summary,
        "sentences": dict(diagnosis.sentences),
        "next_measurement": diagnosis.next_measurement,
    }


def _numbers(diagnosis: Diagnosis) -> dict[str, Value]:
    quantiles: dict[str, Value] = {
        metric: {name: {"low": precise(q.low), "high": precise(q.high)} for name, q in by_name.items()}
        for metric, by_name in diagnosis.quantiles.items()
    }
    return {
        "quantiles": quantiles,
        "ledger": {metric: _ledger(ledger) for metric, ledger in diagnosis.ledgers.items()},
        "findings": [_finding(finding) for finding in diagnosis.findings],
        "gaps": _gaps(diagnosis.gaps),
        "header": [
            {
                "name": line.name,
                "unit": line.unit,
                "now": precise(line.now),
                "lifetime": precise(line.lifetime),
            }
            for line in diagnosis.header
        ],
        "roofline": _roofline(diagnosis),
        "sums": _sums(diagnosis),
        "notes": _strings(diagnosis.notes),
    }


def to_dict(diagnosis: Diagnosis) -> dict[str, Value]:
    """Return the contract's object: base units, null for what is undefined or without bound.

    The lines of `Diagnosis.charts` are left out: they are for figures, and the recording has them.
    """
    objective, cost = diagnosis.objective, diagnosis.cost
    return {
        "schema_version": SCHEMA_VERSION,
        "kvdoctor": diagnosis.kvdoctor,
        "targets": [_target(target) for target in diagnosis.targets],
        "window": _window(diagnosis),
        "objective": {
            "ttft_p95": precise(objective.ttft_p95),
            "itl_p95": precise(objective.itl_p95),
            "stated": objective.stated,
        },
        **_verdict(diagnosis),
        **_numbers(diagnosis),
        "cost": {
            "cpu_seconds": precise(cost.cpu_seconds),
            "bytes": cost.bytes,
            "longest_read_seconds": precise(cost.longest_read_seconds),
        },
    }


def render(diagnosis: Diagnosis) -> str:
    """Return the contract as ASCII text, so that no character of it can steer a terminal."""
    return json.dumps(to_dict(diagnosis), indent=2, ensure_ascii=True, allow_nan=False) + "\n"
