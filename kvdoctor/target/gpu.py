"""Which GPUs a family holds, as NVML, its environment and its open files tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from kvdoctor.errors import Unavailable
from kvdoctor.model import Gap
from kvdoctor.target.family import Card
from kvdoctor.target.patience import Patience
from kvdoctor.target.process import Proc

_DEVICE = re.compile(r"^/dev/nvidia(\d+)$")
_OTHER = re.compile(r"^/dev/(?:kfd|dri/renderD\d+|nvidia-uvm)$")
NVML_SECONDS = 5.0
"""A card that has fallen off the bus can hold NVML up for seconds."""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU with the processes that NVML says compute on it."""

    card: Card
    minor: int
    pids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Devices:
    """All GPUs here, or why they cannot be seen."""

    devices: tuple[Device, ...] = ()
    gaps: tuple[Gap, ...] = field(default=())
    is_readable: bool = False


def devices(patience: Patience) -> Devices:
    """Ask NVML once. No CUDA context is made."""
    try:
        return patience.call(_ask, seconds=NVML_SECONDS)
    except Unavailable as error:
        return Devices(gaps=(Gap("NVML", error.reason, error.cure),))


def _ask() -> Devices:
    try:
        import pynvml
    except ImportError:
        raise Unavailable("pynvml is not installed", "pip install nvidia-ml-py") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise Unavailable(*_no_nvml(error.value, str(error))) from None
    try:
        found, gaps = [], []
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                found.append(_device(index))
            except pynvml.NVMLError as error:
                gaps.append(Gap("NVML", f"GPU {index}: {error}", "look at nvidia-smi and the kernel's log"))
        return Devices(tuple(found), tuple(gaps), is_readable=True)
    finally:
        pynvml.nvmlShutdown()


def _no_nvml(code: int, text: str) -> tuple[str, str]:
    """Say what a failed start means (field codes of nvml.h)."""
    if code == 12:
        return (
            "there is no libnvidia-ml.so.1: no NVIDIA driver, or a container without its `utility` capability",
            "in a container: docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ...",
        )
    if code == 18:
        return "the driver's library and its kernel module differ", "reload the module or restart the host"
    if code == 9:
        return "the kernel module of the NVIDIA driver is not loaded", "sudo modprobe nvidia"
    return f"NVML does not start: {text}", "look at nvidia-smi"


def _device(index: int) -> Device:
    import pynvml

    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    name, uuid = _text(pynvml.nvmlDeviceGetName(handle)), _text(pynvml.nvmlDeviceGetUUID(handle))
    minor, bus, pids = index, "", frozenset[int]()
    with suppress(pynvml.NVMLError, pynvml.NVMLLibraryMismatchError):  # a card without these still has a name
        minor = int(pynvml.nvmlDeviceGetMinorNumber(handle))
        bus = _bus(_text(pynvml.nvmlDeviceGetPciInfo(handle).busId))
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        pids = frozenset(int(process.pid) for process in processes)
    return Device(Card(index, uuid, name, bus), minor, pids)


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _bus(text: str) -> str:
    """Write NVML's eight-digit PCI domain as the kernel does, with four."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest}" if len(domain) == 8 and domain.startswith("0000") else text.lower()


def minors(proc: Proc, pid: int) -> frozenset[int]:
    """Return the numbers of the NVIDIA devices that a process has open; -1 for one of another kind."""
    found: set[int] = set()
    for target in proc.open_files(pid):
        match = _DEVICE.match(target)
        if match:
            found.add(int(match[1]))
        elif _OTHER.match(target):
            found.add(-1)
    return frozenset(found)


def cards_of(
    seen: Devices,
    opened: Mapping[int, frozenset[int]],
    environments: Iterable[Mapping[str, str]],
    *,
    believed: frozenset[int] = frozenset(),
) -> tuple[Card, ...]:
    """Return the cards of a family, given the device numbers that each of its processes has open.

    NVML's list of processes comes first; of it only pids that have a device open, since in a container it may
    name pids of another namespace, or that are `believed` though their open files are closed to us. Then
    CUDA_VISIBLE_DEVICES, its numbers only where CUDA counts as NVML does. Open devices come last: CUDA opens all
    it sees.
    """
    holders = {pid for pid, numbers in opened.items() if numbers}
    held = [device.card for device in seen.devices if device.pids & (holders | believed)]
    if held:
        return tuple(held)
    if not holders:
        return ()
    told: Mapping[str, str] = next((e for e in environments if e.get("CUDA_VISIBLE_DEVICES")), {})
    words = [word.strip() for word in told.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()]
    named = [_named(seen, word) for word in words]
    if named and not (any(word.isdigit() for word in words) and _orders_differ(seen, told)):
        return tuple(named)
    numbers = sorted({number for pid in holders for number in opened[pid] if number >= 0})
    known = {device.minor: device.card for device in seen.devices}
    return tuple(known.get(number, Card(number)) for number in numbers)


def _orders_differ(seen: Devices, told: Mapping[str, str]) -> bool:
    """Say whether CUDA may number the cards otherwise than NVML: it puts the fastest first unless told not to."""
    kinds = {device.card.name for device in seen.devices}
    return len(kinds) > 1 and told.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"


def _named(seen: Devices, word: str) -> Card:
    """Find what CUDA_VISIBLE_DEVICES names: an index in the order of the bus, or the start of a UUID."""
    for device in seen.devices:
        if word == str(device.card.index) or (word.startswith("GPU-") and device.card.uuid.startswith(word)):
            return device.card
    return Card(int(word)) if word.isdigit() else Card(-1, word)
