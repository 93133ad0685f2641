"""NVML's numbered fields, read in one call: each has a return code, a type and a scope of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kvdoctor.collectors.lines import GAP, Label
from kvdoctor.collectors.nvml_error import NO_PERMISSION, cure, reason

NANO, KIB = 1e-9, 2.0**10
ALL_LINKS = 0xFFFFFFFF
"""The scope that sums over a card's NVLinks."""
NARROW = 2.0**32
"""A counter below this may be 32 bits wide: at 55 GB/s it wraps every 80 ms, so its rise means nothing."""
UNSIGNED_LONG_LONG = 3
_VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of nvmlValue_t, by value type (nvml.h)."""

Sample = tuple[str, float | None, tuple[Label, ...]]


@dataclass(frozen=True, slots=True)
class Field:
    """One field, and what it is here."""

    number: int
    name: str
    labels: tuple[Label, ...] = ()
    scale: float = 1.0
    scope: int = 0
    may_wrap: bool = False
    """Told only once it is seen to be wider than 32 bits."""


def _held(number: int, reason: str) -> Field:
    return Field(number, "host_gpu_throttled_seconds_total", (("reason", reason),), NANO)


def _fault(number: int, kind: str) -> Field:
    return Field(number, "host_gpu_link_faults_total", (("kind", kind),))


_OUT, _IN = (("direction", "transmit"),), (("direction", "receive"),)
FIELDS = (
    _held(74, "power_cap"),
    _held(75, "thermal"),
    _held(77, "board_limit"),
    _held(79, "reliability"),
    _held(269, "software_thermal"),
    _held(270, "hardware_thermal"),
    _held(271, "power_brake"),
    Field(82, "host_gpu_memory_temperature_celsius"),
    Field(138, "host_gpu_nvlink_bytes_total", _OUT, KIB, ALL_LINKS),
    Field(139, "host_gpu_nvlink_bytes_total", _IN, KIB, ALL_LINKS),
    Field(170, "host_gpu_c2c_links"),
    _fault(173, "correctable"),
    _fault(179, "non_fatal"),
    _fault(180, "fatal"),
    Field(197, "host_gpu_pcie_bytes_total", _OUT, may_wrap=True),
    Field(198, "host_gpu_pcie_bytes_total", _IN, may_wrap=True),
)
"""Numbers of nvml.h. Times are nanoseconds, NVLink data KiB, PCIe totals bytes; transmit leaves the card."""


def fields(nvml: Any, card: Any) -> Iterator[Sample]:
    """Read every field; one that this card or driver has not is left out, one kept from us is a gap."""
    asked = [(field.number, field.scope) if field.scope else field.number for field in FIELDS]
    for field, found in zip(FIELDS, nvml.nvmlDeviceGetFieldValues(card, asked), strict=False):
        if found.nvmlReturn == NO_PERMISSION:
            what = f"field {field.number} ({field.name.removeprefix('host_gpu_')}): {reason(NO_PERMISSION)}"
            yield GAP, 1.0, (("source", "NVML"), ("reason", what), ("cure", cure(NO_PERMISSION)))
        if found.nvmlReturn or not 0 <= found.valueType < len(_VALUES):
            continue
        value = float(getattr(found.value, _VALUES[found.valueType]))
        if not field.may_wrap or (found.valueType == UNSIGNED_LONG_LONG and value >= NARROW):
            yield field.name, value * field.scale, field.labels
