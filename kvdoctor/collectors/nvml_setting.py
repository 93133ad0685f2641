"""Where we are, as far as it decides what a GPU's driver tells: a container, WSL, who may profile."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from kvdoctor.collectors import files
from kvdoctor.target.namespaces import in_container
from kvdoctor.target.process import Proc


@dataclass(frozen=True, slots=True)
class Setting:
    """The circumstances of this process."""

    is_inside: bool = False
    """In a container's own pid namespace: processes outside it are not listed, or under strange numbers."""
    is_wsl: bool = False
    lacks_utility: bool = False
    """The container was given a driver without NVML in it."""
    admin_only: bool = False
    """The driver keeps the profiling counters from before Hopper to administrators."""


def setting(
    *, proc: str = "/proc", dev: str = "/dev", environment: Mapping[str, str] | None = None
) -> Setting:
    """Look at ourselves; nothing is changed."""
    given = os.environ if environment is None else environment
    capabilities = given.get("NVIDIA_DRIVER_CAPABILITIES", "")
    release = files.optional(f"{proc}/sys/kernel/osrelease") or ""
    return Setting(
        is_inside=_several_pids(proc) or in_container(Proc(proc)),
        is_wsl="microsoft" in release.lower() or os.path.exists(f"{dev}/dxg"),
        lacks_utility=bool(capabilities) and not {"utility", "all"} & set(capabilities.split(",")),
        admin_only=_parameter(proc, "RmProfilingAdminOnly") == "1",
    )


def _several_pids(proc: str) -> bool:
    """Say whether we have a number in more than one pid namespace."""
    lines = (files.optional(f"{proc}/self/status") or "").splitlines()
    return any(line.startswith("NSpid:") and len(line.split()) > 2 for line in lines)


def _parameter(proc: str, name: str) -> str:
    """Return a parameter of the kernel module as it was loaded, empty where the driver does not say."""
    for line in (files.optional(f"{proc}/driver/nvidia/params") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""
