"""NVML as the first run on a card asks it: everything with its return code, and GPM between two samples."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pynvml

from kvdoctor.collectors.chosen import choose

CALLS = [
    "Name",
    "UUID",
    "PciInfo",
    "MemoryInfo",
    "UtilizationRates",
    "PowerUsage",
    "EnforcedPowerLimit",
    "TotalEnergyConsumption",
    "PerformanceState",
    "ComputeMode",
    "MigMode",
    "VirtualizationMode",
    "MemoryBusWidth",
    "CurrPcieLinkGeneration",
    "CurrPcieLinkWidth",
    "MaxPcieLinkGeneration",
    "MaxPcieLinkWidth",
    "GpuMaxPcieLinkGeneration",
    "PcieSpeed",
    "PcieReplayCounter",
    "RemappedRows",
    "CurrentClocksEventReasons",
    "ComputeRunningProcesses",
    "MaxMigDeviceCount",
    "NumGpuCores",
    "CudaComputeCapability",
]
FIELDS = (82, 91, 94, 164, 169, 173, 185, 186, 197, 198, 202, 204, 269, 270, 271)
GPM = (1, 2, 3, 5, 10, 20, 21, 60, 61)
GPM_WAIT_S = 0.25
VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of a field's union by its value type."""


def card() -> Any:
    """Initialise NVML and return the handle of the card that CUDA has first, joined by UUID."""
    pynvml.nvmlInit()
    return choose(pynvml, None, service=None, environment=os.environ).handle.card


def asked(call: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """Return {value} or {code} of one call."""
    try:
        return {"value": call(*arguments)}
    except pynvml.NVMLError as error:
        return {"code": error.value, "text": str(error)}


def everything(handle: Any) -> dict[str, Any]:
    """Ask every call and every field once."""
    found = {
        name: asked(getattr(pynvml, f"nvmlDeviceGet{name}"), handle)
        for name in CALLS
        if hasattr(pynvml, f"nvmlDeviceGet{name}")
    }
    for kind, number in (("sm", pynvml.NVML_CLOCK_SM), ("memory", pynvml.NVML_CLOCK_MEM)):
        found[f"clock {kind}"] = asked(pynvml.nvmlDeviceGetClockInfo, handle, number)
        found[f"max clock {kind}"] = asked(pynvml.nvmlDeviceGetMaxClockInfo, handle, number)
    return {**found, **{f"field {number}": field(handle, number) for number in FIELDS}}


def field(handle: Any, number: int) -> dict[str, Any]:
    """Return one field's value, type and code."""
    try:
        (got,) = pynvml.nvmlDeviceGetFieldValues(handle, [number])
    except pynvml.NVMLError as error:
        return {"code": error.value}
    if got.nvmlReturn:
        return {"code": int(got.nvmlReturn)}
    return {"value": getattr(got.value, VALUES[got.valueType]), "type": int(got.valueType)}


def gpm(handle: Any, meanwhile: Callable[[], None] | None = None) -> dict[str, Any]:
    """Return GPM's metrics between two samples; `meanwhile` is done between them, else it waits."""
    first, second = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
    try:
        pynvml.nvmlGpmSampleGet(handle, first)
        if meanwhile is None:
            time.sleep(GPM_WAIT_S)
        else:
            meanwhile()
        pynvml.nvmlGpmSampleGet(handle, second)
        request = pynvml.c_nvmlGpmMetricsGet_t()
        request.version, request.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, len(GPM)
        request.sample1, request.sample2 = first, second
        for position, number in enumerate(GPM):
            request.metrics[position].metricId = number
        pynvml.nvmlGpmMetricsGet(request)
        rows = [request.metrics[position] for position in range(len(GPM))]
        return {str(row.metricId): {"code": int(row.nvmlReturn), "value": float(row.value)} for row in rows}
    finally:
        pynvml.nvmlGpmSampleFree(first)
        pynvml.nvmlGpmSampleFree(second)
