"""What NVML and the counters tell of one card in one window, as numbers that a cause can read."""

from __future__ import annotations

from dataclasses import dataclass

LANE = 15.75e9 / 16
"""Bytes per second of a PCIe lane of generation 3; each generation doubles it."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A process on a card that is none of the family."""

    pid: int
    memory: float | None
    occupancy: float
    """Share of time in which its kernels ran."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What a card's profiling counters say: means over the window, each None where it is not told.

    These are cycles and bytes that were really used, unlike time occupancy.
    """

    source: str
    """Who told: `GPM` or `DCGM`."""
    seconds: float
    """How much of the window the means cover."""
    dram: float | None = None
    """Share of the cycles in which HBM moved data: of its theoretical peak, so a perfect read shows about 0.9."""
    sm: float | None = None
    """Share of the SMs' cycles with any warp resident."""
    tensor: float | None = None
    engine: float | None = None
    """Share of time in which any kernel ran."""
    warps: float | None = None
    """Resident warps over the most there can be."""
    pcie: float | None = None
    """Bytes per second over PCIe in the busier direction."""
    c2c: float | None = None
    """The same over NVLink-C2C to a CPU."""
    nvlink: float | None = None
    switching: float | None = None
    """Share of time in switches between contexts: above an idle card's level somebody else computes too."""


@dataclass(frozen=True, slots=True)
class CardView:
    """One card, or one MIG instance of it, in the window, as NVML tells."""

    index: int
    name: str
    occupancy: float | None
    """Mean share of time in which any kernel ran. Low proves idle SMs; high proves nothing."""
    used: float | None
    total: float | None
    sm_clock: float | None
    """Mean SM clock over the highest, over the readings under load."""
    memory_clock: float | None
    reasons: tuple[tuple[str, float], ...]
    """Share of the readings under load in which a reason held the clocks down."""
    loaded: int
    """Readings in which kernels ran at least half of the time."""
    generation: tuple[float, float] | None
    """PCIe generation: best seen under load, and the card's own; None without load or data."""
    width: tuple[float, float] | None
    """PCIe lanes, likewise."""
    uncorrected: float
    """Uncorrected memory errors in the window."""
    pending_rows: float
    """Rows that wait for a reset, or could not be remapped."""
    xids: tuple[tuple[int, int], ...]
    """(Xid, how many) in the window."""
    foreign: tuple[Foreign, ...]
    node: str | None
    uuid: str = ""
    instance: str = ""
    """The number of a MIG instance; empty for a whole card."""
    missing: str = ""
    """Why the card stopped answering; empty while it answers."""
    settings: tuple[str, ...] = ()
    """`vgpu`, `passthrough`, `mig`, `wsl`, `confidential` or `c2c`, where it is so."""
    peak: float | None = None
    """Bytes per second of HBM, from its highest clock and the width of its bus."""
    activity: Activity | None = None
    link: float | None = None
    """Bytes per second over PCIe, the busier direction, of whatever told it."""
    link_source: str = ""
    replays: float = 0.0
    """PCIe packets sent again in the window."""
    watts: float | None = None
    """Mean power, from the energy drawn."""

    @property
    def title(self) -> str:
        """What a report calls it."""
        return f"GPU {self.index}" + (f" instance {self.instance}" if self.instance else "")

    @property
    def wire(self) -> float | None:
        """Bytes per second of the PCIe link each way at the best seen under load, after line coding."""
        if self.generation is None or self.width is None:
            return None
        return LANE * float(2.0 ** (self.generation[0] - 3)) * self.width[0]
