"""What the user told, as far as it makes sense: a recording may come from anywhere."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

from kvdoctor.model import Gap, Metric


def _positive(text: str) -> bool:
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False


def _cards(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < len(text) < 6 and int(text) > 0


def _document(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


_MAKES_SENSE: dict[str, Callable[[str], bool]] = {
    "bandwidth": _positive,
    "bandwidth_measured": _document,
    "link": _positive,
    "slo_ttft": _positive,
    "slo_itl": _positive,
    "tp": _cards,
    "pp": _cards,
    "slow": lambda text: text in {metric.value for metric in Metric},
    "model_config": _document,
    "model_side": _document,
}


def sensible(facts: dict[str, str]) -> tuple[dict[str, str], tuple[Gap, ...]]:
    """Return the facts that can be used, and a gap for each that cannot."""
    kept, gaps = {}, []
    for name, text in facts.items():
        makes_sense = _MAKES_SENSE.get(name)
        if makes_sense is None or makes_sense(text):
            kept[name] = text
        else:
            why = "what the recording holds of it makes no sense and was left out"
            gaps.append(Gap(name, why, "tell it again"))
    return kept, tuple(gaps)
