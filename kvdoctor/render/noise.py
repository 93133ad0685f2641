"""Whether two means, or two quantiles, differ by more than chance would make them differ."""

from __future__ import annotations

import math

from kvdoctor.model import Diagnosis, Ledger
from kvdoctor.service import Quantile, Spread
from kvdoctor.units import counted, duration

FEW_REQUESTS = 20
"""Requests below which a mean says little: the number that the ledger asks of a cohort."""
ERRORS = 2.0
"""Standard errors of a difference that chance stays within 95 of 100 times."""
DIRECTIONS = ("lower", "higher")
TOO_FEW, NOISE, OVERLAP = "too few requests", "within noise", "buckets overlap"


def of_mean(before: Diagnosis, after: Diagnosis, metric: str) -> tuple[str, str]:
    """Say why two means can't be told apart, in two words and in a clause; both empty where they can, or are equal."""
    old, new = before.ledgers.get(metric), after.ledgers.get(metric)
    if old is None or new is None:
        return "", ""
    for when, diagnosis, ledger in (("before", before, old), ("after", after, new)):
        number = _sequences(diagnosis, ledger, metric)
        if number < FEW_REQUESTS:
            return TOO_FEW, f"{counted(math.floor(number), 'request')} {when}, {FEW_REQUESTS} are needed"
    chance = ERRORS * math.hypot(_error(before, old, metric), _error(after, new, metric))
    if new.seconds == old.seconds or abs(new.seconds - old.seconds) > chance:
        return "", ""
    return NOISE, f"chance alone moves it by up to {duration(chance)}"


def of_quantile(before: Diagnosis, after: Diagnosis, metric: str, which: str) -> str:
    """Say which way a quantile moved, as far as its buckets and the number of observations can tell."""
    old, new = (diagnosis.quantiles[metric][which] for diagnosis in (before, after))
    if (old.low, old.high) == (new.low, new.high):
        return "same bucket"
    moved = _moved(old, new)
    if not moved:
        return f"cannot tell: {OVERLAP}"
    wide = (_wide(d, metric, which, one) for d, one in ((before, old), (after, new)))
    return moved if _moved(*wide) else f"cannot tell: {NOISE}"


def _sequences(diagnosis: Diagnosis, ledger: Ledger, metric: str) -> float:
    """Requests that a mean is made of; for gaps those whose first token came, and those that were decoding."""
    if metric == "ttft":
        return ledger.count
    seconds = diagnosis.window.seconds
    decoding = ledger.seconds * ledger.count / seconds if seconds > 0 else 0.0
    return diagnosis.window.requests + decoding


def _error(diagnosis: Diagnosis, ledger: Ledger, metric: str) -> float:
    """Standard error of a mean; without a histogram that of observations which spread as far as their mean."""
    spread: Spread | None = diagnosis.spreads.get(metric)
    return spread.error if spread is not None else ledger.seconds / math.sqrt(max(1.0, ledger.count))


def _moved(before: Quantile, after: Quantile) -> str:
    if after.high <= before.low:
        return DIRECTIONS[0]
    return DIRECTIONS[1] if after.low >= before.high else ""


def _wide(diagnosis: Diagnosis, metric: str, which: str, bounds: Quantile) -> Quantile:
    spread = diagnosis.spreads.get(metric)
    return spread.quantiles.get(which, bounds) if spread is not None else bounds
