"""GPM, the performance counters of Hopper and later: pairs of samples, believed only where they prove to work.

No profiling lock is taken, no other profiler is disturbed, and nothing needs root on bare metal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvdoctor.collectors.lines import Label
from kvdoctor.collectors.nvml_error import code, kinds
from kvdoctor.errors import Unavailable

PERCENT, MIB = 0.01, 2.0**20
SHORTEST = 0.1
"""Seconds between the samples of a pair: the driver refreshes them every 100 ms (nvml.h)."""
HIGHEST = 1.05
"""A share above this is no share: drivers leave garbage where a metric has no value."""
FASTEST = 2e12
"""Bytes per second of one card's links above which a rate is garbage: no link of today has a fifth of it."""
INVALID_ARGUMENT, NOT_SUPPORTED = 2, 3
VERSION = 1


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of GPM, and what it is here."""

    number: int
    name: str
    scale: float
    labels: tuple[Label, ...] = ()

    @property
    def most(self) -> float:
        """The highest value that can be true."""
        return HIGHEST if self.scale == PERCENT else FASTEST


_OUT, _IN = (("direction", "transmit"),), (("direction", "receive"),)
CORE = (
    Metric(1, "host_gpu_engine_active_ratio", PERCENT),
    Metric(2, "host_gpu_sm_active_ratio", PERCENT),
    Metric(3, "host_gpu_sm_occupancy_ratio", PERCENT),
    Metric(5, "host_gpu_tensor_active_ratio", PERCENT),
    Metric(10, "host_gpu_dram_active_ratio", PERCENT),
    Metric(20, "host_gpu_pcie_bytes_per_second", MIB, _OUT),
    Metric(21, "host_gpu_pcie_bytes_per_second", MIB, _IN),
)
"""Numbers of nvml.h. PCIe lists transmit first, NVLink receive; all directions are the card's."""
MORE = (
    Metric(60, "host_gpu_nvlink_bytes_per_second", MIB, _IN),
    Metric(61, "host_gpu_nvlink_bytes_per_second", MIB, _OUT),
    Metric(100, "host_gpu_c2c_bytes_per_second", MIB, _OUT),
    Metric(101, "host_gpu_c2c_bytes_per_second", MIB, _IN),
    Metric(174, "host_gpu_context_switching_ratio", PERCENT),
)
"""Not every driver knows these; one that does not may refuse the whole question."""
PROOF = (1, 2, 10)
"""Metrics of which at least one must come, or GPM does not work here whatever the driver claims."""

Sample = tuple[str, float | None, tuple[Label, ...]]


class Gpm:
    """One card, or one MIG instance. Each reading is the mean since the one before."""

    def __init__(
        self, nvml: Any, card: Any, *, clock: Callable[[], float], instance: int | None = None
    ) -> None:
        """`card` is the whole card; `instance` is a GPU instance of it. Nothing is touched yet."""
        self._nvml, self._card, self._clock, self._instance = nvml, card, clock, instance
        self._samples: list[Any] = []
        self._at = -math.inf
        self._metrics: tuple[Metric, ...] = (*CORE, *MORE)
        self._proven = False

    def read(self) -> tuple[Sample, ...]:
        """Return the means since the last reading; nothing at the first, and when it was a moment ago.

        NVMLError where the driver refuses; Unavailable where GPM is not there, or does not keep what it claims.
        """
        if not self._samples:
            self._begin()
            return ()
        now = self._clock()
        seconds = now - self._at
        if seconds <= SHORTEST:
            return ()
        older, newer = self._samples
        self._take(newer)
        self._at = now
        found = self._means(older, newer)
        self._samples = [newer, older]
        if not found:
            return ()
        return (*found, ("host_gpu_counter_seconds", seconds, ()))

    def _begin(self) -> None:
        """Ask whether the card has GPM, and take the first sample."""
        nvml = self._nvml
        if not nvml.nvmlGpmQueryDeviceSupport(self._card).isSupportedDevice:
            raise Unavailable("the card has no GPM, which came with Hopper")
        first, second = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()
        try:
            self._take(first)
        except kinds(nvml) as error:
            for sample in (first, second):
                nvml.nvmlGpmSampleFree(sample)
            if code(error) == NOT_SUPPORTED:
                raise Unavailable("the driver claims GPM, and then does not sample it") from None
            raise
        self._at = self._clock()
        self._samples = [first, second]

    def _take(self, sample: Any) -> None:
        if self._instance is None:
            self._nvml.nvmlGpmSampleGet(self._card, sample)
        else:
            self._nvml.nvmlGpmMigSampleGet(self._card, self._instance, sample)

    def _means(self, older: Any, newer: Any) -> tuple[Sample, ...]:
        """Work out what the pair says; a metric's own code decides before its value is looked at."""
        answers = self._ask(older, newer)
        found = tuple(
            (metric.name, value * metric.scale, metric.labels)
            for metric, (failed, value) in zip(self._metrics, answers, strict=True)
            if not failed and math.isfinite(value) and 0 <= value * metric.scale <= metric.most
        )
        proof = {metric.name for metric in CORE if metric.number in PROOF}
        self._proven = self._proven or any(name in proof for name, _, _ in found)
        if not self._proven:
            raise Unavailable("the driver claims GPM, and then gives no value")
        return found

    def _ask(self, older: Any, newer: Any) -> list[tuple[int, float]]:
        request = self._nvml.c_nvmlGpmMetricsGet_t()
        request.version, request.numMetrics = VERSION, len(self._metrics)
        request.sample1, request.sample2 = older, newer
        for place, metric in enumerate(self._metrics):
            request.metrics[place].metricId = metric.number
        try:
            self._nvml.nvmlGpmMetricsGet(request)
        except self._nvml.NVMLError as error:
            if code(error) != INVALID_ARGUMENT or len(self._metrics) == len(CORE):
                raise
            self._metrics = CORE
            return self._ask(older, newer)
        places = range(len(self._metrics))
        return [(int(request.metrics[i].nvmlReturn), float(request.metrics[i].value)) for i in places]
