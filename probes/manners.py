"""What a probe may take on this machine: free memory, the cgroup's headroom, the processors that are ours."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kvdoctor.errors import Unavailable

MARGIN = 512 * 2**20
"""Bytes that must stay free beside what a probe takes."""
SHARE = 0.5
"""The largest share of what is available that a probe takes."""
_CGROUPS = "/sys/fs/cgroup"
_UNLIMITED = 2**60


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _number(path: str) -> int | None:
    text = _text(path)
    return int(text) if text.isdigit() else None


def available_memory(root: str = "/") -> int:
    """Return the bytes that can be taken without swapping, as /proc/meminfo estimates."""
    for line in _text(os.path.join(root, "proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def cgroup_folders(root: str = "/") -> list[str]:
    """Return the memory cgroups that hold this process, the innermost first, as far as they are visible."""
    base = os.path.join(root, _CGROUPS.lstrip("/"))
    found = []
    for line in _text(os.path.join(root, "proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory") and "memory" not in controllers.split(","):
            continue
        top = os.path.join(base, "memory") if controllers else base
        folder = os.path.normpath(top + path)
        while folder.startswith(top):
            found.append(folder)
            folder = os.path.dirname(folder)
    return found


def cgroup_headroom(root: str = "/") -> int | None:
    """Return the bytes until the tightest limit of our cgroups; idle page cache counts as free. None: no limit."""
    left = []
    for folder in cgroup_folders(root):
        limit = _number(f"{folder}/memory.max") or _number(f"{folder}/memory.limit_in_bytes")
        used = _number(f"{folder}/memory.current") or _number(f"{folder}/memory.usage_in_bytes")
        if limit is None or used is None or limit >= _UNLIMITED:
            continue
        stat = dict(
            line.split() for line in _text(f"{folder}/memory.stat").splitlines() if line.count(" ") == 1
        )
        left.append(limit - used + int(stat.get("inactive_file", 0)))
    return min(left) if left else None


def require_memory(size: int, what: str, root: str = "/") -> None:
    """Raise Unavailable where `size` bytes are not there with a margin, on the machine or in our cgroup."""
    free, headroom = available_memory(root), cgroup_headroom(root)
    if size + MARGIN > free:
        raise Unavailable(
            f"{what} needs {_mib(size)} of memory and {_mib(MARGIN)} beside it, and {_mib(free)} are free",
            "free some, or probe less: --size",
        )
    if headroom is not None and size + MARGIN > headroom:
        raise Unavailable(
            f"{what} needs {_mib(size)} of memory and {_mib(MARGIN)} beside it, "
            f"and this cgroup has {_mib(max(0, headroom))} left to its limit",
            "run the probe outside the service's container, or raise memory.max",
        )


def room(root: str = "/") -> int:
    """Return the most bytes that a probe may take here."""
    free, headroom = available_memory(root), cgroup_headroom(root)
    least = free if headroom is None else min(free, headroom)
    return max(0, int(SHARE * (least - MARGIN)))


def processors(root: str = "/") -> tuple[int, ...]:
    """Return the processors that we may run on, no more than a cgroup's quota pays for."""
    ours = sorted(os.sched_getaffinity(0))
    quotas = [len(ours)]
    for folder in cgroup_folders(root):
        quota, _, period = _text(f"{folder}/cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit() and int(period):
            quotas.append(max(1, int(quota) // int(period)))
    return tuple(ours[: min(quotas)])


def last_level_cache(root: str = "/") -> int:
    """Return the bytes of all last-level caches together; 0 where sysfs does not tell."""
    base = Path(root, "sys/devices/system/cpu")
    shared: dict[tuple[str, int], int] = {}
    for index in base.glob("cpu[0-9]*/cache/index*"):
        level, size = _number(f"{index}/level"), _text(f"{index}/size")
        if level and size.endswith("K") and _text(f"{index}/type") != "Instruction":
            shared[_text(f"{index}/shared_cpu_list"), level] = int(size[:-1]) * 1024
    top = max((level for _, level in shared), default=0)
    return sum(size for (_, level), size in shared.items() if level == top)


def sockets(root: str = "/") -> int:
    """Return how many processor packages there are; at least one."""
    base = Path(root, "sys/devices/system/cpu")
    return len({_text(str(p)) for p in base.glob("cpu[0-9]*/topology/physical_package_id")} - {""}) or 1


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"


def node_processors(ours: Sequence[int], root: str = "/") -> tuple[frozenset[int], ...]:
    """Return, for each of our processors, all of ours on its NUMA node: what its thread may run on."""
    nodes = [
        _listed(_text(str(p))) & set(ours)
        for p in Path(root, "sys/devices/system/node").glob("node*/cpulist")
    ]
    return tuple(frozenset(next((node for node in nodes if each in node), set(ours))) for each in ours)


def _listed(cpulist: str) -> set[int]:
    """Read the kernel's notation of a set: 0-3,8."""
    found: set[int] = set()
    for part in filter(None, cpulist.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found
