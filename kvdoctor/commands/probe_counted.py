"""An engine's own counters around a request, read through its adapter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvdoctor.engines import plain_name, recognise
from kvdoctor.engines.engine import Select
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
    for select in _selects(counted, quantity):
        for name in (f"{select.name}_total", select.name, f"{select.name}_count"):
            if name in plain:
                return plain[name] * select.scale
    return None


def _selects(counted: Mapping[str, float], quantity: Quantity) -> Iterator[Select]:
    """Yield the families that the engine of these names has for a quantity, but for those told apart by a label."""
    engine = recognise(counted)
    for terms in engine.signals.get(quantity, ()) if engine is not None else ():
        yield from (select for select in terms if not select.labels and not select.sample)


def _plain(counted: Mapping[str, float]) -> dict[str, float]:
    engine = recognise(counted)
    return {} if engine is None else {plain_name(engine, name): value for name, value in counted.items()}
