"""The nouns of the answer: what a Diagnosis is made of. Plain data and closed enumerations."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from kvdoctor.service import (
    Chart,
    Headline,
    Objective,
    Quantile,
    RooflinePoint,
    Spread,
    Sums,
    TargetInfo,
    Window,
)


class Bound(str, Enum):
    """What sets the pace."""

    BANDWIDTH = "bandwidth"
    CAPACITY = "capacity"
    OFFLOAD = "offload"
    HIT_RATE = "hit_rate"
    NETWORK = "network"
    COMPUTE = "compute"
    HOST = "host"
    QUEUEING = "queueing"
    DEVICE = "device"
    EXTERNAL = "external"


class State(str, Enum):
    """What a service is in when no bound is named; `bound` when one is."""

    BOUND = "bound"
    HEALTHY = "healthy"
    IDLE = "idle"
    STALLED = "stalled"
    INSUFFICIENT = "insufficient_evidence"


FAMILY: dict[Bound, str] = {
    Bound.BANDWIDTH: "bandwidth",
    Bound.CAPACITY: "capacity",
    Bound.OFFLOAD: "capacity",
    Bound.HIT_RATE: "hit_rate",
    Bound.NETWORK: "network",
    Bound.COMPUTE: "other",
    Bound.HOST: "other",
    Bound.QUEUEING: "other",
    Bound.DEVICE: "other",
    Bound.EXTERNAL: "other",
}

SUBCLASSES: dict[Bound, tuple[str, ...]] = {
    Bound.BANDWIDTH: ("weights", "kv_reads"),
    Bound.CAPACITY: ("preemption", "admission", "prefix_eviction", "swap"),
    Bound.OFFLOAD: ("slow_tier", "small_pieces", "no_overlap", "decode_stall"),
    Bound.HIT_RATE: (
        "disabled",
        "prefix_mismatch",
        "fell",
        "promised_not_delivered",
        "short_prefix",
        "routing",
    ),
    Bound.NETWORK: ("slow_link", "used_badly", "handover", "tensor_parallel"),
    Bound.COMPUTE: ("prefill", "interference", "speculation"),
    Bound.HOST: ("scheduler", "tokenizer", "kv_lookup", "launch_bound", "cpu_throttled", "contended"),
    Bound.QUEUEING: ("admission_limit", "arrivals"),
    Bound.DEVICE: ("throttled", "ecc", "link_degraded", "slow_rank", "shared"),
    Bound.EXTERNAL: ("router", "client"),
}


class Verdict(str, Enum):
    """What is known about one cause."""

    LIKELY = "likely"
    POSSIBLE = "possible"
    RULED_OUT = "ruled_out"
    NO_DATA = "no_data"


class Basis(str, Enum):
    """Where a figure comes from."""

    MEASURED = "measured"
    MODELLED = "modelled"
    RESIDUAL = "residual"
    UPPER_BOUND = "upper_bound"


class Confidence(str, Enum):
    """How sure a Diagnosis is; its reasons are always listed beside it."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Metric(str, Enum):
    """The two latencies a ledger is kept for."""

    TTFT = "ttft"
    ITL = "itl"


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that could not be seen, why, and what would let us see it."""

    source: str
    reason: str
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number that speaks for or against a cause."""

    name: str
    value: float | None
    """None when it is undefined, for example a rate over nothing."""
    unit: str
    threshold: float | None = None
    """The value it is held against; None for context."""
    source: str = ""
    """The raw names it was worked out from."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One change: what to do, what it would buy, and how that was worked out."""

    do: str
    expect: str
    basis: Basis
    gain_seconds: float | None = None
    """Seconds of one request, for sorting; None when it cannot be said."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one cause has to say. A ruled-out cause carries its numbers too."""

    bound: Bound
    verdict: Verdict
    subclass: str | None = None
    argument: str = ""
    """One sentence: why this verdict."""
    metric: Metric | None = None
    """The latency it costs most of; None when it costs nothing or both alike."""
    share_seconds: float = 0.0
    """Seconds of one request that this cause explains."""
    recoverable_seconds: float | None = None
    """Seconds of one request that its counterfactual would give back; None when unknown."""
    evidence: tuple[Evidence, ...] = ()
    gaps: tuple[Gap, ...] = ()
    advice: tuple[Advice, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One line of a ledger. Parts without a parent sum to the whole."""

    name: str
    seconds: float
    basis: Basis
    parent: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where the mean of one latency goes."""

    metric: Metric
    seconds: float
    """The mean over the window, from sum and count."""
    count: float
    """Observations in the window: first tokens, or output gaps."""
    parts: tuple[Part, ...]

    def top(self) -> tuple[Part, ...]:
        """Return the parts that sum to the whole."""
        return tuple(p for p in self.parts if p.parent is None)

    def part(self, name: str) -> float:
        """Return the seconds of a part by name, 0.0 when the ledger has none of it."""
        return sum(p.seconds for p in self.parts if p.name == name)


@dataclass(frozen=True, slots=True)
class Cost:
    """What observing cost."""

    cpu_seconds: float = 0.0
    bytes: int = 0
    longest_read_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Every opinion, ranked, with its evidence. Renderers get nothing else."""

    kvdoctor: str
    targets: tuple[TargetInfo, ...]
    window: Window
    objective: Objective
    state: State
    primary: Bound | None
    subclass: str | None
    primary_by_metric: dict[str, str]
    """For `ttft` and `itl`: a bound, or a state where none is named."""
    subclass_by_metric: dict[str, str | None]
    paced_by: str | None
    """What sets the pace even where all is well, for example `bandwidth`."""
    contributing: tuple[tuple[Bound, str | None], ...]
    confidence: Confidence
    confidence_reasons: tuple[str, ...]
    summary: str
    sentences: dict[str, str]
    """One sentence per metric."""
    next_measurement: str
    quantiles: dict[str, dict[str, Quantile]]
    """`ttft` and `itl` -> `p50`, `p95`, `p99`."""
    ledgers: dict[str, Ledger]
    findings: tuple[Finding, ...]
    gaps: tuple[Gap, ...]
    cost: Cost
    header: tuple[Headline, ...] = ()
    charts: tuple[Chart, ...] = ()
    roofline: RooflinePoint | None = None
    sums: Sums | None = None
    notes: tuple[str, ...] = ()
    spreads: dict[str, Spread] = field(default_factory=dict)
    """`ttft` and `itl`, for comparisons; a latency without a histogram has none."""

    @property
    def family(self) -> str | None:
        """The owner's class that the primary belongs to; None where no bound is named."""
        return FAMILY[self.primary] if self.primary else None

    @property
    def primary_name(self) -> str:
        """The primary bound, or the state where there is none."""
        return self.primary.value if self.primary else self.state.value
