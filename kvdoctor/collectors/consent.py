"""Whether a probe may use a GPU: what NVML says that forbids it. No CUDA context is made to ask."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kvdoctor.collectors import nvml_error as errors
from kvdoctor.collectors.chosen import Chosen
from kvdoctor.collectors.kernel_log import recent_xids
from kvdoctor.collectors.nvml_calls import bus_id
from kvdoctor.collectors.nvml_card import Handle
from kvdoctor.collectors.nvml_setting import setting
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
KERNEL_LOG = "/dev/kmsg"
NODES = ("/dev/nvidiactl", "/dev/dxg")
"""Device files that show that there is a card, whether NVML can be asked or not."""
_RESET = "reset or replace the card"


def open_nvml(load: Callable[[], Any] | None = None, nodes: tuple[str, ...] = NODES) -> Any | None:
    """Return NVML, initialised; None on a machine without a card to protect.

    Unavailable where there is one and NVML cannot be asked what it is used for.
    """
    try:
        nvml = (load or _import)()
    except ImportError:
        if any(os.path.exists(node) for node in nodes):
            reason = "there is a GPU, and nvidia-ml-py is not installed to ask whether it may be used"
            raise Unavailable(reason, "pip install nvidia-ml-py, or --force") from None
        return None
    try:
        nvml.nvmlInit()
    except errors.kinds(nvml) as error:
        if errors.code(error) in (9, 12) and not any(os.path.exists(node) for node in nodes):
            return None
        raise errors.cannot_start(error, setting()) from None
    return nvml


def _import() -> Any:
    import pynvml

    return pynvml


def refusal(
    need: int, chosen: Chosen, *, nvml: Any, pipes: str = MPS_PIPES, log: str = KERNEL_LOG
) -> Unavailable | None:
    """Return why a probe that needs `need` bytes of a card may not run; None where nothing forbids it."""
    try:
        for check in CHECKS:
            for reason, cure in check(nvml, chosen.handle, need):
                return Unavailable(f"{chosen.name}: {reason}", cure)
    except Unavailable as lost:
        return Unavailable(f"{chosen.name}: {lost.reason}", lost.cure)
    found = recent_xids(bus_id(nvml, _whole(chosen.handle)) or "", Path(log))
    if found:
        numbers = ", ".join(str(number) for number in found)
        return Unavailable(
            f"{chosen.name}: the kernel's log has Xid {numbers} of the last hour", "dmesg | grep Xid"
        )
    folder = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", pipes)
    if os.path.exists(os.path.join(folder, "control")):
        reason = "an MPS daemon runs: a fault of ours could take its other clients down"
        return Unavailable(reason, "probe while the service is down, or --force")
    return None


Check = Callable[[Any, Handle, int], Iterator[tuple[str, str]]]


def _asked(nvml: Any, call: str, *arguments: Any) -> Any:
    """Ask one thing; None where this card, driver or binding does not tell. Unavailable for a lost card."""
    try:
        return getattr(nvml, call)(*arguments)
    except errors.kinds_and_absence(nvml) as error:
        number = errors.code(error)
        if not isinstance(error, AttributeError) and number in errors.LOST:
            raise Unavailable(errors.reason(number), errors.cure(number)) from None
        return None


def _whole(handle: Handle) -> Any:
    """Return the card itself: an instance tells its memory only."""
    return handle.card if handle.parent is None else handle.parent


def _memory(nvml: Any, handle: Handle, need: int) -> Iterator[tuple[str, str]]:
    found = _asked(nvml, "nvmlDeviceGetMemoryInfo", handle.card)
    wanted = need + CONTEXT + MARGIN
    if found is not None and found.free < wanted:
        text = f"{found.free / 2**20:,.0f} MiB are free, and a context, buffers and a margin want {wanted / 2**20:,.0f}"
        yield text, "probe before the service starts, or --size less"


def _mode(nvml: Any, handle: Handle, need: int) -> Iterator[tuple[str, str]]:
    if _asked(nvml, "nvmlDeviceGetComputeMode", _whole(handle)) in EXCLUSIVE:
        yield (
            "its compute mode lets one process in: we would keep the service out",
            "probe while the service is down",
        )


def _health(nvml: Any, handle: Handle, need: int) -> Iterator[tuple[str, str]]:
    rows = _asked(nvml, "nvmlDeviceGetRemappedRows", _whole(handle))
    if rows is not None and (rows[2] or rows[3]):
        yield "memory rows wait to be remapped", _RESET
    uncorrected = _asked(
        nvml,
        "nvmlDeviceGetTotalEccErrors",
        _whole(handle),
        nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        nvml.NVML_VOLATILE_ECC,
    )
    if uncorrected:
        yield f"{uncorrected} memory errors could not be corrected since the driver was loaded", _RESET


def _secrecy(nvml: Any, handle: Handle, need: int) -> Iterator[tuple[str, str]]:
    state = _asked(nvml, "nvmlSystemGetConfComputeState")
    if state is not None and state.ccFeature:
        yield (
            "confidential computing is on: a second process shares its bounce buffers",
            "none while it is on",
        )


def _heat(nvml: Any, handle: Handle, need: int) -> Iterator[tuple[str, str]]:
    bits = _asked(nvml, "nvmlDeviceGetCurrentClocksEventReasons", _whole(handle))
    if bits is None:
        bits = _asked(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", _whole(handle))
    for bit, name in HOT.items():
        if (bits or 0) & bit:
            yield (
                f"{name} is active: a rate would say nothing about the card",
                "cool it, or lift the power limit",
            )


CHECKS: tuple[Check, ...] = (_health, _mode, _secrecy, _heat, _memory)
