"""First and later turns of one thing: the figures of a report by the number of the turn that their names tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kvdoctor import logmetrics as lm
from kvdoctor.causes.logged.experiment import CHANGED, words
from kvdoctor.logview import LogView, Said

_TURN = re.compile(
    r"\b(?:turn|round|run|request|attempt|iteration) ?(\d)\b"
    r"|(?:(?:the )?(?:same|identical) (?:request|prompt|call) )?"
    r"\b(first|second|third|cold|warm ?up|warm|query|again|re ?run|re ?sent|repeat(?:ed)?)\b"
    r"(?: (?:identical )?(?:turn|round|run|request|prompt|call|time))?"
)
_SAME = re.compile(r"\b(same|identical|exact)\b")
_FIRST = ("first", "cold", "warmup", "warm up", "0")


def _number(told: str) -> int:
    if told.isdigit() and told != "0":
        return int(told)
    return 1 if told in _FIRST else 3 if told == "third" else 2


def turns(rows: Iterable[Said]) -> Mapping[str, dict[int, float]]:
    """Figures by what they are of and by the number of the turn."""
    found: dict[str, dict[int, float]] = {}
    for said in rows:
        turn = _TURN.search(words(said))
        if turn:
            stem = _SAME.sub("", _TURN.sub("", words(said))).strip()
            found.setdefault(stem, {}).setdefault(_number(turn[1] or turn[2]), said.value)
    return found


def later(said: Said) -> bool:
    """Say whether a figure's name puts it after the first turn."""
    turn = _TURN.search(words(said))
    return turn is not None and _number(turn[1] or turn[2]) > 1


def quicker_again(view: LogView) -> bool:
    """Say whether a later turn brings its first token much sooner: then something is reused, whatever counters say."""
    pairs = [(found.get(1), found.get(2) or found.get(3)) for found in turns(view.of(lm.TTFT)).values()]
    return any(first and again and again * CHANGED <= first for first, again in pairs)
