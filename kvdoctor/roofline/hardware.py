"""The cards: memory, bandwidth, dense peaks and links, by a name that people or drivers write."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

from kvdoctor.errors import KvdoctorError

# Share of the data sheet's bandwidth that a streaming read reaches: between the 0.90 of FlashMLA on an H800
# (3000 of 3350 GB/s) and the 0.83 of power-limited A100s in gpt-fast's README (1700 of 2039).
HBM_READ_FRACTION = 0.87
# What one well-filled GPU reaches over a whole decode step, and what it falls to (65 to 85% measured).
DECODE_FRACTION = 0.85
# ... by bytes a weight: 8-bit and 4-bit weight-only kernels reach 51% and 40% on gpt-fast (unpacking).
DECODE_FRACTION_LOW = ((1.5, 0.65), (0.9, 0.5), (0.0, 0.4))
# Share of the dense peak that a large decode batch may reach at best; prefill's share is the poor case.
COMPUTE_FRACTION = 0.7
# Seconds a layer that launches may add on one GPU without graphs: assumed, half of the TP figure's low end.
LAUNCH_LATENCY_S = 30e-6
# The low end over tensor-parallel ranks, beside the per-layer latency below.
TP_FRACTION_LOW = 0.6
# The low end of serving engines at full batches, where prefill shares the steps (20 to 40% measured at 50 to
# 100 sequences), and the batch from which it is taken in full.
SERVING_FRACTION_LOW = 0.2
SERVING_BATCH = 32
# Seconds a layer that launches and all-reduces add with TP over NVLink: fits of published single-stream runs
# (62 us gpt-oss-120b, 150 us GLM-4.6, both on 8 x B200).
LAYER_LATENCY_S = 60e-6
LAYER_LATENCY_HIGH_S = 150e-6
# Share of the dense peak that prefill reaches: TensorRT-LLM fp8 on H200 42% (8B) to 54% (70B).
PREFILL_FRACTION = 0.5
# GB/s of one PCIe direction, by generation and lane: measured on x16 26 (gen 4) and 50 (gen 5).
_PCIE_MEASURED = {3: 13e9, 4: 26e9, 5: 50e9, 6: 100e9}


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card. Rates in bytes/s and FLOP/s (dense); None where no source gives the figure."""

    name: str
    arch: str
    memory_bytes: float | None
    hbm_bytes_per_s: float | None
    bf16_flops: float | None
    fp8_flops: float | None
    fp4_flops: float | None
    pcie_gen: int | None
    nvlink_bytes_per_s: float | None
    """One direction, to all peers together."""
    warning: str = ""
    """What of the name or the figures is assumed."""

    def peak_flops(self, arithmetic: str) -> float | None:
        """Dense FLOP/s for `bf16`, `int8`, `fp8` or `fp4` products; the next wider type where it lacks one."""
        int8 = self.fp8_flops or (2 * self.bf16_flops if self.bf16_flops and self.arch == "Ampere" else None)
        ladder = {
            "fp4": (self.fp4_flops, self.fp8_flops, self.bf16_flops),
            "fp8": (self.fp8_flops, self.bf16_flops),
            "int8": (int8, self.bf16_flops),
        }.get(arithmetic, (self.bf16_flops,))
        return next((rate for rate in ladder if rate), None)

    @property
    def pcie_bytes_per_s(self) -> float | None:
        """Measured bytes/s of large copies over PCIe x16, one direction."""
        return _PCIE_MEASURED.get(self.pcie_gen or 0)

    def bandwidth(self) -> float:
        """Data sheet bytes/s of memory; raises KvdoctorError where no source gives it."""
        if self.hbm_bytes_per_s is None:
            raise KvdoctorError(
                f"no source gives the memory bandwidth of {self.name}", "give it with --bandwidth, in GB/s"
            )
        return self.hbm_bytes_per_s


def _number(text: str, scale: float = 1.0) -> float | None:
    """A cell of the table, or None where it is empty."""
    return float(text) * scale if text else None


@lru_cache(maxsize=1)
def gpus() -> tuple[Gpu, ...]:
    """Every card of the shipped table."""
    with (Path(__file__).parent / "gpu-specs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return tuple(
        Gpu(
            row["name"],
            row["arch"],
            _number(row["reported_gib"] or row["mem_gib"], 2**30),
            _number(row["hbm_gb_s"], 1e9),
            _number(row["bf16_tflops"], 1e12),
            _number(row["fp8_tflops"], 1e12),
            _number(row["fp4_tflops"], 1e12),
            int(row["pcie_gen"]) if row["pcie_gen"] else None,
            _number(row["nvlink_gb_s"], 1e9),
            "" if row["reported_gib"] else "memory is that of the card's name; drivers report 1 to 2% less",
        )
        for row in rows
    )


