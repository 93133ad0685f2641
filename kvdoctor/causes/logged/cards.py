"""The same on more cards: what they tell one another costs more than they compute."""

from __future__ import annotations

import itertools
import re

from kvdoctor import logmetrics as lm
from kvdoctor.causes.logged.experiment import WORSE, words
from kvdoctor.causes.logged.opinion import Grade, Opinion, likely
from kvdoctor.logview import LogView, Said
from kvdoctor.model import Bound
from kvdoctor.quantity import Quantity
from kvdoctor.units import count

_CARD = r"(?:nvidia |amd )?(?:gpus?|cards?|nodes?|[abhlv]\d{2,3}s?|rtx ?\d{4}|mi\d{3}x?)"
_CARDS = re.compile(
    r"\b(?:tp|tensor parallel(?: size)?|pp|gpus?|cards?|nodes?) ?=? ?(\d{1,3})\b"
    rf"|\b(\d{{1,3}}|single|one|two|four|eight) ?x? ?{_CARD}\b"
)
_COUNTS = {"single": 1.0, "one": 1.0, "two": 2.0, "four": 4.0, "eight": 8.0}
_TIMES: tuple[Quantity, ...] = (lm.ITL, lm.REQUEST_TIME)
_RATES: tuple[Quantity, ...] = (lm.DECODE_RATE, lm.GENERATION_RATE, lm.PREFILL_RATE, lm.SERVED)


def _rows(view: LogView, quantity: Quantity) -> list[tuple[float, str, Said]]:
    """(cards, the name without them, figure) of the figures whose names tell cards, fewest first."""
    found = []
    for said in view.of(quantity):
        told = _CARDS.search(words(said))
        if told and said.value > 0:
            number = told[1] or told[2]
            rest = " ".join(_CARDS.sub(" ", words(said)).split())
            found.append((_COUNTS.get(number) or float(number), rest, said))
    return sorted(found, key=lambda row: row[0])


def check(view: LogView) -> tuple[Opinion, ...]:
    """Compare figures that differ in the number of cards alone."""
    for quantity in (*_RATES, *_TIMES):
        for (few, name, a), (many, other, b) in itertools.combinations(_rows(view, quantity), 2):
            slower = b.value / a.value if quantity in _TIMES else a.value / b.value
            if name == other and few < many and slower >= WORSE:
                why = f"On {count(many)} cards it runs {slower:.2g} times as slow as on {count(few)}."
                evidence = (view.evidence(f"{quantity.meaning}: more cards against fewer", slower, "x",
                                          threshold=WORSE, of=(quantity,)),)  # fmt: skip
                do = "fewer cards in one tensor-parallel group, or cards with a direct link"
                return (likely(Bound.NETWORK, "tensor_parallel", why, Grade.INFERRED, evidence, do=do),)
    return ()
