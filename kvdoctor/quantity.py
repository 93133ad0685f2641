"""What a quantity of the vocabulary is: name, kind, unit, meaning, and how ranks are brought together."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(str, Enum):
    """How a quantity behaves over time."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class Across(str, Enum):
    """How a quantity is brought together over the ranks of one engine."""

    SUM = "sum"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Quantity:
    """One thing that can be observed."""

    name: str
    kind: Kind
    unit: str
    meaning: str
    across: Across = Across.SUM

    def __str__(self) -> str:
        return self.name


def gauge(name: str, unit: str, meaning: str, across: Across = Across.SUM) -> Quantity:
    """A value that stands for the moment it was read at."""
    return Quantity(name, Kind.GAUGE, unit, meaning, across)


def counter(name: str, unit: str, meaning: str) -> Quantity:
    """A value that only rises while the process lives; ranks add up."""
    return Quantity(name, Kind.COUNTER, unit, meaning)


def histogram(name: str, unit: str, meaning: str) -> Quantity:
    """Observations by bucket since the process started; ranks add up."""
    return Quantity(name, Kind.HISTOGRAM, unit, meaning)
