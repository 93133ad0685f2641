"""The limits that the engine's cgroups set, v2 and v1: CPU throttling, memory, pressure, up to the root."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from kvdoctor.collectors import files
from kvdoctor.collectors.lines import HostPage, Label, Lines
from kvdoctor.collectors.pressure import write_pressure
from kvdoctor.errors import Refused
from kvdoctor.target.family import Cgroup

UNLIMITED = 2.0**60
"""v1 writes no limit as the largest multiple of a page in 63 bits."""
MAX_LEVELS = 64
"""Folders that are read; a guard for families spread over many cgroups."""
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Level:
    folder: str
    labels: tuple[Label, ...]
    unified: bool
    leaf: bool


@dataclass(frozen=True, slots=True)
class Limits:
    """What a cgroup allows and how much of it is taken; None where there is no limit."""

    cpus: float | None
    memory: float | None
    memory_used: float | None
    reclaimable: float = 0.0
    """Bytes of it that are page cache which nobody has touched lately."""


def limits(folder: str) -> Limits:
    """Read the limits that one cgroup folder sets itself, v2 or v1."""
    quota = _quota(folder)
    bound = files.number(f"{folder}/memory.max")
    if bound is None:
        bound = files.number(f"{folder}/memory.limit_in_bytes")
    used = files.number(f"{folder}/memory.current")
    if used is None:
        used = files.number(f"{folder}/memory.usage_in_bytes")
    stat = files.pairs(files.optional(f"{folder}/memory.stat") or "")
    cache = stat.get("total_inactive_file", stat.get("inactive_file", 0.0))
    return Limits(quota, bound if bound is not None and bound < UNLIMITED else None, used, cache)


def levels(folder: str) -> tuple[str, ...]:
    """Return a cgroup's folder and those above it that are cgroups too, the innermost first."""
    found = []
    while folder and os.path.exists(f"{folder}/cgroup.procs"):
        found.append(folder)
        folder = os.path.dirname(folder)
    return tuple(found)


class Cgroups:
    """Every cgroup from the members' own up to the root, those that limit something and the innermost."""

    name, kind, role = "cgroup", "host", None

    def __init__(self, cgroups: Sequence[Cgroup], *, about: Mapping[str, str] = NOTHING) -> None:
        self._cgroups, self._about = cgroups, dict(about)
        self._levels: tuple[_Level, ...] | None = None

    def read(self) -> HostPage:
        """Return throttling, memory and pressure; Refused where no cgroup of the engine is visible."""
        if self._levels is None:
            self._levels = self._find()
        if not self._levels:
            reason = "the engine's cgroup is not visible from here"
            raise Refused(reason, "run kvdoctor on the host, where /sys/fs/cgroup shows all containers")
        lines = Lines()
        for level in self._levels:
            _cpu(lines, level)
            _memory(lines, level)
            if level.unified:
                for resource in ("cpu", "memory", "io"):
                    text = files.optional(f"{level.folder}/{resource}.pressure")
                    write_pressure(lines, "host_cgroup_pressure_seconds_total", text, resource, level.labels)
        return lines.page()

    def documents(self) -> dict[str, str]:
        """Return what the recording should know of the family."""
        return self._about

    def close(self) -> None:
        """Hold nothing open."""

    def _find(self) -> tuple[_Level, ...]:
        found: dict[str, _Level] = {}
        for cgroup in self._cgroups:
            unified = not cgroup.controllers
            if not unified and not {"cpu", "memory"} & set(cgroup.controllers):
                continue
            for depth, folder in enumerate(levels(cgroup.folder)):
                label = _label(cgroup, depth)
                if depth == 0 or _limited(folder):
                    found.setdefault(folder, _Level(folder, (("cgroup", label),), unified, depth == 0))
        return tuple(found.values())[:MAX_LEVELS]


def _label(cgroup: Cgroup, depth: int) -> str:
    parts = [part for part in cgroup.path.split("/") if part]
    return "/" + "/".join(parts[: max(0, len(parts) - depth)])


def _limited(folder: str) -> bool:
    found = limits(folder)
    return found.cpus is not None or found.memory is not None


def _quota(folder: str) -> float | None:
    """CPUs that a quota allows; None for no quota. v2: cpu.max; v1: cpu.cfs_quota_us, -1 for none."""
    text = files.optional(f"{folder}/cpu.max")
    if text is not None:
        quota, _, period = text.strip().partition(" ")
        return float(quota) / float(period) if quota.isdigit() and period.isdigit() else None
    quota_us, period_us = (files.number(f"{folder}/cpu.cfs_{key}_us") for key in ("quota", "period"))
    return quota_us / period_us if quota_us is not None and quota_us > 0 and period_us else None


def _cpu(lines: Lines, level: _Level) -> None:
    """v2 counts throttled_usec, v1 throttled_time in nanoseconds; both summed over the CPUs that stood still."""
    text = files.optional(f"{level.folder}/cpu.stat")
    counts = files.pairs(text) if text is not None else {}
    if "nr_periods" not in counts:
        return
    lines.add("host_cgroup_quota_cpus", _quota(level.folder), *level.labels)
    lines.add("host_cgroup_periods_total", counts["nr_periods"], *level.labels)
    lines.add("host_cgroup_throttled_periods_total", counts.get("nr_throttled"), *level.labels)
    micro, nano = counts.get("throttled_usec"), counts.get("throttled_time")
    seconds = micro / 1e6 if micro is not None else nano / 1e9 if nano is not None else None
    lines.add("host_cgroup_throttled_seconds_total", seconds, *level.labels)


def _memory(lines: Lines, level: _Level) -> None:
    found = limits(level.folder)
    lines.add("host_cgroup_memory_bytes", found.memory_used, *level.labels)
    lines.add("host_cgroup_memory_limit_bytes", found.memory, *level.labels)
    text = files.optional(f"{level.folder}/memory.events")
    events = files.pairs(text) if text is not None else {}
    hits = events.get("max") if events else files.number(f"{level.folder}/memory.failcnt")
    lines.add("host_cgroup_memory_limit_hits_total", hits, *level.labels)
    lines.add("host_cgroup_oom_kills_total", events.get("oom_kill"), *level.labels)
