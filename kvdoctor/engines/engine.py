"""What an adapter is made of: for each of our quantities, where an engine says it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from kvdoctor.quantity import Quantity


@dataclass(frozen=True, slots=True)
class Select:
    """The series of one family, or those of its series that carry certain labels.

    `name` is written without `_total`; both spellings are matched.
    """

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    sample: str = ""
    """`sum` or `count` to read a histogram's sample as a counter; empty for the value itself."""
    scale: float = 1.0
    """Raw value times this gives the quantity's unit."""
    times: str = ""
    """A gauge to multiply with, for example the tokens of a block; without it the family is not taken."""
    over: str = ""
    """A gauge to divide by; without it, or where it is 0, nothing is told."""
    beside: str = ""
    """Taken only where this other family has a sample too."""
    lazy: bool = False
    """These labels appear with their first event: the family without them stands for 0."""
    every: bool = False
    """Ranks hold a share each instead of repeating one value: all are read."""


Terms = tuple[Select, ...]
"""Families that are added up."""


@dataclass(frozen=True, slots=True)
class Era:
    """A name that only some releases have, which narrows down the version."""

    name: str
    since: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine or KV layer as data."""

    name: str
    prefixes: tuple[str, ...]
    signals: dict[Quantity, tuple[Terms, ...]]
    """Alternatives in order of preference; the first one with a sample is taken."""
    renames: tuple[tuple[str, str], ...] = ()
    """Prefixes under which the same families are exported elsewhere, and what they stand for."""
    eras: tuple[Era, ...] = field(default=())
    rank_label: str = ""
    default_port: int = 0
    metrics_path: str = "/metrics"
    layer: bool = False
    """A KV layer or an exporter beside an engine: evidence for the engine's causes, never judged by itself."""
    marks: tuple[str, ...] = ()
    """Prefixes by which it is recognised, where its own are too common; else `prefixes` and `renames`."""
    mark_label: str = ""
    """A label that one of the recognising series must carry, where even the names are common."""
    repeats: tuple[str, ...] = ()
    """Labels of ranks that all tell the same: of series that differ only there, the lowest is read."""
    parts: tuple[str, ...] = ()
    """Labels whose absence or empty value stands for the whole: then the parts are not read."""
    role: str = ""
    """The role that whoever exports these families has, for example `frontend`."""
    role_label: str = ""
    """The label that tells `prefill` or `decode`."""
    model_label: str = "model_name"
    folds_case: bool = False
    """Some of its series name a model in lower case and others as it is; otherwise names that differ so are two."""
    blank_above: float = math.inf
    """Values above this stand for none."""
    omits_zero: bool = False
    """A counter that is not there stands at 0."""
    gauge_period: float = 0.0
    """Seconds between two refreshes of its gauges; 0 where they are worked out anew, or by events."""
    at_finish: bool = False
    """Tokens and latencies are counted when a request ends, so a window without any proves no stall."""
    usage_means: str = ""
    """What its KV usage counts, where that is not the blocks pinned by requests."""


def model_key(engine: Engine, name: str) -> str:
    """Return what two series of an engine that mean the same model have in common: its name, in one spelling."""
    return name.lower() if engine.folds_case else name


def any_of(*names: str) -> tuple[Terms, ...]:
    """Take the first of these names that has a sample."""
    return tuple((Select(name),) for name in names)


def labelled(name: str, **labels: str) -> Select:
    """Select the series of a family by labels."""
    return Select(name, tuple(labels.items()))


def sampled(name: str, sample: str, scale: float = 1.0, **labels: str) -> Select:
    """Select the `sum` or the `count` of a histogram as a counter."""
    return Select(name, tuple(labels.items()), sample, scale)
