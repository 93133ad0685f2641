"""What the API server and the engine core tell each other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ask:
    """A new request."""

    name: str
    prompt: tuple[int, ...]
    max_tokens: int
    salt: str = ""


@dataclass(frozen=True, slots=True)
class Drop:
    """The client of a request has gone."""

    name: str


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine core has started."""

    labels: tuple[tuple[str, str], ...]
    """Of `cache_config_info`."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request was scheduled for the first time: what was looked up and found for it, in tokens."""

    prompt: int
    local_hits: int
    outside_queries: int
    promised: int


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the prompt of a request came from when its first token was there, in tokens."""

    computed: int
    local: int
    outside: tuple[tuple[str, int], ...]
    """host, disk or p2p, and how many."""


@dataclass(frozen=True, slots=True)
class Update:
    """A new token, or the end of a request. Times are monotonic, of the engine core."""

    name: str
    token: int | None
    at: float
    queued: float
    scheduled: float
    first: float
    sources: Sources | None = None
    """With the first token."""
    reason: str = ""
    """Why it ended; empty while it goes on."""
    preemptions: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    """One finished load from a tier, or a number of stores to one."""

    kind: str
    """host, file or remote."""
    is_load: bool
    size: int
    seconds: float
    pieces: int


@dataclass(frozen=True, slots=True)
class Standing:
    """The gauges."""

    running: int = 0
    waiting: int = 0
    deferred: int = 0
    """Wait for KV that is on its way."""
    arrived: int = 0
    """Their KV has come, and they wait for a place."""
    usage: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a step, or the moment before a load, changed."""

    standing: Standing
    tokens: int = 0
    """Tokens computed in the step."""
    preemptions: int = 0
    admitted: tuple[Admitted, ...] = ()
    updates: tuple[Update, ...] = ()
    moves: tuple[Move, ...] = ()
    lookups: tuple[float, ...] = ()
    """Seconds of each look-up in the tiers."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that can never run."""

    name: str
    reason: str
