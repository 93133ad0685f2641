"""What an adapter is made of: for each of our quantities, where an engine says it."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvdoctor.metrics import Quantity


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
    argv_contains: str = ""
    default_port: int = 0
    metrics_path: str = "/metrics"


def any_of(*names: str) -> tuple[Terms, ...]:
    """Take the first of these names that has a sample."""
    return tuple((Select(name),) for name in names)


def labelled(name: str, **labels: str) -> Select:
    """Select the series of a family by labels."""
    return Select(name, tuple(labels.items()))
