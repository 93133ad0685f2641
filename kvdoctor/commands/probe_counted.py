"""An engine's own counters around a request, read through its adapter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvdoctor.engines import plain_name, recognise
from kvdoctor.engines.engine import Select, Terms
from kvdoctor.metrics import CACHE_CONFIG
from kvdoctor.quantity import Quantity


def mean_of(counted: Mapping[str, float], quantity: Quantity) -> float | None:
    """Return a histogram's mean over what it gained, in the quantity's unit; None where it gained nothing."""
    plain = _plain(counted)
    for select in _selects(counted, quantity):
        total, number = plain.get(f"{select.name}_sum"), plain.get(f"{select.name}_count")
        if number:
            return (total or 0.0) * select.scale / number
    return None


def rise_of(counted: Mapping[str, float], quantity: Quantity) -> float | None:
    """Return how much a counter, or the number of a histogram's observations, rose; None where it is not told."""
    plain = _plain(counted)
    for terms in _alternatives(counted, quantity):
        if not all(map(_is_plain, terms)):
            continue
        found = [rise for select in terms if (rise := _rise(plain, select)) is not None]
        if found:
            return sum(found)
    return None


def setting_of(settings: Mapping[str, Mapping[str, str]], counted: Mapping[str, float], key: str) -> str:
    """Return a label of the family in which the engine of these counters tells its settings; empty without one."""
    engine = recognise(counted)
    for terms in _alternatives(counted, CACHE_CONFIG):
        for select in terms:
            for name, labels in settings.items():
                if engine is not None and plain_name(engine, name) == select.name and key in labels:
                    return labels[key]
    return ""


def _rise(plain: Mapping[str, float], select: Select) -> float | None:
    names = (f"{select.name}_total", select.name, f"{select.name}_count")
    return next((plain[name] * select.scale for name in names if name in plain), None)


def _alternatives(counted: Mapping[str, float], quantity: Quantity) -> tuple[Terms, ...]:
    """Return the alternatives that the engine of these names has for a quantity."""
    engine = recognise(counted)
    return engine.signals.get(quantity, ()) if engine is not None else ()


def _is_plain(select: Select) -> bool:
    """Say whether a family's sum over its labels is the quantity: no label picks, no gauge to multiply with."""
    return not (select.labels or select.sample or select.times or select.over)


def _selects(counted: Mapping[str, float], quantity: Quantity) -> Iterator[Select]:
    """Yield the families that the engine of these names has for a quantity, but for those that are a part of it."""
    for terms in _alternatives(counted, quantity):
        yield from filter(_is_plain, terms)


def _plain(counted: Mapping[str, float]) -> dict[str, float]:
    engine = recognise(counted)
    return {} if engine is None else {plain_name(engine, name): value for name, value in counted.items()}
