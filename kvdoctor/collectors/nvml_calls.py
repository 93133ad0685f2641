"""NVML call by call: each reading is a function from a card to samples, in base units, that may fail alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kvdoctor.collectors.lines import Label
from kvdoctor.collectors.nvml_error import code, kinds, kinds_and_absence
from kvdoctor.collectors.nvml_fields import fields

Sample = tuple[str, float | None, tuple[Label, ...]]
Reading = tuple[str, Callable[[Any, Any], Iterable[Sample]]]

MHZ = 1e6
FUNCTION_NOT_FOUND = 13
_THROTTLE = (
    ("idle", 0x1),
    ("application_clocks", 0x2),
    ("power_cap", 0x4),
    ("hardware_slowdown", 0x8),
    ("sync_boost", 0x10),
    ("software_thermal", 0x20),
    ("hardware_thermal", 0x40),
    ("power_brake", 0x80),
)
"""Bits of the clocks' event reasons (nvml.h)."""


def _identity(nvml: Any, card: Any) -> Iterable[Sample]:
    labels = (("name", str(nvml.nvmlDeviceGetName(card))), ("uuid", str(nvml.nvmlDeviceGetUUID(card))))
    return (("host_gpu_info", 1.0, labels),)


def _occupancy(nvml: Any, card: Any) -> Iterable[Sample]:
    """Shares of time in which any kernel ran, or memory was touched: neither compute nor bandwidth in use."""
    rates = nvml.nvmlDeviceGetUtilizationRates(card)
    return (
        ("host_gpu_time_occupancy_ratio", rates.gpu / 100, ()),
        ("host_gpu_memory_time_occupancy_ratio", rates.memory / 100, ()),
    )


def _memory(nvml: Any, card: Any) -> Iterable[Sample]:
    found = nvml.nvmlDeviceGetMemoryInfo(card)
    return (
        ("host_gpu_memory_used_bytes", float(found.used), ()),
        ("host_gpu_memory_bytes", float(found.total), ()),
    )


def _clocks(nvml: Any, card: Any) -> Iterable[Sample]:
    for name, kind in (("sm", nvml.NVML_CLOCK_SM), ("memory", nvml.NVML_CLOCK_MEM)):
        which = (("clock", name),)
        yield "host_gpu_clock_hertz", nvml.nvmlDeviceGetClockInfo(card, kind) * MHZ, which


def _clock_limits(nvml: Any, card: Any) -> Iterable[Sample]:
    for name, kind in (("sm", nvml.NVML_CLOCK_SM), ("memory", nvml.NVML_CLOCK_MEM)):
        limit = nvml.nvmlDeviceGetMaxClockInfo(card, kind) * MHZ
        yield "host_gpu_clock_limit_hertz", limit, (("clock", name),)


def _bus(nvml: Any, card: Any) -> Iterable[Sample]:
    """Bits of the memory's bus: with the highest memory clock they give the peak of its bandwidth."""
    return (("host_gpu_bus_bits", float(nvml.nvmlDeviceGetMemoryBusWidth(card)), ()),)


def _power(nvml: Any, card: Any) -> Iterable[Sample]:
    return (
        ("host_gpu_power_watts", nvml.nvmlDeviceGetPowerUsage(card) / 1e3, ()),
        ("host_gpu_power_limit_watts", nvml.nvmlDeviceGetEnforcedPowerLimit(card) / 1e3, ()),
    )


def _energy(nvml: Any, card: Any) -> Iterable[Sample]:
    return (("host_gpu_energy_joules_total", nvml.nvmlDeviceGetTotalEnergyConsumption(card) / 1e3, ()),)


def _temperature(nvml: Any, card: Any) -> Iterable[Sample]:
    kind = nvml.NVML_TEMPERATURE_GPU
    return (("host_gpu_temperature_celsius", float(nvml.nvmlDeviceGetTemperature(card, kind)), ()),)


def _throttle(nvml: Any, card: Any) -> Iterable[Sample]:
    """Why clocks are low just now. The call was renamed: older bindings and older drivers have the old name only."""
    bits = int(
        _either(
            nvml, card, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
        )
    )
    return tuple(
        ("host_gpu_throttle", float(bool(bits & bit)), (("reason", name),)) for name, bit in _THROTTLE
    )


def _either(nvml: Any, card: Any, new: str, old: str) -> Any:
    """Make a call by its new name, and by its old one where binding or driver do not know the new one."""
    try:
        return getattr(nvml, new)(card)
    except kinds_and_absence(nvml) as error:
        if not isinstance(error, AttributeError) and code(error) != FUNCTION_NOT_FOUND:
            raise
    return getattr(nvml, old)(card)


def _link(nvml: Any, card: Any) -> Iterable[Sample]:
    """PCIe generation and width now: idle links rest."""
    return (
        ("host_gpu_link_generation", float(nvml.nvmlDeviceGetCurrPcieLinkGeneration(card)), ()),
        ("host_gpu_link_width", float(nvml.nvmlDeviceGetCurrPcieLinkWidth(card)), ()),
    )


