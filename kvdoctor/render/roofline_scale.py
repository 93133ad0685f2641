"""Axes of the roofline's figures: where a value lies, and which ticks a person expects."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Ticks of a linear axis are 1, 2 or 5 times a power of ten, as on squared paper.
_STEPS = (1.0, 2.0, 5.0, 10.0)
_LINEAR_TICKS = 5


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its range, and whether equal factors or equal differences are equally far apart."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """Where a value lies, 0 at the low end and 1 at the high end; values outside are clamped."""
        inside = min(max(value, self.low), self.high)
        if self.high <= self.low:
            return 0.5
        if self.log:
            return math.log(inside / self.low) / math.log(self.high / self.low)
        return (inside - self.low) / (self.high - self.low)

    def ticks(self) -> tuple[float, ...]:
        """Round values to label: powers of ten (or of two, or 1-2-5) on a log axis, multiples on a linear one."""
        return self._log_ticks() if self.log else self._linear_ticks()

    def _linear_ticks(self) -> tuple[float, ...]:
        span = self.high - self.low
        if span <= 0:
            return (self.low,)
        size = 10 ** math.floor(math.log10(span / _LINEAR_TICKS))
        step = next(size * s for s in _STEPS if span / (size * s) <= _LINEAR_TICKS + 1)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return tuple(i * step for i in range(first, last + 1))

    def _log_ticks(self) -> tuple[float, ...]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        factors = (1.0,) if last - first > 3 else (1.0, 2.0, 5.0)
        found = (f * 10.0**e for e in range(first, last + 1) for f in factors)
        return tuple(v for v in found if self.low * 0.999 <= v <= self.high * 1.001)


def around(values: list[float], *, log: bool, room: float = 0.0) -> Axis:
    """An axis that holds all values; linear ones start at 0; `room` is a share of the range added on top."""
    low, high = min(values), max(values)
    if not log:
        return Axis(0.0, high * (1 + room) or 1.0)
    if low == high:
        return Axis(low / 2, high * 2, log=True)
    return Axis(low, high * (high / low) ** room, log=True)


def short(value: float) -> str:
    """A tick's label in at most five characters: 0.5, 32, 4k, 1.2M, 989T."""
    for scale, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale * 0.9995:
            return f"{value / scale:.3g}{letter}"
    return f"{value:.3g}"
