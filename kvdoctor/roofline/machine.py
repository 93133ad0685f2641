"""The card that the roofline is drawn for: named, found on this machine, or measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kvdoctor.errors import KvdoctorError, Misuse
from kvdoctor.roofline.hardware import Gpu, gpu_by_name
from kvdoctor.roofline.measured import HOST, Measured
from kvdoctor.roofline.quantity import rate_bytes_per_s, size_bytes
from kvdoctor.roofline.shape import ModelShape
from kvdoctor.roofline.step import Machine, machine_of
from kvdoctor.units import rate_bytes

# What the driver opens: without one of these there is no NVIDIA card to ask for.
_DRIVER_NODES = ("/dev/nvidiactl", "/dev/dxg")
LEAST_BANDWIDTH = 1.0
"""Bytes/s below which no memory is: what is divided by tokens/s at such a rate is no number any more."""


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
    measured: Measured | None = None
    """What a probe measured, where the bandwidth is its."""

    @property
    def is_host_memory(self) -> bool:
        """Say whether the bandwidth is that of processors' memory, and no card is named."""
        return self.gpu is None and self.measured is not None and self.measured.device == HOST

    def machine(self, shape: ModelShape) -> Machine | None:
        """The rates of this card for a model; None without a bandwidth."""
        if self.bandwidth is None:
            return None
        steps = self.measured is not None and self.measured.is_read_bound
        if self.gpu is None:
            return Machine(self.bandwidth, self.peak, self.link, self.basis, steps)
        found = machine_of(self.gpu, shape, bandwidth=self.bandwidth, peak=self.peak, link=self.link)
        return Machine(found.bandwidth, found.peak, found.link, self.basis, steps)


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
        raise Misuse("--bandwidth and --measured both give a bandwidth", "give one of them")
    gpu = _named(name)
    found = _probed(measured) if measured is not None else None
    rate, basis = _bandwidth(gpu, bandwidth, measured, found)
    if rate is not None and not LEAST_BANDWIDTH <= rate < float("inf"):
        raise KvdoctorError("a bandwidth must be above zero, and finite", "give it in GB/s: --bandwidth 3350")
    if peak is not None and peak <= 0:
        raise KvdoctorError("a peak must be above zero", "give it in dense TFLOPS: --peak 989")
    return Card(
        name=gpu.name if gpu else "",
        gpu=gpu,
        bandwidth=rate,
        basis=basis,
        memory=size_bytes(memory, bare="GiB") if memory else (gpu.memory_bytes if gpu else None),
        peak=peak * 1e12 if peak else None,
        link=rate_bytes_per_s(link) if link else None,
        warnings=tuple(_warnings(gpu, found)),
        measured=found,
    )


def _probed(path: Path) -> Measured:
    """What a probe's file says; imported late, since most questions bring none."""
    from kvdoctor.roofline.probefile import measured_in

    return measured_in(path)


def _bandwidth(
    gpu: Gpu | None, given: str | None, path: Path | None, measured: Measured | None
) -> tuple[float | None, str]:
    """The bandwidth and its basis: measured, given, else the data sheet's."""
    if measured is not None and path is not None:
        what = measured.basis if measured.probe else "measured"
        return measured.bytes_per_s, f"{what} ({path.name})"
    if given is not None:
        return rate_bytes_per_s(given), "given"
    return (gpu.bandwidth(), "data sheet") if gpu else (None, "")


def _warnings(gpu: Gpu | None, measured: Measured | None) -> Iterator[str]:
    """What of the card or of the measurement is assumed."""
    if gpu and gpu.warning:
        yield gpu.warning
    if measured is None:
        return
    if gpu and measured.device and not measured.is_of(gpu.name):
        yield f"the bandwidth was measured on {measured.device}, not on {gpu.name}: every rate is that of the former"
    if measured.disturbed:
        what = "is a lower bound" if measured.is_lower_bound else "is uncertain"
        yield f"the bandwidth {what}: {measured.disturbed}; probe again on an idle machine"
    if measured.is_read_bound and measured.read > measured.decode:
        yield (
            f"the ceiling is what real decode steps reached; a plain read of the same memory reached "
            f"{rate_bytes(measured.read)}, and only that cannot be exceeded"
        )
