"""How pressed the whole machine is: pressure stall information, busy CPUs, pages swapped in."""

from __future__ import annotations

from collections.abc import Mapping

from kvdoctor.collectors import files
from kvdoctor.collectors.lines import HostPage, Label, Lines
from kvdoctor.errors import Unavailable

STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""The columns of a CPU's line in /proc/stat, in clock ticks."""
_CURES = {
    "missing": "a kernel of 4.20 or later with CONFIG_PSI",
    "off": "boot the host with psi=1",
}


def write_pressure(
    lines: Lines, name: str, text: str | None, resource: str, labels: tuple[Label, ...] = ()
) -> None:
    """Add the `total=` microseconds of a pressure file as seconds; None adds nothing."""
    for line in (text or "").splitlines():
        kind, _, rest = line.partition(" ")
        total = rest.rpartition("total=")[2].strip()
        if kind in ("some", "full") and total.isdigit():
            lines.add(name, int(total) / 1e6, *labels, ("resource", resource), ("kind", kind))


class Machine:
    """The machine around the family, read once a second; `cpus` are those that the family may run on."""

    name, kind, role = "machine", "host", None

    def __init__(
        self, pid: int, *, proc: str = "/proc", tick: int = 100, about: Mapping[str, str] | None = None
    ) -> None:
        self._pid, self._proc, self._tick, self._about = pid, proc, tick, dict(about or {})

    def read(self) -> HostPage:
        """Return pressure, CPU seconds by state over the family's CPUs, and pages swapped in."""
        lines = Lines()
        self._cpu(lines)
        for resource in ("cpu", "memory", "io"):
            self._pressure(lines, resource)
        counts = files.pairs(files.optional(f"{self._proc}/vmstat") or "")
        lines.add("host_machine_swap_in_pages_total", counts.get("pswpin"))
        lines.add("host_machine_swap_out_pages_total", counts.get("pswpout"))
        return lines.page()

    def documents(self) -> dict[str, str]:
        """Return what the recording should know of the family."""
        return self._about

    def close(self) -> None:
        """Hold nothing open."""

    def _pressure(self, lines: Lines, resource: str) -> None:
        try:
            text = files.read(f"{self._proc}/pressure/{resource}")
        except FileNotFoundError:
            lines.gap("pressure", "this kernel has no pressure stall information", _CURES["missing"])
        except OSError:
            lines.gap("pressure", "pressure stall information is switched off", _CURES["off"])
        else:
            write_pressure(lines, "host_machine_pressure_seconds_total", text, resource)

    def _cpu(self, lines: Lines) -> None:
        """Sum the CPUs that the family may run on; user time includes guests, which are not added again."""
        allowed = self._allowed()
        sums = dict.fromkeys(STATES, 0.0)
        number = 0
        for line in files.required(f"{self._proc}/stat", files.TABLE_LIMIT).splitlines():
            words = line.split()
            if not words or not words[0].startswith("cpu") or not words[0][3:].isdigit():
                continue
            if allowed and int(words[0][3:]) not in allowed:
                continue
            number += 1
            for state, ticks in zip(STATES, words[1:], strict=False):
                sums[state] += int(ticks) / self._tick
        if not number:
            raise Unavailable("/proc/stat names no CPU that the engine may run on")
        lines.add("host_machine_cpus", float(number))
        for state, seconds in sums.items():
            lines.add("host_machine_cpu_seconds_total", seconds, ("state", state))

    def _allowed(self) -> frozenset[int]:
        status = files.optional(f"{self._proc}/{self._pid}/status") or ""
        return files.cpu_list(status.partition("Cpus_allowed_list:\t")[2].partition("\n")[0])
