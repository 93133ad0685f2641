"""Before and after: how much a figure changed, and what was changed between the two."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvdoctor import logmetrics as lm
from kvdoctor.quantity import Quantity
from kvdoctor.readers.figures import figures
from kvdoctor.readers.rows import normal, quantity_of

_AFTER = re.compile(r"\b(after|with (the )?(fix|patch|change))\b")
_BEFORE = re.compile(r"\bbefore\b")
_ARROW = re.compile(r"->|→")
_SETTINGS = ("flag", "config", "env", "hardware", "os")
_TIMES = frozenset((lm.TTFT, lm.ITL, lm.WALL, lm.REQUEST_TIME))
_RATES = frozenset((lm.DECODE_RATE, lm.GENERATION_RATE, lm.PREFILL_RATE, lm.SERVED))


@dataclass(frozen=True, slots=True)
class Change:
    """One figure before and after."""

    factor: float
    """How much better it is after: over 1 for a shorter time or a higher rate."""
    what: str
    """What was changed, in the report's words."""


@dataclass(frozen=True, slots=True)
class _Side:
    quantity: Quantity
    before: float | None
    after: float | None
    words: frozenset[str]
    text: str


def changes(rows: Sequence[tuple[str, str, str]]) -> Iterable[Change]:
    """Yield the figures that rows (kind, name, value) tell of both sides of a change that the rows name."""
    sides = [
        side for kind, name, value in rows if kind not in _SETTINGS for side in _sides(name, value, kind)
    ]
    settings = " ".join(_settings(rows))
    for side in sides:
        if side.before and side.after and settings:
            yield Change(_factor(side.quantity, side.before, side.after), settings)
    old = [side for side in sides if side.before and not side.after]
    for new in (side for side in sides if side.after and not side.before):
        for was in (side for side in old if side.quantity is new.quantity):
            text = " ".join(word for word in new.text.split() if word not in was.words)
            yield Change(
                _factor(new.quantity, was.before or 0.0, new.after or 0.0), f"{text} {settings}".strip()
            )


def _factor(quantity: Quantity, before: float, after: float) -> float:
    return before / after if quantity in _TIMES else after / before


def _sides(name: str, value: str, kind: str) -> Iterable[_Side]:
    plain, told = normal(name), figures(value)
    found = [
        (q, f.value)
        for f in told
        if (q := quantity_of(plain, f.kind, kind)) in _TIMES | _RATES and f.value > 0
    ]
    if not found:
        return
    quantity, words = found[0][0], frozenset(plain.split())
    if quantity is None:
        return
    if _ARROW.search(value) and len(found) > 1:
        yield _Side(quantity, found[0][1], found[-1][1], words, plain)
    elif _AFTER.search(plain):
        yield _Side(quantity, None, found[-1][1], words, plain)
    elif _BEFORE.search(plain):
        yield _Side(quantity, found[0][1], None, words, plain)


def _settings(rows: Sequence[tuple[str, str, str]]) -> Iterable[str]:
    """Yield the names of settings that are told for both sides, and that differ."""
    told: dict[str, set[str]] = {}
    for kind, name, value in rows:
        if kind not in _SETTINGS:
            continue
        plain = normal(name)
        if _ARROW.search(value):
            yield plain
        elif _AFTER.search(plain) or _BEFORE.search(plain):
            stem = _BEFORE.sub("", _AFTER.sub("", plain)).strip()
            told.setdefault(stem, set()).add(value.strip())
    yield from (stem for stem, values in told.items() if len(values) > 1)
