"""The card that the roofline is drawn for: named, found on this machine, or measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline.hardware import Gpu, gpu_by_name
from kvdoctor.roofline.quantity import rate_bytes_per_s, size_bytes
from kvdoctor.roofline.shape import ModelShape
from kvdoctor.roofline.step import Machine, machine_of

# What the driver opens: without one of these there is no NVIDIA card to ask for.
_DRIVER_NODES = ("/dev/nvidiactl", "/dev/dxg")
# A file of a probe is a few kilobytes.
_LARGEST_FILE = 16 * 2**20
_RATE_KEYS = ("achieved_bytes_per_s", "bytes_per_s")


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU, and where its figures come from. Rates in bytes/s, memory in bytes."""

    name: str
    """Empty where no card is named."""
    gpu: Gpu | None = None
    bandwidth: float | None = None
    """The rate that ceilings are made of; None where nothing gives one."""
    basis: str = ""
    """Where it comes from, for people."""
    memory: float | None = None
    peak: float | None = None
    """FLOP/s as given; None takes the card's for the arithmetic of the weights."""
    link: float | None = None
    warnings: tuple[str, ...] = ()

    def machine(self, shape: ModelShape) -> Machine | None:
        """The rates of this card for a model; None without a bandwidth."""
        if self.bandwidth is None:
            return None
        if self.gpu is None:
            return Machine(self.bandwidth, self.peak, self.link, self.basis)
        found = machine_of(self.gpu, shape, bandwidth=self.bandwidth, peak=self.peak, link=self.link)
        return Machine(found.bandwidth, found.peak, found.link, self.basis)


def rates_in(node: object) -> Iterator[float]:
    """Every rate in a probe's JSON, at any depth: `achieved_bytes_per_s`, else the rows' `bytes_per_s`."""
    if isinstance(node, dict):
        for key in _RATE_KEYS:
            value = node.get(key)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
                yield float(value)
                return
        for value in node.values():
            yield from rates_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from rates_in(value)


def measured_rate(path: Path) -> float:
    """The best rate of a probe's file (JSON, or one JSON object a line), in bytes/s.

    Raises KvdoctorError where the file can't be read or holds no rate.
    """
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise KvdoctorError(
                f"{path} is too large for a probe's result", "give the JSON of kvdoctor probe hbm"
            )
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise KvdoctorError(
            f"{path} can't be read: {error}", "give the JSON of kvdoctor probe hbm"
        ) from error
    found = max(rates_in(_documents(text, path)), default=0.0)
    if not found:
        raise KvdoctorError(
            f"{path} holds no rate", "it needs `achieved_bytes_per_s`, or rows with `bytes_per_s`"
        )
    return found


def _documents(text: str, path: Path) -> list[object]:
    """One JSON document, or one a line."""
    try:
        return [json.loads(text)]
    except ValueError:
        lines = [line for line in text.splitlines() if line.strip()]
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise KvdoctorError(f"{path} is not JSON: {error}", "give the JSON of kvdoctor probe hbm") from error


def local_gpu_name() -> str | None:
    """The name of this machine's first NVIDIA card, or None where there is no driver."""
    if not any(Path(node).exists() for node in _DRIVER_NODES):
        return None
    import pynvml

    try:
        pynvml.nvmlInit()
        try:
            name = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return None
    return name if isinstance(name, str) else bytes(name).decode("utf-8", "replace")


def _named(name: str | None) -> Gpu | None:
    """The card of a name; `auto` is this machine's and must be there, None is this machine's if it has one."""
    if name is None or name.lower() == "auto":
        local = local_gpu_name()
        if local is None and name is not None:
            raise KvdoctorError("no NVIDIA card answers on this machine", "name one: --gpu H100")
        return gpu_by_name(local) if local else None
    return gpu_by_name(name)


def card_of(
    name: str | None,
    *,
    bandwidth: str | None = None,
    measured: Path | None = None,
    memory: str | None = None,
    peak: float | None = None,
    link: str | None = None,
) -> Card:
    """The card for `--gpu`, with what `--bandwidth`, `--measured`, `--memory`, `--peak` and `--link` replace.

    Raises KvdoctorError for a card, a rate or a file that is not understood, or for two bandwidths.
    """
    if bandwidth is not None and measured is not None:
        raise KvdoctorError("--bandwidth and --measured both give a bandwidth", "give one of them")
    gpu = _named(name)
    rate, basis = _bandwidth(gpu, bandwidth, measured)
    if rate is not None and not 0 < rate < float("inf"):
        raise KvdoctorError("a bandwidth must be above zero", "give it in GB/s: --bandwidth 3350")
    if peak is not None and peak <= 0:
        raise KvdoctorError("a peak must be above zero", "give it in dense TFLOPS: --peak 989")
    warnings = (gpu.warning,) if gpu and gpu.warning else ()
    return Card(
        name=gpu.name if gpu else "",
        gpu=gpu,
        bandwidth=rate,
        basis=basis,
        memory=size_bytes(memory, bare="GiB") if memory else (gpu.memory_bytes if gpu else None),
        peak=peak * 1e12 if peak else None,
        link=rate_bytes_per_s(link) if link else None,
        warnings=warnings,
    )


def _bandwidth(gpu: Gpu | None, given: str | None, measured: Path | None) -> tuple[float | None, str]:
    """The bandwidth and its basis: measured, given, else the data sheet's."""
    if measured is not None:
        return measured_rate(measured), f"measured ({measured.name})"
    if given is not None:
        return rate_bytes_per_s(given), "given"
    return (gpu.bandwidth(), "data sheet") if gpu else (None, "")