def _link_limits(nvml: Any, card: Any) -> Iterable[Sample]:
    """What slot and card can do together."""
    return (
        ("host_gpu_link_generation_limit", float(nvml.nvmlDeviceGetMaxPcieLinkGeneration(card)), ()),
        ("host_gpu_link_width_limit", float(nvml.nvmlDeviceGetMaxPcieLinkWidth(card)), ()),
    )


def _own_link(nvml: Any, card: Any) -> Iterable[Sample]:
    """What the card alone can do: more than card and slot together means a slot or riser that limits it."""
    return (("host_gpu_link_generation_own", float(nvml.nvmlDeviceGetGpuMaxPcieLinkGeneration(card)), ()),)


def _state(nvml: Any, card: Any) -> Iterable[Sample]:
    return (("host_gpu_performance_state", float(nvml.nvmlDeviceGetPerformanceState(card)), ()),)


def windows(nvml: Any, card: Any) -> tuple[Sample, ...]:
    """Bytes per second over one window of 20 ms; transmit leaves the card. Each direction blocks for 20 ms.

    NVML's KB may be 1000 or 1024 bytes: the rate is right within 3%.
    """
    found = []
    for name, counter in (
        ("transmit", nvml.NVML_PCIE_UTIL_TX_BYTES),
        ("receive", nvml.NVML_PCIE_UTIL_RX_BYTES),
    ):
        rate = nvml.nvmlDeviceGetPcieThroughput(card, counter) * 1e3
        found.append(("host_gpu_link_bytes_per_second", float(rate), (("direction", name),)))
    return tuple(found)


def _replays(nvml: Any, card: Any) -> Iterable[Sample]:
    return (("host_gpu_link_replays_total", float(nvml.nvmlDeviceGetPcieReplayCounter(card)), ()),)


def _ecc(nvml: Any, card: Any) -> Iterable[Sample]:
    for name, kind in (
        ("corrected", nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        ("uncorrected", nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
    ):
        total = nvml.nvmlDeviceGetTotalEccErrors(card, kind, nvml.NVML_VOLATILE_ECC)
        yield "host_gpu_ecc_errors_total", float(total), (("kind", name),)


def _remap(nvml: Any, card: Any) -> Iterable[Sample]:
    kinds = ("corrected", "uncorrected", "pending", "failed")
    found = zip(kinds, nvml.nvmlDeviceGetRemappedRows(card), strict=False)
    return tuple(("host_gpu_remapped_rows", float(value), (("kind", kind),)) for kind, value in found)


LASTING: tuple[Reading, ...] = (
    ("name", _identity),
    ("highest clocks", _clock_limits),
    ("memory bus width", _bus),
    ("PCIe limit of slot and card", _link_limits),
    ("PCIe limit of the card alone", _own_link),
)
"""What does not change while a driver is loaded: asked once."""

PASSING: tuple[Reading, ...] = (
    ("time occupancy", _occupancy),
    ("memory", _memory),
    ("clocks", _clocks),
    ("power", _power),
    ("energy", _energy),
    ("temperature", _temperature),
    ("throttle reasons", _throttle),
    ("driver fields", fields),
    ("PCIe link", _link),
    ("performance state", _state),
    ("PCIe replays", _replays),
    ("ECC errors", _ecc),
    ("remapped rows", _remap),
)
"""What is asked at every reading; none of these blocks."""

READINGS = (*LASTING, *PASSING)
OF_AN_INSTANCE = frozenset(("name", "memory"))
"""What a MIG instance tells itself."""
NOT_UNDER_MIG = frozenset(("time occupancy", "remapped rows"))
"""What a card does not tell while it is cut into instances."""


def bus_id(nvml: Any, card: Any) -> str | None:
    """Return the PCI address, None where the card does not tell."""
    try:
        found = nvml.nvmlDeviceGetPciInfo(card).busId
    except kinds(nvml):
        return None
    return found.decode("ascii", "replace") if isinstance(found, bytes) else str(found)


def process_memory(nvml: Any, card: Any) -> dict[int, float | None]:
    """Bytes by pid; None where the driver does not say how many (WSL, some containers)."""
    found: dict[int, float | None] = {}
    old = "nvmlDeviceGetComputeRunningProcesses_v2"
    for entry in _either(nvml, card, "nvmlDeviceGetComputeRunningProcesses", old):
        size = entry.usedGpuMemory
        found[int(entry.pid)] = float(size) if size is not None else None
    return found


def process_occupancy(nvml: Any, card: Any, since: int) -> tuple[dict[int, float], int]:
    """Share of time in which a process's kernels ran, by pid, and the newest time stamp. Empty means idle, or
    that this card does not tell: the call reports "no samples" as an error."""
    try:
        samples = list(nvml.nvmlDeviceGetProcessUtilization(card, since))
    except kinds(nvml):
        return {}, since
    newest = max((int(sample.timeStamp) for sample in samples), default=since)
    return {int(sample.pid): float(sample.smUtil) / 100 for sample in samples if sample.smUtil <= 100}, newest
