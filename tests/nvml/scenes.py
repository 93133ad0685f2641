"""Scenarios for the mock: `card key seconds value` lines, later ones over earlier ones. Values as NVML gives them."""

from __future__ import annotations

GIB = 2**30
ABSENT = "!3"
"""NotSupported."""

PID = 31004
"""The engine's process."""

LIBRARY = ("lib driver 0 595.45.04", "lib confidential 0 0")
CARD = (
    "* name 0 NVIDIA H200",
    f"* memory 0 {141 * GIB}",
    f"* memory.used 0 {100 * GIB}",
    "* occupancy 0 97",
    "* occupancy.memory 0 60",
    "* clock.1 0 1980",
    "* clock.limit.1 0 1980",
    "* clock.2 0 3201",
    "* clock.limit.2 0 3201",
    "* bus.width 0 6144",
    "* power 0 500",
    "* power.limit 0 700",
    "* temperature.0 0 60",
    "* reasons 0 0",
    "* pstate 0 0",
    "* link.generation 0 5",
    "* link.generation.slot 0 5",
    "* link.generation.card 0 5",
    "* link.width 0 16",
    "* link.width.slot 0 16",
    "* replays 0 0",
    "* pcie.transmit 0 100000000",
    "* pcie.receive 0 1000000000",
    "* ecc.corrected 0 0",
    "* ecc.uncorrected 0 0",
    "* rows.pending 0 0",
    "* virtualization 0 0",
    "* mig 0 0",
    "* gpm 0 1",
    "* gpm.20 0 100",
    "* gpm.21 0 1000",
    "* gpm.60 0 0",
    "* gpm.61 0 0",
    "* rate.138 0 0",
    "* rate.139 0 0",
    "* rate.197 0 0",
    "* rate.198 0 0",
    "* field.82 0 70",
    "* field.170 0 0",
    f"* processes 0 {PID}:{90 * GIB}",
    f"* process.occupancy 0 {PID}:97",
    *(f"* field.{number} 0 0" for number in (74, 75, 77, 79, 173, 179, 180, 269, 270, 271)),
)
"""A healthy card without load of its own, every call answered."""


def activity(
    engine: float, sm: float, dram: float, tensor: float = 5.0, occupancy: float = 30.0
) -> tuple[str, ...]:
    """Return what GPM tells, in percent."""
    return tuple(
        f"* gpm.{number} 0 {value}"
        for number, value in ((1, engine), (2, sm), (3, occupancy), (5, tensor), (10, dram), (174, 0.1))
    )


BANDWIDTH_BOUND = activity(engine=99.0, sm=96.0, dram=80.0)
HOST_BOUND = activity(engine=24.0, sm=20.0, dram=8.0)
IDLE = activity(engine=0.0, sm=0.0, dram=0.0)


def cards(number: int = 1) -> tuple[str, ...]:
    """Return the lines that tell cards apart."""
    lines = [f"lib count 0 {number}"]
    for index in range(number):
        lines += [f"{index} uuid 0 GPU-{index:08x}", f"{index} bus 0 00000000:{0x17 + index:02X}:00.0"]
    return tuple(lines)


def healthy(number: int = 1) -> tuple[str, ...]:
    """Return so many cards in a decode that HBM paces."""
    return (*LIBRARY, *CARD, *BANDWIDTH_BOUND, *cards(number))


MIG = (
    "0 mig 0 1",
    "0 mig.most 0 7",
    *(f"0 {key} 0 {ABSENT}" for key in ("occupancy", "occupancy.memory", "pcie.transmit", "pcie.receive")),
    "0 rows.pending 0 !3",
    "0.1 uuid 0 MIG-aaaa",
    "0.1 name 0 NVIDIA H200 MIG 3g.71gb",
    f"0.1 memory 0 {71 * GIB}",
    f"0.1 memory.used 0 {50 * GIB}",
    "0.1 gpm.1 0 43",
    "0.1 gpm.2 0 95",
    "0.1 gpm.10 0 70",
    "0.3 uuid 0 MIG-bbbb",
    "0.3 name 0 NVIDIA H200 MIG 1g.18gb",
    f"0.3 memory 0 {18 * GIB}",
    f"0.3 memory.used 0 {1 * GIB}",
)
"""Card 0 cut in two instances, 1 and 3, with holes between them."""

VGPU = (
    "0 name 0 NVIDIA H200-141C",
    "0 virtualization 0 2",
    *(f"0 {key} 0 {ABSENT}" for key in ("pcie.transmit", "pcie.receive", "power", "power.limit", "replays")),
    *(f"0 {key} 0 {ABSENT}" for key in ("ecc.corrected", "ecc.uncorrected", "rows.pending", "temperature.0")),
    "0 nvmlGpmSampleGet 0 !3",
)
"""A guest's slice of a card, whose driver claims GPM and then fails to sample it."""

BEFORE_HOPPER = (
    "* name 0 NVIDIA A100-SXM4-80GB",
    "* gpm 0 !3",
    "* clock.limit.2 0 1593",
    "* clock.2 0 1593",
    "* bus.width 0 5120",
    "lib window 0 0.001",
)
WSL = (
    "* nvmlDeviceGetComputeRunningProcesses_v3 0 !3",
    *(f"* {key} 0 {ABSENT}" for key in ("pcie.transmit", "pcie.receive", "power", "power.limit")),
    "* gpm 0 !3",
)
INTEGRATED = ("* name 0 NVIDIA GB10", "* memory 0 !3", "* gpm 0 !3")
SUPERCHIP = (
    "* name 0 NVIDIA GH200 96GB HBM3",
    "* field.170 0 10",
    "* gpm.100 0 2000",
    "* gpm.101 0 40000",
    "* gpm.20 0 1",
    "* gpm.21 0 1",
)
CONFIDENTIAL = ("lib confidential 0 1", "* nvmlGpmSampleGet 0 !3")
SLEEPY_LINK = (
    "* link.generation 0 1",
    "* pstate 0 8",
    "* occupancy 0 0",
    "* link.generation 5 5",
    "* pstate 5 0",
    "* occupancy 5 97",
)
NARROW_SLOT = ("* link.generation 0 3", "* link.generation.slot 0 3")
HOT = ("* clock.1 0 1200", "* reasons 0 32", "* rate.269 0 1000000000")
CAPPED = ("* clock.1 0 1200", "* reasons 0 4", "* rate.74 0 1000000000", "* field.74 0 !3")
