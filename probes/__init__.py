"""Real transfers, each in a child process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Probe:
    """One row of the table. The module has `Options`, `footprint(options)` and `run(options, tell)`."""

    module: str
    says: str
    """What it measures, for people."""
    torch: Literal["required", "used", "no"] = "no"
    """Whether the child needs a Python with torch, takes one where there is one, or does without."""
    in_all: bool = True
    """Whether `all` includes it; what sends a real request or needs a peer is asked for by name."""


PROBES: dict[str, Probe] = {
    "hbm": Probe("kvdoctor.probes.hbm", "memory bandwidth, of the GPU or else of the system", torch="used"),
    "pcie": Probe("kvdoctor.probes.pcie", "copies between host and GPU", torch="required"),
    "nvme": Probe("kvdoctor.probes.nvme", "the file system that holds the KV tier, or a folder given"),
    "decode": Probe(
        "kvdoctor.probes.decode", "decode of a model's shape, by a real engine", torch="required"
    ),
    "network": Probe("kvdoctor.probes.network", "messages between two processes or hosts", torch="used"),
    "request": Probe("kvdoctor.probes.request", "one prompt as a miss and as a hit", in_all=False),
}
