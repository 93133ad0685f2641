"""The steps of the first run on a card: what each does, what is expected, and whether that was seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks import gpu_judges as judges
from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.probes.child import run_child

GIB, MIB = 2**30, 2**20
Seen = dict[str, Any]
LOOP_S = 2.0
VICTIM = """
import sys, time, torch
x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
for _ in range(20): x @ x
torch.cuda.synchronize()
print("ready", flush=True)
while True:
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < 0.25:
        x @ x
        torch.cuda.synchronize()
        count += 1
    print(count / (time.perf_counter() - begin), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to confirm."""

    what: str
    expected: str
    limit_s: float
    run: Callable[[], Seen]
    judge: Callable[[Seen], Seen]


def probed(name: str, limit_s: float = 80.0, **options: Any) -> Seen:
    """Run a probe in its child; its refusal or failure as data."""
    try:
        return run_child(name, options, limit_s=limit_s)
    except (Unavailable, KvdoctorError) as error:
        return {"error": str(error)}


def dump() -> Seen:
    from benchmarks import gpu_nvml

    return gpu_nvml.everything(gpu_nvml.card())


def loop(work: Callable[[], Any], seconds: float = LOOP_S) -> float:
    """Repeat a device operation for a time; return the operations a second."""
    import torch

    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for _ in range(8):
            work()
        torch.cuda.synchronize()
        count += 8
    return count / (time.perf_counter() - begin)


def pcie_fields() -> Seen:
    """Fields 197 and 198 around a copy of 8 GiB to the card."""
    import torch

    from benchmarks import gpu_nvml

    handle, host = gpu_nvml.card(), torch.randint(0, 256, (512 * MIB,), dtype=torch.uint8).pin_memory()
    device = torch.empty_like(host, device="cuda")
    before = {number: gpu_nvml.field(handle, number) for number in (197, 198)}
    for _ in range(16):
        device.copy_(host, non_blocking=True)
    torch.cuda.synchronize()
    after = {number: gpu_nvml.field(handle, number) for number in (197, 198)}
    return {"before": before, "after": after, "payload": 16 * 512 * MIB}


def gpm_reads() -> Seen:
    """GPM idle, and while the card reads only; the occupancy of NVML beside it."""
    import pynvml
    import torch

    from benchmarks import gpu_nvml

    handle = gpu_nvml.card()
    data = torch.randint(0, 2**31 - 1, (GIB,), dtype=torch.int32, device="cuda")
    found: Seen = {"idle": gpu_nvml.gpm(handle)}
    rates: list[float] = []
    found["reading"] = gpu_nvml.gpm(handle, lambda: rates.append(loop(data.sum)))
    found["bytes_per_s"] = 4 * GIB * rates[0]
    found["occupancy_reading"] = pynvml.nvmlDeviceGetUtilizationRates(handle).memory
    one = data[:1].clone()
    loop(one.sum)
    found["occupancy_of_tiny_work"] = pynvml.nvmlDeviceGetUtilizationRates(handle).memory
    return found


def gpm_pcie() -> Seen:
    """GPM's PCIe rates during copies to and from the card."""
    import torch

    from benchmarks import gpu_nvml

    handle, host = gpu_nvml.card(), torch.randint(0, 256, (512 * MIB,), dtype=torch.uint8).pin_memory()
    device, found = torch.empty_like(host, device="cuda"), {}
    for name, into, source in (("h2d", device, host), ("d2h", host, device)):
        rates: list[float] = []
        work = lambda into=into, source=source: into.copy_(source, non_blocking=True)  # noqa: E731
        got = gpu_nvml.gpm(handle, lambda work=work, rates=rates: rates.append(loop(work)))  # type: ignore[misc]
        found[name] = {"gpm": got, "bytes_per_s": rates[0] * host.numel()}
    return found


def hbm_sizes() -> Seen:
    """The HBM probe from sizes that the L2 holds to sizes that it does not."""
    return {
        str(size): probed("hbm", limit_s=25.0, size=size * MIB, device="cuda")
        for size in (8192, 64, 256, 1024)
    }


def link() -> Seen:
    return probed("pcie", device="cuda")


def decode() -> Seen:
    """The decode probe where this build has it: kernels, engine, graphs."""
    from kvdoctor.probes import PROBES

    return probed("decode") if "decode" in PROBES else {"error": "this build has no decode probe"}


def manners() -> Seen:
    """The command beside a process that computes: its rate before and while it is probed."""
    victim = subprocess.Popen([sys.executable, "-c", VICTIM], stdout=subprocess.PIPE, text=True)
    if victim.stdout is None:
        return {"error": "no pipe"}
    try:
        if victim.stdout.readline().strip() != "ready":
            return {"error": "the process to be probed beside did not start"}
        before = [float(victim.stdout.readline()) for _ in range(12)]
        argv = [sys.executable, "-m", "kvdoctor.cli", "probe", "hbm", "--pid", str(victim.pid), "--json"]
        with tempfile.TemporaryFile("w+") as answer:
            probe = subprocess.Popen(argv, stdout=answer)
            during = []
            while probe.poll() is None:
                during.append(float(victim.stdout.readline()))
            answer.seek(0)
            return {"before": before, "during": during, "probe": json.loads(answer.readline() or "{}")}
    finally:
        victim.kill()
        victim.wait()


def context() -> Seen:
    """What NVML says is used before and after the first tensor."""
    import pynvml

    from benchmarks import gpu_nvml

    handle = gpu_nvml.card()
    before = pynvml.nvmlDeviceGetMemoryInfo(handle).used
    import torch

    held = torch.ones(1, device="cuda")
    torch.cuda.synchronize()
    after = pynvml.nvmlDeviceGetMemoryInfo(handle).used
    return {"bytes": after - before, "device": str(held.device), "pid": os.getpid()}


STEPS: dict[int, Step] = {
    1: Step(
        "every NVML call with its code", "name, bus width, memory clock, link known", 20, dump, judges.dump
    ),
    2: Step(
        "PCIe byte fields 197, 198",
        "8 GiB and up to 12%, or that modulo 2^32",
        30,
        pcie_fields,
        judges.pcie_fields,
    ),
    3: Step("GPM while reading", "DRAM 75 to 97%, SM above 80%, tensor 0", 40, gpm_reads, judges.gpm_reads),
    4: Step("GPM's PCIe rates", "within 10% of the copies, RX for H2D", 40, gpm_pcie, judges.gpm_pcie),
    6: Step("HBM probe by size", "80 to 97% of the clock's rate at 8 GiB", 80, hbm_sizes, judges.hbm_sizes),
    7: Step("PCIe probe, small blocks too", "three quarters of the link and more", 90, link, judges.link),
    9: Step("decode kernels and engine", "a result", 90, decode, judges.decode),
    11: Step("the service while it is probed", "loses less than 10%", 60, manners, judges.manners),
    12: Step("memory of a CUDA context", "a few hundred MiB", 30, context, judges.context),
}
"""Numbered as the list of what to confirm; 5 is within 3, 8 within 7, 10 within 9."""
