"""One scene of the lab: a server, its load, the shape of its model, and what was drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kvdoctor.lab.settings import Settings
from kvdoctor.lab.wants import Group

FAST_LINK = 1e9
"""Bytes/s of the link to a remote pool that is not slow."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the model; all in fp32.

    By default deep and narrow: a step is many small products, far from the rate of memory, and a prompt costs much.
    """

    hidden: int = 96
    layers: int = 32
    heads: int = 3
    kv_heads: int = 1
    head_dim: int = 32
    ffn: int = 256

    @property
    def token_bytes(self) -> int:
        """KV bytes of a token."""
        return 2 * self.layers * self.kv_heads * self.head_dim * 4


@dataclass(frozen=True, slots=True)
class Scene:
    """A server, its load, and what is told to the diagnosis as an operator would."""

    settings: Settings = field(default_factory=Settings)
    group: Group = field(default_factory=Group)
    beside: tuple[Group, ...] = ()
    """More clients, of another kind."""
    shape: Shape = field(default_factory=Shape)
    warm_s: float = 5.0
    """Seconds of load before anybody looks."""
    link: float = FAST_LINK
    """Rate of the link to the remote pool, bytes/s."""
    cpus: float | None = None
    """CPU quota of the server's processes."""
    magnitudes: Mapping[str, float] = field(default_factory=dict)
    """What was drawn: names with their unit at the end."""

    def set(self, **settings: object) -> Scene:
        """The scene with other settings of the server."""
        return replace(self, settings=replace(self.settings, **settings))  # type: ignore[arg-type]

    def ask(self, **wants: object) -> Scene:
        """The scene with other wants of its clients."""
        return replace(self, group=replace(self.group, **wants))  # type: ignore[arg-type]

    def drew(self, **magnitudes: float) -> Scene:
        """The scene with more magnitudes."""
        rounded = {name: float(f"{value:.4g}") for name, value in magnitudes.items()}
        return replace(self, magnitudes={**self.magnitudes, **rounded})

    def warm(self, seconds: float) -> Scene:
        """The scene with a warm-up of at least so many seconds."""
        return replace(self, warm_s=max(self.warm_s, seconds))
