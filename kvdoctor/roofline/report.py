"""All that one call of the command has to show."""

from __future__ import annotations

from dataclasses import dataclass

from kvdoctor.roofline.answer import Answer
from kvdoctor.roofline.claim import Claim
from kvdoctor.roofline.sweep import Over, Point
from kvdoctor.roofline.whatif import WhatIf


@dataclass(frozen=True, slots=True)
class Sweep:
    """The same service over a range."""

    over: Over
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """An answer with what was asked beside it."""

    answer: Answer
    what_ifs: tuple[WhatIf, ...]
    sweep: Sweep | None = None
    claim: Claim | None = None
