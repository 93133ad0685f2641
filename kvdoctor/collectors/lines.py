"""Pages that a host collector writes itself: the Prometheus text format, so that a recording keeps them as read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from kvdoctor.secrets import clean

GAP = "host_gap"
"""A series of this name is something that could not be read: labels `source`, `reason`, `cure`."""
MAX_LABEL = 4096
"""Characters that are kept of one label's value: a folded stack of 64 frames fits."""

Label = tuple[str, str]


@dataclass(frozen=True, slots=True)
class HostPage:
    """One page of a host collector."""

    text: bytes
    cut: bool = False


@lru_cache(maxsize=16384)
def series(name: str, labels: tuple[Label, ...]) -> str:
    """Write what stands before a value: `name{key="value",...} `."""
    inner = ",".join(f'{key}="{escaped(value)}"' for key, value in labels)
    return f"{name}{{{inner}}} " if inner else f"{name} "


def escaped(text: str) -> str:
    """Return text from outside as a label's value: one line, no control characters, quotes escaped."""
    plain = clean(text).replace("\n", " ").replace("\t", " ")[:MAX_LABEL]
    return plain.replace("\\", "\\\\").replace('"', '\\"')


@dataclass(slots=True)
class Lines:
    """A page under way. Names that end in `_total` are counters, all others gauges."""

    lines: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def add(self, name: str, value: float | None, *labels: Label) -> None:
        """Add a sample; None adds nothing: what was not read has no value."""
        if value is None:
            return
        if name not in self.seen:
            self.seen.add(name)
            self.lines.append(f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}")
        self.lines.append(f"{series(name, labels)}{value:.12g}")

    def gap(self, source: str, reason: str, cure: str = "") -> None:
        """Say that something could not be read, and what would let us read it."""
        self.add(GAP, 1.0, ("source", source), ("reason", reason), ("cure", cure))

    def page(self) -> HostPage:
        """Return the page."""
        return HostPage(("\n".join(self.lines) + "\n").encode("utf-8", "replace"))
