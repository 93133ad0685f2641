"""Which NUMA node CPUs and cards belong to, from /sys alone: never from a process's numa_maps."""

from __future__ import annotations

import glob
from functools import lru_cache

from kvdoctor.collectors import files


@lru_cache(maxsize=8)
def _nodes(sys: str) -> tuple[tuple[str, frozenset[int]], ...]:
    """Return (node, its CPUs) of every node that has any."""
    found = []
    for path in sorted(glob.glob(f"{sys}/devices/system/node/node[0-9]*/cpulist")):
        cpus = files.cpu_list(files.optional(path) or "")
        if cpus:
            found.append((path.split("/node")[-1].split("/")[0], cpus))
    return tuple(found)


@lru_cache(maxsize=256)
def nodes_of(cpus: frozenset[int], sys: str = "/sys") -> tuple[str, ...]:
    """Return the nodes that these CPUs lie on; empty where /sys does not tell."""
    return tuple(node for node, own in _nodes(sys) if own & cpus)


def card_node(bus_id: str, sys: str = "/sys") -> str | None:
    """Return the node of a PCI device, None where it is unknown (a VM, or a host of one node says -1).

    NVML writes the domain with eight digits, /sys with four.
    """
    short = bus_id.lower()[-12:]
    node = files.number(f"{sys}/bus/pci/devices/{short}/numa_node")
    return str(int(node)) if node is not None and node >= 0 else None
