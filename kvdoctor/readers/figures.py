"""Numbers as people write them in a report: `11.7 -> 99.3`, `1.8 TB/s`, `94-98%`, `0, 1/2, 2/3`, `45+ s`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_TIMES = {
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3, "msec": 1e-3, "msecs": 1e-3,
    "millis": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "usec": 1e-6,
    "microseconds": 1e-6, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0, "h": 3600.0, "hr": 3600.0,
    "hrs": 3600.0, "hour": 3600.0, "hours": 3600.0,
}  # fmt: skip
_BYTES = {
    "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30,
    "tib": 2.0**40,
}  # fmt: skip
_SHARES = {"%": 0.01, "percent": 0.01}
_RATES = {f"{unit}/s": scale for unit, scale in _BYTES.items()} | {
    "gbit/s": 1.25e8,
    "gbits/s": 1.25e8,
    "gbps": 1.25e8,
    "mbit/s": 1.25e5,
    "mbits/s": 1.25e5,
    "mbps": 1.25e5,
}
_BITS = {"Gb/s": "gbit/s", "Mb/s": "mbit/s"}
"""Units that only their case tells from bytes."""
_TOKEN_RATES = (
    *(f"{what}/{per}" for what in ("tok", "toks", "token", "tokens", "t") for per in ("s", "sec", "second")),
    "tps",
)
_REQUEST_RATES = (
    *(f"{what}/{per}" for what in ("req", "reqs", "request", "requests") for per in ("s", "sec", "second")),
    "qps",
    "rps",
)
_PER_TOKEN = {
    f"{unit}/{what}": scale for unit, scale in _BYTES.items() for what in ("tok", "token", "step")
}  # fmt: skip
_COUNTS = dict.fromkeys(
    (*_TOKEN_RATES, *_REQUEST_RATES, "tok", "token", "tokens", "req", "reqs", "requests", "request", "x"), 1.0
)
_UNITS = {**_TIMES, **_BYTES, **_SHARES, **_RATES, **_PER_TOKEN, **_COUNTS}
_BETWEEN = frozenset(("to", "and", "or", "then", "vs", "versus", "of", "up", "down"))
"""Words between two figures that share the unit of the last."""
_NUMBER = re.compile(
    r"(?<![\w.])([<≤>≥~+-]?)\s?(\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?)(?:/(\d+)(?![\w.]))?\s?([kKM](?![\w/]))?\+?\s?"
    r"([A-Za-zµμ%]+(?:/[A-Za-z]+)?)?"
)
MAX_VALUE = 400
"""Characters of a value that are read."""


_PER = re.compile(
    r"\b(tok(?:en)?s?|req(?:uest)?s?|[KMGT]i?[Bb]|[GM]bit)(?: ?/ ?| per | a )s(?:ec(?:ond)?)?\b"
)
_UNDER = re.compile(r"\b(?:less than|below|under|fewer than|at most|up to)\s+(?=\d)", re.IGNORECASE)
_OVER = re.compile(r"\b(?:more than|over|above|at least|greater than)\s+(?=\d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number in base units."""

    value: float
    kind: str
    """`seconds`, `bytes`, `bytes/s`, `ratio`, `tokens/s`, `req/s`, another unit as written, or empty."""
    below: bool = False
    """True for `< 10`: the number is an upper bound."""
    above: bool = False
    """True for `> 10`: the number is a lower bound."""


def figures(text: str) -> list[Figure]:
    """Return the numbers of a text, in order; a number without a unit has that of the next that has one.

    A number before a word that is no unit, `13 runs`, has none.
    """
    plain = _PER.sub(r"\1/s", re.sub(r"\([^)]*\)", " ", text[:MAX_VALUE]))
    plain = _OVER.sub(">", _UNDER.sub("<", plain))
    plain = re.sub(r"(?<=[\d%sKk])\s?(?:-|–)\s?(?=\d)", " , ", plain)
    found = [_figure(match) for match in _NUMBER.finditer(plain)]
    units = [unit for _, unit, _ in found]
    return [_scaled(value, _shared(units, i), sign) for i, (value, _, sign) in enumerate(found)]


def _shared(units: Sequence[str | None], place: int) -> str:
    """Return a number's unit: its own, else the next one that is told, else the last."""
    own = units[place]
    if own is not None:
        return own
    later = next((unit for unit in units[place:] if unit), None)
    return later or next((unit for unit in reversed(units) if unit), "")


def unit_kind(unit: str) -> str:
    """Return the kind of figure that a unit makes; empty for what is no unit."""
    known = unit.strip().lower()
    return _scaled(1.0, known, "").kind if known in _UNITS else ""


def _figure(match: re.Match[str]) -> tuple[float, str | None, str]:
    """Return a number, its unit (None where none follows it, empty for another word) and its sign."""
    sign, number, under, thousands, unit = match.groups()
    value = float(number.replace(",", ""))
    if under and float(under):
        value /= float(under)
    value *= {"k": 1e3, "K": 1e3, "M": 1e6, None: 1.0}[thousands]
    known = _BITS.get(unit or "", (unit or "").lower())
    kept = known if known in _UNITS else None if known in _BETWEEN or not known else ""
    return (-value if sign == "-" else value), kept, sign


def _scaled(value: float, unit: str, sign: str) -> Figure:
    kinds = (
        ("seconds", _TIMES), ("bytes", _BYTES), ("bytes/s", _RATES), ("bytes/token", _PER_TOKEN), ("ratio", _SHARES),
    )  # fmt: skip
    kind = next((kind for kind, units in kinds if unit in units), unit)
    kind = "tokens/s" if kind in _TOKEN_RATES else "req/s" if kind in _REQUEST_RATES else kind
    return Figure(value * _UNITS.get(unit, 1.0), kind, sign in ("<", "≤"), sign in (">", "≥"))
