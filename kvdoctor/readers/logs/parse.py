"""From a found line to its numbers, its rank and the process that wrote it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from kvdoctor.quantity import Quantity
from kvdoctor.readers.logs.line import Field
from kvdoctor.readers.logs.scan import Hit
from kvdoctor.readers.logs.stamp import stamp

_COLOUR = re.compile(rb"(?:\x1b|\\u001b|\\x1b|\\033)\[[0-9;]*m")
_RANK = (
    re.compile(rb"Engine (\d{1,4}):"),
    re.compile(rb"\bEngineCore_DP(\d{1,4})\b"),
    re.compile(rb"\bDP(\d{1,4})\b"),
)
_PROCESS = (
    re.compile(rb"^\[pod/([\w.-]{1,120})/"),
    re.compile(rb"^([\w.-]{1,80}) *\| "),
    re.compile(rb"^\(?([\w.-]{1,40}-\d+)\)? +\| "),
)
MAX_VALUE = 1e18
"""Larger than anything that is counted or timed here."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What one line says."""

    number: int
    wall: float | None
    process: str
    """The pod or container in front of the line, empty without one."""
    rank: str
    values: tuple[tuple[Quantity, float], ...]
    hit: Hit


def parse(hit: Hit, latest: float) -> Statement | None:
    """Read a line; None when it says nothing after all. That an engine starts is something."""
    text = _COLOUR.sub(b"", hit.text) if b"[" in hit.text else hit.text
    values: dict[Quantity, float] = {}
    for one in hit.line.fields:
        if one.quantity not in values:
            value = _value(one, text)
            if value is not None:
                values[one.quantity] = value
    if not values and not hit.line.start:
        return None
    return Statement(
        hit.number, stamp(text, latest), _first(_PROCESS, text), _rank(text), tuple(values.items()), hit
    )


def _value(one: Field, text: bytes) -> float | None:
    if one.pattern is None:
        return one.value
    found = one.pattern.search(text)
    if found is None:
        return None
    if not one.pattern.groups:
        return one.value
    try:
        plain = float(found[1].replace(b",", b""))
        value = plain * one.scale if one.scale >= 1 else plain / round(1 / one.scale)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value <= MAX_VALUE else None


def _rank(text: bytes) -> str:
    found = _first(_RANK, text)
    return str(int(found)) if found else "0"


def _first(patterns: tuple[re.Pattern[bytes], ...], text: bytes) -> str:
    for pattern in patterns:
        found = pattern.search(text[:400])
        if found:
            return found[1].decode("ascii", "replace")
    return ""
