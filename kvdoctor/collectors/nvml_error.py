"""What NVML's error codes mean for somebody who wants an answer, and what would help."""

from __future__ import annotations

from typing import Any

from kvdoctor.collectors.nvml_setting import Setting
from kvdoctor.errors import Refused

NOT_SUPPORTED, NO_PERMISSION, LIBRARY_NOT_FOUND = 3, 4, 12
LOST = frozenset((15, 16))
"""GpuIsLost and ResetRequired: the card must not be touched any more."""
SILENT = frozenset((0, 6, 7, 21))
"""Success raised as an error, NotFound, InsufficientSize and NoData: nothing to tell just now."""
FICKLE = frozenset((10, 999))
"""Timeout and Unknown: worth a second try, and a word when it fails too."""
UNSUPPORTED = "this card does not tell"

_REASONS = {
    1: "NVML was closed meanwhile",
    2: "this driver does not know the question",
    3: UNSUPPORTED,
    4: "it may not be read by this user",
    9: "the driver was unloaded",
    10: "the driver did not answer in time, as with a card that hangs",
    13: "this driver is older than the question",
    14: "the card's InfoROM is damaged",
    15: "the card fell off the bus",
    16: "the card needs a reset",
    17: "the operating system or a cgroup keeps it closed",
    18: "the driver's library and its kernel module differ",
    20: "the driver has no memory for it",
    25: "this driver knows another version of the question",
    26: "this driver has given the question up",
    27: "the card is not ready",
    28: "the card is gone",
    29: "the card is in a state in which it does not tell",
    999: "the driver failed with an unknown error, as after a lost card or a suspend",
}
_UPDATE = "update the NVIDIA driver"
_HARDWARE = (
    "drain this host; look for Xid 79 in the kernel's log (dmesg | grep Xid), then reset the card or reboot"
)
_CURES = {
    1: "run kvdoctor again",
    2: _UPDATE,
    3: "",
    4: "run kvdoctor as root; in a container add --cap-add SYS_ADMIN, under MIG NVIDIA_MIG_MONITOR_DEVICES=all",
    13: _UPDATE,
    15: _HARDWARE,
    16: _HARDWARE,
    17: "allow the card's device file in the cgroup (docker --gpus, Kubernetes nvidia.com/gpu)",
    18: "reload the driver's kernel module or restart the container",
    25: _UPDATE,
    26: "update kvdoctor",
}
CURE = "look at nvidia-smi -q, as root"

_START = {
    4: ("NVML may not be used by this user", "run kvdoctor as root"),
    9: ("the NVIDIA driver is not loaded", "load it (nvidia-smi), or run on the GPU's host"),
    12: (
        "there is no NVIDIA driver library here",
        "no NVIDIA card, or in a container: --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    ),
    13: ("the NVIDIA driver is older than NVML's first call", _UPDATE),
    15: ("a card fell off the bus, and NVML does not start", _HARDWARE),
    17: ("the operating system keeps NVML closed", "run kvdoctor outside its cgroup, or as root"),
    18: ("the driver's library and its kernel module differ", "reload the driver or restart the container"),
    999: ("the NVIDIA driver fails to start NVML", "look at nvidia-smi and at the kernel's log for Xid"),
}
_NO_UTILITY = (
    "this container was started without the driver's `utility` capability, so NVML is not in it",
    "start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility",
)
_WSL_PATH = (
    "this is WSL, and its NVML library is not on the loader's path",
    "LD_LIBRARY_PATH=/usr/lib/wsl/lib kvdoctor ...",
)


def code(error: Exception) -> int:
    """Return NVML's number of an error: its objects can neither be compared nor hashed safely.

    The binding raises an error of another kind where a driver has only an older form of a call.
    """
    if type(error).__name__ == "NVMLLibraryMismatchError":
        return 13
    return int(getattr(error, "value", 999))


def reason(number: int) -> str:
    """Return what an error means for a reader."""
    return _REASONS.get(number, f"NVML error {number}")


def cure(number: int) -> str:
    """Return what would let it be read, empty where nothing does."""
    return _CURES.get(number, CURE)


def cannot_start(error: Exception, setting: Setting) -> Refused:
    """Say why NVML cannot be used at all, and what to do."""
    number = code(error)
    if number == LIBRARY_NOT_FOUND and setting.lacks_utility:
        return Refused(*_NO_UTILITY)
    if number == LIBRARY_NOT_FOUND and setting.is_wsl:
        return Refused(*_WSL_PATH)
    return Refused(*_START.get(number, (f"NVML cannot be used: {reason(number)}", "look at nvidia-smi")))


def kinds(nvml: Any) -> tuple[type[Exception], ...]:
    """Return the errors that the binding raises for a driver's answer."""
    mismatch = getattr(nvml, "NVMLLibraryMismatchError", None)
    return (nvml.NVMLError, mismatch) if isinstance(mismatch, type) else (nvml.NVMLError,)


def kinds_and_absence(nvml: Any) -> tuple[type[Exception], ...]:
    """Return the same, and what is raised where the binding itself lacks a name."""
    return (AttributeError, *kinds(nvml))
