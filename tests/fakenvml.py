"""A pynvml module that a test scripts: every call is a function of the card, and may raise as the real one does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """Equal to itself only, without a hash, as the real one."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __eq__(self, other: object) -> bool:
        return self.value == other.value  # type: ignore[attr-defined]


class FakeNvml:
    """Two healthy H200-like cards; `answers[name]` replaces a call, `codes[name]` makes it fail."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
    NVML_TEMPERATURE_GPU = 0
    NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES = 0, 1
    NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 0, 1, 0
    nvmlEventTypeXidCriticalError = 8

    def __init__(self, cards: int = 2) -> None:
        self.codes: dict[Any, int] = {}
        self.calls: list[str] = []
        self.events: list[Any] = []
        self.answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlDeviceGetCount": cards,
            "nvmlDeviceGetName": "NVIDIA H200",
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=97, memory=60),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=100 * 2**30, total=141 * 2**30),
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetPowerUsage": 500_000,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetTemperature": 60,
            "nvmlDeviceGetCurrentClocksEventReasons": 0,
            "nvmlDeviceGetFieldValues": [
                SimpleNamespace(nvmlReturn=0, valueType=3, value=SimpleNamespace(ullVal=2_000_000_000)),
                SimpleNamespace(nvmlReturn=3, valueType=0, value=None),
            ],
            "nvmlDeviceGetCurrPcieLinkGeneration": 5,
            "nvmlDeviceGetMaxPcieLinkGeneration": 5,
            "nvmlDeviceGetCurrPcieLinkWidth": 16,
            "nvmlDeviceGetMaxPcieLinkWidth": 16,
            "nvmlDeviceGetGpuMaxPcieLinkGeneration": 5,
            "nvmlDeviceGetPerformanceState": 0,
            "nvmlDeviceGetPcieThroughput": 1_000_000,
            "nvmlDeviceGetPcieReplayCounter": 0,
            "nvmlDeviceGetTotalEccErrors": 0,
            "nvmlDeviceGetRemappedRows": (0, 0, 0, 0),
            "nvmlDeviceGetComputeRunningProcesses": [
                SimpleNamespace(pid=31004, usedGpuMemory=90 * 2**30),
                SimpleNamespace(pid=77, usedGpuMemory=None),
            ],
            "nvmlDeviceGetProcessUtilization": [SimpleNamespace(pid=77, smUtil=30, timeStamp=5)],
            "nvmlDeviceGetPciInfo": SimpleNamespace(busId="00000000:17:00.0"),
            "nvmlDeviceGetMemoryBusWidth": 6144,
            "nvmlDeviceGetTotalEnergyConsumption": 9_000_000,
            "nvmlDeviceGetVirtualizationMode": 0,
            "nvmlDeviceGetMigMode": (0, 0),
            "nvmlSystemGetConfComputeState": SimpleNamespace(ccFeature=0),
            "nvmlGpmQueryDeviceSupport": SimpleNamespace(isSupportedDevice=1),
            "nvmlGpmSampleAlloc": "sample",
            "nvmlGpmSampleGet": None,
            "nvmlGpmMetricsGet": None,
            "nvmlEventSetCreate": "set",
            "nvmlDeviceRegisterEvents": None,
        }

    def c_nvmlGpmMetricsGet_t(self) -> Any:
        """Every metric at 50, in its own unit."""
        return SimpleNamespace(metrics=[SimpleNamespace(nvmlReturn=0, value=50.0) for _ in range(20)])

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return self._answer("nvmlDeviceGetHandleByIndex", index, index)

    def nvmlDeviceGetUUID(self, card: int) -> str:
        return f"GPU-{card}"

    def nvmlDeviceGetIndex(self, card: int) -> int:
        return card

    def nvmlEventSetWait(self, events: object, milliseconds: int) -> Any:
        assert milliseconds == 0, "a wait would hold up every other reading"
        if not self.events:
            raise NVMLError(10)
        return self.events.pop(0)

    def __getattr__(self, name: str) -> Any:
        if name not in self.answers:
            raise AttributeError(name)
        return lambda *given: self._answer(name, given[0] if given else None, self.answers[name])

    def _answer(self, name: str, card: Any, answer: Any) -> Any:
        self.calls.append(name)
        code = self.codes.get((name, card)) if isinstance(card, int) else None
        code = self.codes.get(name) if code is None else code
        if code is not None:
            raise NVMLError(code)
        return answer
