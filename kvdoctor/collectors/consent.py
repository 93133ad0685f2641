"""Whether a probe may use a GPU: what NVML says that forbids it. No CUDA context is made to ask."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from kvdoctor.errors import Unavailable

CONTEXT = 2**30
"""Bytes that a CUDA context takes before the first tensor: reports say 0.3 to 0.8 GiB."""
MARGIN = 512 * 2**20
HOT = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Clock event reasons under which a rate says nothing about the card."""
EXCLUSIVE = (2, 3)
"""Compute modes: prohibited, exclusive process. A context of ours would fail, or keep the service from restarting."""
MPS_PIPES = "/tmp/nvidia-mps"


def refusal(need: int, *, index: int = 0, nvml: Any = None, pipes: str = MPS_PIPES) -> Unavailable | None:
    """Return why a probe that needs `need` bytes of a card may not run; None where nothing forbids it.

    A machine without NVML has no card to protect, so nothing forbids it there.
    """
    if nvml is None:
        try:
            import pynvml
        except ImportError:
            return None
        nvml = pynvml
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as error:
        return (
            None
            if error.value in (9, 12)
            else Unavailable(f"NVML cannot answer for GPU {index}: {error}", "nvidia-smi")
        )
    for check in CHECKS:
        for reason, cure in check(nvml, handle, need):
            return Unavailable(f"GPU {index}: {reason}", cure)
    folder = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", pipes)
    if os.path.exists(os.path.join(folder, "control")):
        reason = "an MPS daemon runs: a fault of ours could take its other clients down"
        return Unavailable(reason, "probe while the service is down, or --force")
    return None


Check = Callable[[Any, Any, int], Iterator[tuple[str, str]]]


def _asked(nvml: Any, call: str, *arguments: Any) -> Any:
    """Ask one thing; None where this card, driver or binding does not tell."""
    try:
        return getattr(nvml, call)(*arguments)
    except (nvml.NVMLError, AttributeError):
        return None


def _memory(nvml: Any, handle: Any, need: int) -> Iterator[tuple[str, str]]:
    found = _asked(nvml, "nvmlDeviceGetMemoryInfo", handle)
    wanted = need + CONTEXT + MARGIN
    if found is not None and found.free < wanted:
        text = f"{found.free / 2**20:,.0f} MiB are free, and a context, buffers and a margin want {wanted / 2**20:,.0f}"
        yield text, "probe before the service starts, or --size less"


def _mode(nvml: Any, handle: Any, need: int) -> Iterator[tuple[str, str]]:
    if _asked(nvml, "nvmlDeviceGetComputeMode", handle) in EXCLUSIVE:
        yield (
            "its compute mode lets one process in: we would keep the service out",
            "probe while the service is down",
        )


def _health(nvml: Any, handle: Any, need: int) -> Iterator[tuple[str, str]]:
    rows = _asked(nvml, "nvmlDeviceGetRemappedRows", handle)
    if rows is not None and (rows[2] or rows[3]):
        yield "memory rows wait to be remapped", "reset or replace the card"


def _heat(nvml: Any, handle: Any, need: int) -> Iterator[tuple[str, str]]:
    bits = _asked(nvml, "nvmlDeviceGetCurrentClocksEventReasons", handle)
    if bits is None:
        bits = _asked(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    for bit, name in HOT.items():
        if (bits or 0) & bit:
            yield (
                f"{name} is active: a rate would say nothing about the card",
                "cool it, or lift the power limit",
            )


CHECKS: tuple[Check, ...] = (_health, _mode, _heat, _memory)
