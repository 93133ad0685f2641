"""The only place that rounds and that writes units for people."""

from __future__ import annotations

import math

KIB, MIB, GIB = 2**10, 2**20, 2**30
KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12


def _figures(value: float, digits: int = 3) -> str:
    """Write a number with about `digits` significant figures and no exponent."""
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{min(decimals, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text and decimals > 2 else text


def duration(seconds: float) -> str:
    """Write seconds as a person would: 870 us, 35.0 ms, 1.84 s, 12.0 min, 3.10 h."""
    size = abs(seconds)
    for limit, scale, unit in (
        (1e-3, 1e6, "us"),
        (1.0, 1e3, "ms"),
        (120.0, 1.0, "s"),
        (7200.0, 1 / 60, "min"),
    ):
        if size < limit:
            return f"{_figures(seconds * scale)} {unit}" if size else "0 ms"
    return f"{_figures(seconds / 3600)} h"


def rate_bytes(bytes_per_s: float) -> str:
    """Write a rate in the decimal units of data sheets: 3.35 TB/s, 26.0 GB/s, 12.5 MB/s."""
    for scale, unit in ((TB, "TB/s"), (GB, "GB/s"), (MB, "MB/s"), (KB, "kB/s")):
        if abs(bytes_per_s) >= scale:
            return f"{_figures(bytes_per_s / scale)} {unit}"
    return f"{_figures(bytes_per_s)} B/s"


def gib(size: float) -> str:
    """Write a size in the binary units of memory: 14.9 GiB, 2.00 MiB."""
    for scale, unit in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(size) >= scale:
            return f"{_figures(size / scale)} {unit}"
    return f"{size:.0f} B"


def gb(size: float) -> str:
    """Write a size in the decimal units of data sheets: 16.1 GB, 2.10 MB."""
    for scale, unit in ((TB, "TB"), (GB, "GB"), (MB, "MB"), (KB, "kB")):
        if abs(size) >= scale:
            return f"{_figures(size / scale)} {unit}"
    return f"{size:.0f} B"


def percent(ratio: float) -> str:
    """Write a ratio 0..1 in percent: 87%, 0.3%."""
    value = 100 * ratio
    return f"{value:.0f}%" if abs(value) >= 10 or value == 0 else f"{value:.1f}%"


def count(value: float) -> str:
    """Write a count with thousands separators, and a fraction only where it is small."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else _figures(value)


def quantity(value: float, unit: str) -> str:
    """Write a value in one of the vocabulary's base units as a person would."""
    table = {"seconds": duration, "bytes": gib, "bytes/s": rate_bytes, "ratio": percent}
    if math.isnan(value) or math.isinf(value):
        return "undefined"
    if unit in table:
        return table[unit](value)
    return f"{count(value)} {unit}" if unit else count(value)
