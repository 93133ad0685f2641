"""Figures that are told against another one: `7x slower`, `-31%`, a read rate in the note of a token rate."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kvdoctor import logmetrics as lm
from kvdoctor.quantity import Quantity
from kvdoctor.readers.figures import figures
from kvdoctor.readers.rows import normal, quantity_of

_AGAINST = re.compile(
    r"\b(against|versus|vs|over|compared (to|with)|relative to|than|with|overhead|penalty|cost of)\b"
)
_TIMES = re.compile(
    r"(\d{1,5}(?:\.\d{1,4})?) ?(?:x|×|times) (slower|worse|longer|higher|lower|faster|better|shorter)\b"
)
_PERCENT = re.compile(
    r"(\d{1,5}(?:\.\d{1,4})?) ?(?:%|percent) (slower|worse|longer|lower|less|faster|better)\b"
)
_SIGNED = re.compile(r"^[~≈]?\s?(-|−|–|\+)\s?(\d{1,4}(?:\.\d{1,4})?) ?%")
_FROM_TO = re.compile(r"\bfrom\b.{1,60}\bto\b|->|→")
_WITH = re.compile(r"\b(when|after|with|once|instead of|under|using|while|enabl\w{0,6}|disabl\w{0,6})\b")
_WORSE = ("slower", "worse", "longer")
_TIME = re.compile(r"\b(ttft|itl|tpot|tbt|latency|time|duration|first token|per token)\b")
_RATE = re.compile(
    r"\b(throughput|rate|tok(en)?s? ?/ ?s|speed|decode|prefill|generation|tok/s|tps|tokens? (per|a) second|output)\b"
)
_PACE = frozenset((lm.DECODE_RATE, lm.GENERATION_RATE, lm.ITL))


def relative(kind: str, name: str, value: str, note: str) -> Iterable[tuple[Quantity, float]]:
    """Return how many times slower one thing is than another, and the read rate that a note tells of a token rate.

    `name` is in lower case with blanks between its words. A drop of a rate by 31% is one over 0.69.
    """
    if kind not in ("flag", "config", "env", "hardware", "model", "workload"):
        factor = _factor(name, value)
        if factor is not None and factor > 0:
            yield lm.TIMES_SLOWER, factor
    told = figures(value)
    if len(told) == 1 and quantity_of(name, told[0].kind, kind) in _PACE:
        yield from ((lm.REACHED, f.value) for f in figures(note) if f.kind == "bytes/s")


def _factor(name: str, value: str) -> float | None:
    """How many times slower; under 1 where it is faster, None where nothing of the kind is told."""
    words = normal(value[:200]) if not _SIGNED.match(value.strip()) else ""
    times, part = _TIMES.search(words), _PERCENT.search(words)
    rated = bool(_RATE.search(name)) and not _TIME.search(name)
    if times and (_AGAINST.search(f"{name} {words}") or times[2] in _WORSE):
        number, how = float(times[1]), times[2]
        worse = how in _WORSE or (how == "higher" and not rated) or (how == "lower" and rated)
        return number if worse else 1 / number if number else None
    if part:
        number, how = float(part[1]) / 100, part[2]
        if how in (*_WORSE, "lower", "less"):
            slower = 1 / (1 - number) if rated and number < 1 else 1 + number
            return slower if how in _WORSE or rated else 1 / slower
        return 1 / (1 + number)
    return _signed(name, value, rated=rated) or _turned(name, value, rated=rated)


def _turned(name: str, value: str, *, rated: bool) -> float | None:
    """`drops from 90 to 20 tok/s`, `0.8 s -> 3 s`, where the name says with what."""
    told = figures(value)
    if len(told) != 2 or not _FROM_TO.search(value[:200].lower()) or not _WITH.search(name):
        return None
    before, after = told[0].value, told[1].value
    if told[0].kind != told[1].kind or min(before, after) <= 0:
        return None
    time = told[0].kind == "seconds" or bool(_TIME.search(name))
    return (
        after / before if time else before / after if rated or told[0].kind in ("tokens/s", "req/s") else None
    )


def _signed(name: str, value: str, *, rated: bool) -> float | None:
    """`-31%` of a rate, `+40%` of a time, where the name holds one thing against another."""
    found = _SIGNED.match(value.strip())
    if not found or not _AGAINST.search(name) or not (rated or _TIME.search(name)):
        return None
    change = float(found[2]) / 100 * (1 if found[1] == "+" else -1)
    if change <= -1:
        return None
    return 1 / (1 + change) if rated else 1 + change
