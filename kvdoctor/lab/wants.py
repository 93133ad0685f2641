"""What a load asks for: groups of clients, their prompts and outputs, in words and tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

Span = tuple[float, float]
"""Least and most."""


@dataclass(frozen=True, slots=True)
class Group:
    """Clients that each ask, wait for the whole answer, pause, and ask again."""

    clients: int = 3
    pause_s: Span = (0.1, 0.3)
    pause_share: float = 0.0
    """A pause on top: this times what the last answer took, so that slow and fast machines are as busy."""
    prefixes: int = 1
    """Different shared prefixes; 0 for prompts that share nothing."""
    prefix: int = 240
    """Words of a prefix."""
    in_turn: bool = False
    """Prefixes are taken one after the other, not at random."""
    tail: Span = (20, 36)
    """Words behind the prefix, never asked before."""
    outputs: Span = (24, 40)
    salted_after_s: float | None = None
    """Seconds from the start, from which each prompt begins with a word of its own."""


@dataclass(frozen=True, slots=True)
class Wants:
    """A whole load."""

    url: str
    model: str
    seed: int
    groups: tuple[Group, ...] = (Group(),)


def to_line(wants: Wants) -> str:
    """One line of JSON."""
    return json.dumps(asdict(wants)) + "\n"


def from_line(line: str) -> Wants:
    """Read such a line back."""
    found: Mapping[str, Any] = json.loads(line)
    groups = tuple(_group(group) for group in found["groups"])
    return Wants(found["url"], found["model"], found["seed"], groups)


def _group(found: Mapping[str, Any]) -> Group:
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in found.items()}
    return Group(**fields)
