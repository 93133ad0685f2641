"""The CUDA device as probes use it: is there one, what can it do at most, and how its time is taken."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvdoctor.errors import Absent, Unavailable
from kvdoctor.probes.timing import Ceiling

CONTEXT = 2**30
"""Bytes that a CUDA context takes before the first tensor; reports say 0.3 to 0.8 GiB."""
MARGIN = 512 * 2**20
DRIVER_NODES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")


def has_driver(nodes: tuple[str, ...] = DRIVER_NODES) -> bool:
    """Say whether the machine has a card, whatever our own Python can do with it: a probe may run under another."""
    return any(Path(node).exists() for node in nodes)


def missing(nodes: tuple[str, ...] = DRIVER_NODES) -> Absent | None:
    """Say why there is no GPU to measure; None where there is one. Makes no CUDA context."""
    if not has_driver(nodes):
        return Absent("there is no GPU on this machine", "run it on the GPU's host")
    if importlib.util.find_spec("torch") is None:
        return Absent("this Python has no torch", "pip install 'kvdoctor[torch]', or --python PATH")
    import torch

    if not torch.cuda.is_available():
        return Absent(
            f"torch {torch.__version__} cannot use a GPU here",
            "install a torch built for CUDA, or --python PATH of the service's own",
        )
    return None


def device_of(name: str) -> Any:
    """Return the torch device of `auto`, `cuda` or `cuda:N`, always with its number: some calls take no other."""
    import torch

    index = name.partition(":")[2]
    return torch.device("cuda", int(index) if index else torch.cuda.current_device())


def require_memory(device: Any, size: int) -> None:
    """Raise Unavailable unless the card has room for the buffers and a margin; then cap what we can take."""
    import torch

    free, total = torch.cuda.mem_get_info(device)
    if size + MARGIN > free:
        raise Unavailable(
            f"the probe needs {(size + MARGIN) / 2**20:,.0f} MiB of the GPU, and {free / 2**20:,.0f} are free",
            "the service holds the rest: probe before it starts, or less with --size",
        )
    index = torch.cuda.current_device() if device.index is None else device.index
    torch.cuda.set_per_process_memory_fraction(min(1.0, (size + MARGIN) / total), index)


def memory_ceiling(device: Any) -> Ceiling:
    """Return memory clock x 2 x bus width; a card that tells neither has no ceiling here."""
    import torch

    about = torch.cuda.get_device_properties(device)
    clock = getattr(about, "memory_clock_rate", 0) * 1000.0
    width = getattr(about, "memory_bus_width", 0)
    if not clock or not width:
        return Ceiling(None, "the card tells no memory clock")
    return Ceiling(clock * 2 * width / 8, "memory clock x 2 x bus width")


def cache_bytes(device: Any) -> int:
    """Return the L2 cache's size; 0 where torch does not tell."""
    import torch

    return int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0))


def event_seconds(work: Callable[[], None], stream: Any, *, times: int = 1) -> float:
    """Return the device's seconds for one of `times` calls of `work` on a stream, between two events."""
    import torch

    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(stream):
        start.record(stream)
        for _ in range(times):
            work()
        end.record(stream)
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3 / times


def pci_address(device: Any) -> str:
    """Return the card's address as sysfs names it; empty where torch does not tell."""
    import torch

    about = torch.cuda.get_device_properties(device)
    bus = getattr(about, "pci_bus_id", None)
    if bus is None:
        return ""
    return f"{getattr(about, 'pci_domain_id', 0):04x}:{bus:02x}:{getattr(about, 'pci_device_id', 0):02x}.0"
