"""Whose processes are on a card, as far as NVML's list can be believed: it may be of another pid namespace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvdoctor.collectors import nvml_calls as calls
from kvdoctor.collectors.lines import GAP, Label
from kvdoctor.collectors.nvml_setting import Setting

HIGHEST_PID = 2**22
"""PID_MAX_LIMIT of the kernel: a larger number is no pid but a driver's list read with the wrong layout."""
BUSY_BYTES = 2.0**31
"""Memory in use from which somebody must be on a card; drivers alone keep up to about 1 GiB."""
SHARE_PIDS = "docker run --pid=host (Kubernetes: hostPID: true)"

Sample = tuple[str, float | None, tuple[Label, ...]]


def _gap(index: str, reason: str, cure: str) -> Sample:
    return GAP, 1.0, (("source", f"GPU {index}"), ("reason", reason), ("cure", cure))


class Tenants:
    """The processes on one card, with memory and time occupancy; `member` says who is of the family."""

    def __init__(self, nvml: Any, card: Any, index: str, members: frozenset[int], here: Setting) -> None:
        self._nvml, self._card, self._index, self._members, self._here = nvml, card, index, members, here
        self._since = 0

    def read(self, used: float | None) -> Iterable[Sample]:
        """Return the samples; NVMLError where the list is not to be had. `used` is the card's memory in use."""
        memory = calls.process_memory(self._nvml, self._card)
        known = {pid: size for pid, size in memory.items() if 0 < pid <= HIGHEST_PID}
        if len(known) < len(memory):
            why = "its list of processes holds numbers that are no pids: a fault of early R535 drivers"
            yield _gap(self._index, why, "update the NVIDIA driver")
        if not memory and used is not None and used >= BUSY_BYTES:
            yield self._unlisted(used)
        busy, self._since = calls.process_occupancy(self._nvml, self._card, self._since)
        for pid, size in known.items():
            who = (("pid", str(pid)), ("member", str(pid in self._members).lower()))
            yield "host_gpu_process", 1.0, who
            yield "host_gpu_process_bytes", size, who
            yield "host_gpu_process_occupancy_ratio", busy.get(pid, 0.0), who

    def holds_member(self) -> bool:
        """Say whether a process of the family is on the card."""
        return bool(self._members & calls.process_memory(self._nvml, self._card).keys())

    def _unlisted(self, used: float) -> Sample:
        if self._here.is_wsl:
            why = f"WSL lists no process, though {used / 2**30:.0f} GiB are in use"
            return _gap(self._index, why, "look at the Windows host's task manager")
        where = "outside this container's pid namespace" if self._here.is_inside else "hidden from here"
        why = f"no process is listed, though {used / 2**30:.0f} GiB are in use: processes exist {where}"
        return _gap(self._index, why, SHARE_PIDS)
