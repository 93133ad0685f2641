"""Numbers as people write them in a report: `11.7 -> 99.3`, `1.8 TB/s`, `94-98%`, `0, 1/2, 2/3`, `45+ s`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TIMES = {
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3, "msec": 1e-3, "us": 1e-6,
    "µs": 1e-6, "min": 60.0, "mins": 60.0, "minutes": 60.0, "h": 3600.0, "hours": 3600.0,
}  # fmt: skip
_BYTES = {
    "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30,
    "tib": 2.0**40,
}  # fmt: skip
_SHARES = {"%": 0.01, "percent": 0.01}
_RATES = {f"{unit}/s": scale for unit, scale in _BYTES.items()} | {
    "gbit/s": 1.25e8,
    "gbps": 1.25e8,
    "mbit/s": 1.25e5,
}
_COUNTS = dict.fromkeys(
    (
        "tok/s",
        "tokens/s",
        "token/s",
        "t/s",
        "tps",
        "tok",
        "token",
        "tokens",
        "req",
        "reqs",
        "requests",
        "request",
        "x",
    ),
    1.0,
)
_UNITS = {**_TIMES, **_BYTES, **_SHARES, **_RATES, **_COUNTS}
_NUMBER = re.compile(
    r"(?<![\w.])([<≤~+-]?)\s?(\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?)(?:/(\d+)(?![\w.]))?\s?([kKM](?![\w/]))?\+?\s?"
    r"([A-Za-zµ%]+(?:/[A-Za-z]+)?)?"
)
MAX_VALUE = 400
"""Characters of a value that are read."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number in base units."""

    value: float
    kind: str
    """`seconds`, `bytes`, `bytes/s`, `ratio`, `tokens/s`, another unit as written, or empty."""
    below: bool = False
    """True for `< 10`: the number is an upper bound."""


def figures(text: str) -> list[Figure]:
    """Return the numbers of a text, in order; a unit that only the last of them has is given to all."""
    plain = re.sub(r"\([^)]*\)", " ", text[:MAX_VALUE])
    plain = re.sub(r"(?<=[\d%sKk])\s?(?:-|–)\s?(?=\d)", " , ", plain)
    found = [_figure(match) for match in _NUMBER.finditer(plain)]
    last = next((unit for _, unit, _ in reversed(found) if unit), "")
    return [_scaled(value, unit or last, below) for value, unit, below in found]


def _figure(match: re.Match[str]) -> tuple[float, str, bool]:
    sign, number, under, thousands, unit = match.groups()
    value = float(number.replace(",", ""))
    if under and float(under):
        value /= float(under)
    value *= {"k": 1e3, "K": 1e3, "M": 1e6, None: 1.0}[thousands]
    known = (unit or "").lower()
    return (-value if sign == "-" else value), known if known in _UNITS else "", sign in ("<", "≤")


def _scaled(value: float, unit: str, below: bool) -> Figure:
    kinds = (("seconds", _TIMES), ("bytes", _BYTES), ("bytes/s", _RATES), ("ratio", _SHARES))
    kind = next((kind for kind, units in kinds if unit in units), unit)
    if kind in ("tok/s", "token/s", "t/s", "tps"):
        kind = "tokens/s"
    return Figure(value * _UNITS.get(unit, 1.0), kind, below)
