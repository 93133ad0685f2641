"""How long, and how often, a live engine may be read."""

from __future__ import annotations

import math

from kvdoctor.errors import Misuse

MAX_READINGS = 1_000_000
"""Eleven days at 1 Hz, as many as a series of pages may have: a guard for memory and disk."""


def check_length(seconds: float, interval_s: float) -> None:
    """Refuse a window or an interval that is not above 0, or holds more readings than are kept: Misuse."""
    example = "--seconds 15 --interval 1"
    for name, value in (("seconds", seconds), ("interval", interval_s)):
        if not (math.isfinite(value) and value > 0):
            raise Misuse(f"--{name} must be above 0, not {value:g}", example)
    if seconds / interval_s > MAX_READINGS:
        raise Misuse(
            f"{seconds:g} s at an interval of {interval_s:g} s is more than {MAX_READINGS:,} readings",
            example,
        )
