"""What a family of log lines is made of: a text that finds it quickly, and where its numbers stand."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kvdoctor.quantity import Quantity

NUMBER = rb"(-?[\d,]*\.?\d+(?:[eE][+-]?\d+)?)"
PERCENT = 0.01
MS = 1e-3
MIB = 2.0**20
GIB = 2.0**30


@dataclass(frozen=True, slots=True)
class Field:
    """One number of a line. Without a pattern, `value` itself is what the line says."""

    quantity: Quantity
    pattern: re.Pattern[bytes] | None = None
    scale: float = 1.0
    value: float = 1.0


@dataclass(frozen=True, slots=True)
class Line:
    """One kind of line of one engine or KV layer."""

    engine: str
    needle: bytes
    """Stands in every such line and in few others; searched before any pattern."""
    fields: tuple[Field, ...]
    needs: bytes = b""
    """A second text that must be in the line."""
    seconds: float = 0.0
    """Usual time between two such lines, for logs without times; 0 when there is none."""
    start: bool = False
    """True when the engine writes it once, while starting."""
    labels: tuple[tuple[str, str], ...] = field(default=())


def number(quantity: Quantity, before: bytes, after: bytes = b"", scale: float = 1.0) -> Field:
    """Build a field whose number stands between two texts, both regular expressions."""
    return Field(quantity, re.compile(before + NUMBER + after), scale)


def said(quantity: Quantity, pattern: bytes, value: float = 1.0) -> Field:
    """Build a field that has a fixed value where a pattern is found."""
    return Field(quantity, re.compile(pattern), value=value)


def event(quantity: Quantity, value: float = 1.0) -> Field:
    """Build a field that has a fixed value in every such line; a counter rises by it."""
    return Field(quantity, value=value)
