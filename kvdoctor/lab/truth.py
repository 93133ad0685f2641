"""What was true: the fault, what the clients saw in the window, and whether the diagnosis agrees."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvdoctor.lab.faults import HEALTHY, NONE, Fault
from kvdoctor.lab.scene import Scene


@dataclass(frozen=True, slots=True)
class Seen:
    """The clients' view of a window; seconds, None where nothing fell into it."""

    first_tokens: int
    errors: int
    ttft_mean: float | None
    itl_mean: float | None


def seen(records: Path, start: float, seconds: float) -> Seen:
    """Requests whose first token, and gaps whose end, fell into a window of wall time."""
    ttfts: list[float] = []
    gaps: list[float] = []
    errors = 0
    for line in records.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        at = [record["start"] + offset for offset in record["token_s"]]
        errors += record["error"] is not None
        ttfts += [at[0] - record["start"]] if at and start <= at[0] <= start + seconds else []
        gaps += [b - a for a, b in itertools.pairwise(at) if start <= b <= start + seconds]
    return Seen(len(ttfts), errors, _mean(ttfts), _mean(gaps))


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def answers(faults: Sequence[Fault]) -> tuple[tuple[str, str | None], ...]:
    """What each fault is to be called."""
    return tuple((fault.primary, fault.subclass) for fault in faults)


def named(faults: Sequence[Fault], contract: Mapping[str, Any]) -> tuple[bool, ...]:
    """For each fault, whether the diagnosis names it; alone as the primary, in a pair also as contributing."""
    first = (contract["primary"], contract["subclass"])
    if len(faults) == 1:
        if faults[0].name == NONE:
            return (contract["state"] == HEALTHY,)
        return (first == answers(faults)[0],)
    told = {first, *((other["bound"], other["subclass"]) for other in contract["contributing"])}
    return tuple(answer in told for answer in answers(faults))


def truth(
    faults: Sequence[Fault], scene: Scene, seed: int, contract: Mapping[str, Any], clients: Seen
) -> dict[str, Any]:
    """The truth as JSON, beside the contract."""
    known = named(faults, contract)
    return {
        "faults": [
            {"name": f.name, "primary": f.primary, "subclass": f.subclass, "what": f.what, "named": ok}
            for f, ok in zip(faults, known, strict=True)
        ],
        "named": all(known),
        "seed": seed,
        "magnitudes": dict(scene.magnitudes),
        "clients": {
            "first_tokens": clients.first_tokens,
            "errors": clients.errors,
            "ttft_seconds": _precise(clients.ttft_mean),
            "itl_seconds": _precise(clients.itl_mean),
        },
    }


def _precise(value: float | None) -> float | None:
    return value if value is None or not math.isfinite(value) else float(f"{value:.6g}")


_CROWDED = ("host", "contended")


def _likely(contract: Mapping[str, Any]) -> set[tuple[str, str | None]]:
    found = contract["findings"]
    return {(each["bound"], each["subclass"]) for each in found if each["verdict"] == "likely"}


def _verdict(fault: Mapping[str, Any], contract: Mapping[str, Any]) -> str:
    if fault["named"]:
        return "named"
    beside = (fault["primary"], fault["subclass"]) in _likely(contract)
    return "NOT named first, but among the likely causes" if beside else "NOT named"


def lines(told: Mapping[str, Any], contract: Mapping[str, Any]) -> tuple[str, ...]:
    """The truth for people."""
    out = ["The truth"]
    for fault in told["faults"]:
        name = " / ".join(filter(None, (fault["primary"], fault["subclass"])))
        out.append(f"  {fault['name']}: {fault['what']} -> {name}, {_verdict(fault, contract)}")
    if not told["named"] and _CROWDED in _likely(contract):
        out.append("  other work took the server's CPUs (host / contended): run it again on an idle machine")
    drawn = ", ".join(f"{key} {value:g}" for key, value in told["magnitudes"].items())
    out.append(f"  magnitudes: {drawn} (--seed {told['seed']})")
    clients, ledger = told["clients"], contract["ledger"]
    for name in ("ttft", "itl"):
        real, ours = clients[f"{name}_seconds"], (ledger.get(name) or {}).get("seconds")
        if real is not None and ours is not None:
            out.append(f"  mean {name.upper()}: clients {real * 1e3:.1f} ms, ledger {ours * 1e3:.1f} ms")
    return tuple(out)