# What people write, squeezed; where a name has several cards, the default that is taken, and why.
_DEFAULTS = {
    "h100": (
        "NVIDIA H100 80GB HBM3",
        "H100 is taken as the SXM card; say `H100 PCIe` or `H100 NVL` otherwise",
    ),
    "h100sxm": ("NVIDIA H100 80GB HBM3", ""),
    "h100sxm5": ("NVIDIA H100 80GB HBM3", ""),
    "h10080gb": ("NVIDIA H100 80GB HBM3", ""),
    "h10080gbsxm": ("NVIDIA H100 80GB HBM3", ""),
    "h100pcie80gb": ("NVIDIA H100 PCIe", ""),
    "h800": ("NVIDIA H800", ""),
    "h800sxm": ("NVIDIA H800", ""),
    "h200": ("NVIDIA H200", ""),
    "h200sxm": ("NVIDIA H200", ""),
    "h20141gb": ("NVIDIA H20-3e", ""),
    "h20": ("NVIDIA H20", ""),
    "h2096gb": ("NVIDIA H20", ""),
    "gh200": ("NVIDIA GH200 480GB", "GH200 is taken as the 96 GB HBM3 one; say `GH200 144G HBM3e` otherwise"),
    "a100": ("NVIDIA A100-SXM4-80GB", "A100 is taken as the 80 GB SXM card; say `A100-40GB` or `A100 PCIe`"),
    "a10080": ("NVIDIA A100-SXM4-80GB", ""),
    "a10080gb": ("NVIDIA A100-SXM4-80GB", ""),
    "a10080gbsxm": ("NVIDIA A100-SXM4-80GB", ""),
    "a100sxm": ("NVIDIA A100-SXM4-80GB", ""),
    "a100sxm80gb": ("NVIDIA A100-SXM4-80GB", ""),
    "a10040": ("NVIDIA A100-SXM4-40GB", ""),
    "a10040gb": ("NVIDIA A100-SXM4-40GB", ""),
    "a100sxm40gb": ("NVIDIA A100-SXM4-40GB", ""),
    "a100pcie": ("NVIDIA A100 80GB PCIe", ""),
    "a10080p": ("NVIDIA A100 80GB PCIe", ""),
    "a10080gbpcie": ("NVIDIA A100 80GB PCIe", ""),
    "a800": ("NVIDIA A800-SXM4-80GB", "A800 is taken as the 80 GB SXM card"),
    "v100": ("Tesla V100-SXM2-32GB", "V100 is taken as the 32 GB SXM2 card"),
    "v10016gb": ("Tesla V100-SXM2-16GB", ""),
    "v10032gb": ("Tesla V100-SXM2-32GB", ""),
    "v100sxm2": ("Tesla V100-SXM2-32GB", ""),
    "b200": ("NVIDIA B200", "B200 is taken at 7.7 TB/s as in board documents; marketing says 8"),
    "b200sxm": ("NVIDIA B200", ""),
    "b300": ("NVIDIA B300 SXM6 AC", ""),
    "a6000": ("NVIDIA RTX A6000", ""),
    "6000ada": ("NVIDIA RTX 6000 Ada Generation", ""),
    "rtx6000ada": ("NVIDIA RTX 6000 Ada Generation", ""),
    "rtxpro6000": (
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        "RTX PRO 6000 is taken as the Workstation Edition (1792 GB/s; the Server Edition has 1597)",
    ),
    "rtxpro6000blackwell": (
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        "RTX PRO 6000 is taken as the Workstation Edition (1792 GB/s; the Server Edition has 1597)",
    ),
    "dgxspark": ("NVIDIA GB10", ""),
    "spark": ("NVIDIA GB10", ""),
    "m3max": ("Apple M3 Max 40-core", "M3 Max is taken as the 40-core one"),
    "mi250": ("AMD Instinct MI250", "counts the card's two dies together; each enumerates as its own device"),
    "mi250x": (
        "AMD Instinct MI250X",
        "counts the card's two dies together; each enumerates as its own device",
    ),
    "mi250xgcd": ("AMD Instinct MI250X GCD", ""),
}
_NOISE = re.compile(r"nvidia|geforce|tesla|amd|instinct|apple|generation|edition|[^a-z0-9+]")


def _squeezed(name: str) -> str:
    """A name without vendor words, case and punctuation."""
    return _NOISE.sub("", name.lower())


def gpu_by_name(name: str) -> Gpu:
    """Find a card: `H100`, `h100 sxm`, `NVIDIA H100 80GB HBM3`, `A100-80GB`, `4090`, `MI300X`, `M2 Ultra`.

    A name that several cards share gives the default with a `warning`. Raises KvdoctorError with near names
    where none is known.
    """
    wanted, table = _squeezed(name), {gpu.name: gpu for gpu in gpus()}
    if name in table and table[name].hbm_bytes_per_s:
        return table[name]
    if wanted in _DEFAULTS:
        full, why = _DEFAULTS[wanted]
        gpu = table[full]
        return replace(gpu, warning="; ".join(part for part in (why, gpu.warning) if part))
    exact = [
        gpu for gpu in gpus() if wanted in (_squeezed(gpu.name), _squeezed(gpu.name).removeprefix("rtx"))
    ]
    if exact:
        return exact[0]
    found = [gpu for gpu in gpus() if len(wanted) >= 3 and wanted in _squeezed(gpu.name)]
    if len(found) == 1:
        return found[0]
    near = [gpu.name for gpu in found] or get_close_matches(name, table, n=4, cutoff=0.4)
    raise KvdoctorError(
        f"no single card is called {name!r}" if found else f"the card {name!r} is not known",
        f"did you mean {', '.join(near)}? Or give --bandwidth" if near else "give --bandwidth, in GB/s",
    )
