"""What the user tells us, checked and kept as text, so that a recording carries it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

from kvdoctor.errors import KvdoctorError, Misuse
from kvdoctor.units import GB

_TIME = re.compile(r"^\s*([0-9.]+)\s*(us|ms|s)?\s*$")
_SCALE = {"us": 1e-6, "ms": 1e-3, "s": 1.0, None: 1.0}


@dataclass(frozen=True, slots=True)
class Told:
    """The options that a URL or a file cannot answer."""

    gpu: str | None = None
    bandwidth: float | str | None = None
    """GB/s, or the file of a probe."""
    model: str | None = None
    tp: int | None = None
    link: float | None = None
    slow: str | None = None
    slo: str | None = None


def seconds(text: str) -> float:
    """Parse `2s`, `50ms`, `0.05`; Misuse for anything else."""
    match = _TIME.match(text)
    value = (
        float(match[1]) * _SCALE[match[2]]
        if match and match[1].count(".") <= 1 and match[1] != "."
        else math.nan
    )
    if not (math.isfinite(value) and value > 0):
        raise Misuse(f"{text!r} is not a time above 0", "write it as 2s or 50ms")
    return value


def objectives(text: str) -> dict[str, str]:
    """Parse `ttft=2s,itl=50ms` into facts; Misuse for an unknown name."""
    facts = {}
    for item in filter(None, text.split(",")):
        name, _, value = item.partition("=")
        if name.strip() not in ("ttft", "itl") or not value:
            raise Misuse(f"{item!r} is not an objective", "--slo ttft=2s,itl=50ms")
        facts[f"slo_{name.strip()}"] = repr(seconds(value))
    if not facts:
        raise Misuse("--slo names no objective", "--slo ttft=2s,itl=50ms")
    return facts


def _positive(name: str, value: float) -> str:
    if not (math.isfinite(value) and value > 0):
        raise Misuse(f"--{name} must be above 0, not {value:g}", f"give --{name} in GB/s")
    return repr(value)


def _bandwidth(given: float | str) -> dict[str, str]:
    """A rate in GB/s, with or without a unit, or what a probe's file says, with its conditions."""
    try:
        return _told(float(given), "as given by --bandwidth")
    except ValueError:
        text = str(given)
    path = Path(text).expanduser()
    if path.is_file():
        return _probed(path)
    from kvdoctor.roofline.quantity import rate_bytes_per_s

    try:
        return _told(rate_bytes_per_s(text) / GB, "as given by --bandwidth")
    except KvdoctorError as error:
        raise Misuse(
            f"--bandwidth {text} is neither a rate nor a file",
            "--bandwidth 3350 (GB/s), or the file of kvdoctor probe decode --json FILE",
        ) from error


def _told(gb_per_s: float, basis: str) -> dict[str, str]:
    # The basis replaces that of an earlier telling, which a recording may hold.
    return {"bandwidth": _positive("bandwidth", gb_per_s), "bandwidth_basis": basis}


def _probed(path: Path) -> dict[str, str]:
    """The rate of a probe's file, where it comes from, and the conditions that it holds under."""
    from kvdoctor.roofline.probefile import measured_in

    found = measured_in(path)
    if not found.probe:
        return _told(found.bytes_per_s / GB, f"measured, as {path.name} says")
    return {**_told(found.bytes_per_s / GB, found.basis), "bandwidth_measured": found.text()}


def _model(name: str) -> dict[str, str]:
    """Read a config.json, or a preset by name, into the recording."""
    from kvdoctor.roofline.config import shape_from_config
    from kvdoctor.roofline.load import load_model

    config, side = load_model(name)
    shape_from_config(config, side=side, name=name)
    facts = {"model": name, "model_config": json.dumps(config)}
    if side is not None:
        facts["model_side"] = json.dumps(side)
    return facts


def facts(told: Told) -> dict[str, str]:
    """Check what was told and write it down; KvdoctorError names the option that cannot be."""
    found: dict[str, str] = {}
    if told.gpu:
        from kvdoctor.roofline.hardware import gpu_by_name

        found["gpu"] = gpu_by_name(told.gpu).name
    if told.bandwidth is not None:
        found |= _bandwidth(told.bandwidth)
    if told.link is not None:
        found["link"] = _positive("link", told.link)
    if told.model:
        found |= _model(told.model)
    if told.tp is not None:
        if told.tp < 1:
            raise Misuse(f"--tp must be 1 or more, not {told.tp}", "the number of cards of one rank")
        found["tp"] = str(told.tp)
    if told.slow:
        if told.slow not in ("ttft", "itl"):
            raise Misuse(f"--slow is ttft or itl, not {told.slow!r}", "--slow itl")
        found["slow"] = told.slow
    if told.slo:
        found |= objectives(told.slo)
    return found
