"""The only place that rounds and that writes units for people."""

from __future__ import annotations

import math
from datetime import datetime, timezone

KIB, MIB, GIB = 2**10, 2**20, 2**30
KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12

UNDEFINED = "undefined"

Scale = tuple[float, str]
RATES: tuple[Scale, ...] = ((TB, "TB/s"), (GB, "GB/s"), (MB, "MB/s"), (KB, "kB/s"))
BINARY: tuple[Scale, ...] = ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))
DECIMAL: tuple[Scale, ...] = ((TB, "TB"), (GB, "GB"), (MB, "MB"), (KB, "kB"))
TIMES: tuple[tuple[float, float, str], ...] = (
    (1e-3, 1e-6, "us"),
    (1.0, 1e-3, "ms"),
    (120.0, 1.0, "s"),
    (7200.0, 60.0, "min"),
)
"""(seconds below which the unit is used, its size in seconds, its name)."""

NO_TIME, NO_SHARE = 1e-9, 1e-12
"""Seconds, and a ratio, below which a difference of sums is rounding and no quantity."""
PRECISE_DIGITS = 12
"""Significant digits of a machine-readable number: far below any noise of measurement, and above the
last bits in which Python 3.12's compensated `sum` differs from that of older versions."""


def _round(value: float, digits: int = 3) -> float:
    """Round to significant figures."""
    return float(f"{value:.{digits}g}")


def _figures(value: float, digits: int = 3) -> str:
    """Write a number with about `digits` significant figures and no exponent."""
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(_round(value, digits)))))
    text = f"{value:,.{min(decimals, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text and decimals > 2 else text


def _scaled(value: float, scales: tuple[Scale, ...], base: str) -> str:
    """Write a value in the largest unit of which it holds at least one, else in the base unit."""
    if not math.isfinite(value):
        return UNDEFINED
    for scale, unit in scales:
        if abs(_round(value / scale)) >= 1:
            return f"{_figures(value / scale)} {unit}"
    return f"{_figures(value)} {base}"


def duration(seconds: float) -> str:
    """Write seconds as a person would: 870 us, 35.0 ms, 1.84 s, 12.0 min, 3.10 h."""
    if not math.isfinite(seconds):
        return UNDEFINED
    if abs(seconds) < NO_TIME:
        return "0 ms"
    size = abs(_round(seconds))
    for limit, scale, unit in TIMES:
        if size < limit:
            return f"{_figures(seconds / scale)} {unit}"
    return f"{_figures(seconds / 3600)} h"


def rate_bytes(bytes_per_s: float) -> str:
    """Write a rate in the decimal units of data sheets: 3.35 TB/s, 26.0 GB/s, 12.5 MB/s."""
    return _scaled(bytes_per_s, RATES, "B/s")


def gib(size: float) -> str:
    """Write a size in the binary units of memory: 14.9 GiB, 2.00 MiB."""
    return _scaled(size, BINARY, "B")


def gb(size: float) -> str:
    """Write a size in the decimal units of data sheets: 16.1 GB, 2.10 MB."""
    return _scaled(size, DECIMAL, "B")


def percent(ratio: float) -> str:
    """Write a ratio 0..1 in percent: 87%, 99.7%, 0.3%, 0.04%. Only 1 itself is 100%, only 0 is 0%."""
    if not math.isfinite(ratio):
        return UNDEFINED
    value = 100 * ratio if abs(ratio) >= NO_SHARE else 0.0
    size = abs(value)
    if size >= 10 and not (99.5 <= size < 100):
        return f"{value:,.0f}%"
    if 99.95 <= size < 100:
        return ">99.9%" if value > 0 else "<-99.9%"
    if 0 < size < 0.01:
        return "<0.01%" if value > 0 else ">-0.01%"
    if 0 < size < 0.1:
        return f"{value:.2f}%"
    return f"{value:.1f}%" if value else "0%"


def count(value: float) -> str:
    """Write a count with thousands separators, and a fraction only where it is small."""
    if not math.isfinite(value):
        return UNDEFINED
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else _figures(value)


def counted(value: float, noun: str) -> str:
    """Write a count of things: 1 request, 214 requests."""
    return f"{count(value)} {noun}" if value == 1 else f"{count(value)} {noun}s"


def moment(unix_seconds: float) -> str:
    """Write a wall-clock time in UTC: 2026-11-29 19:31:50 UTC."""
    if not 0 <= unix_seconds < 253402300800:  # the year 10000, where datetime ends
        return UNDEFINED
    at = datetime.fromtimestamp(math.floor(unix_seconds), tz=timezone.utc)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def change(before: float, after: float) -> str:
    """Write how far a value moved, in percent of where it was: +12%, -3.0%, unchanged."""
    if not (math.isfinite(before) and math.isfinite(after)):
        return UNDEFINED
    if before == after:
        return "unchanged"
    if before == 0:
        return "from nothing"
    ratio = (after - before) / abs(before)
    if abs(ratio) < 1e-4:
        return "hardly changed"
    if ratio >= 10 and before > 0:
        return f"x {_figures(after / before)}"
    return ("+" if ratio > 0 else "-") + percent(abs(ratio)).lstrip(">")


def quantity(value: float, unit: str) -> str:
    """Write a value in one of the vocabulary's base units as a person would."""
    table = {
        "seconds": duration,
        "bytes": gib,
        "bytes/s": rate_bytes,
        "ratio": percent,
        "unix seconds": moment,
    }
    if not math.isfinite(value):
        return UNDEFINED
    if unit in table:
        return table[unit](value)
    return f"{count(value)} {unit}" if unit else count(value)


def tick(value: float, unit: str, *, decimal: bool = False) -> str:
    """Write a round value on an axis, without a fraction that says nothing: 2 s, 2.5 s, 400 ms, 80%."""
    if value == 0:
        return "0"
    known = unit in ("seconds", "bytes", "bytes/s", "ratio")
    text = gb(value) if decimal else quantity(value, unit if known else "")
    number, blank, name = text.partition(" ")
    whole, point, fraction = number.rstrip("%").partition(".")
    short = f"{whole}{point}{fraction}".rstrip("0").rstrip(".") if point else whole
    return f"{short}{'%' if number.endswith('%') else ''}{blank}{name}"


def precise(value: float | None) -> float | None:
    """Round a number for a machine: 12 significant digits or the microsecond; None unless finite."""
    if value is None or not math.isfinite(value):
        return None
    if value == 0 or isinstance(value, int):
        return value
    decimals = PRECISE_DIGITS - 1 - math.floor(math.log10(abs(value)))
    return round(value, max(6, decimals))
