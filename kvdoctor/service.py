"""The nouns of a service as it was seen: which engine, which window, its latencies and figures. No opinion."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Quantile:
    """The bucket that a quantile lies in, in seconds; `high` is inf in the last bucket."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Spread:
    """How far a latency's mean and quantiles of this window may lie from those of a longer one of the same load."""

    error: float
    """Standard error of the mean, in seconds."""
    independent: float
    """Observations that say something of their own: gaps between tokens of one step are one."""
    quantiles: dict[str, Quantile] = field(default_factory=dict)
    """The buckets from lowest to highest that each quantile may lie in, two standard errors of its rank apart."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on one card, None where unknown."""

    weights: float | None = None
    pool: float | None = None
    used: float | None = None
    free: float | None = None


@dataclass(frozen=True, slots=True)
class TargetInfo:
    """One engine, as far as it was recognised."""

    engine: str
    version: str | None = None
    model: str | None = None
    role: str | None = None
    """`prefill`, `decode` or None for an engine that does both."""
    pid: int | None = None
    url: str | None = None
    ranks: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    memory: Memory = field(default_factory=Memory)
    uptime_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """The stretch of time that the answer is about."""

    start: float
    """Wall-clock seconds since 1970."""
    seconds: float
    requests: float
    """First tokens in the window."""
    finished: float
    restarts: int = 0
    scrapes: int = 0
    lifetime: bool = False
    """True when there is only one reading: sums since the engine started, not a window."""
    generated_tokens: float = 0.0
    prompt_tokens: float = 0.0


@dataclass(frozen=True, slots=True)
class Objective:
    """What the operator asks of the service, in seconds."""

    ttft_p95: float
    itl_p95: float
    stated: bool
    """False for the defaults."""


@dataclass(frozen=True, slots=True)
class Headline:
    """One line of the header: a latency or a rate, now against since the start."""

    name: str
    unit: str
    now: float | None
    lifetime: float | None


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure's data: one or more lines over time."""

    title: str
    unit: str
    lines: tuple[tuple[str, tuple[tuple[float, float], ...]], ...]
    """(label, ((seconds since start, value), ...)) each."""


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """Where this service stands under the roof, when the ceiling is known."""

    bandwidth: float
    """Ceiling in bytes/s."""
    bandwidth_basis: str
    achieved_low: float
    """Bytes/s that the steps must have read at least."""
    achieved_high: float
    step_seconds: float
    floor_seconds: float
    batch: float
    context: float


@dataclass(frozen=True, slots=True)
class Sums:
    """The three sums that get confused: what a hit saves, what decode reads, what a far hit costs."""

    prefill_saved_seconds: float | None
    """Prefill seconds per request that hits saved."""
    decode_read_bytes: float | None
    """KV bytes that one decode step reads, hits or not."""
    load_seconds: float | None
    """Seconds per request spent loading hits from elsewhere."""
    note: str = ""
