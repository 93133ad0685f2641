"""The network as the engine's own namespace shows it: bytes, drops, retransmissions, link speed, InfiniBand."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping

from kvdoctor.collectors import files
from kvdoctor.collectors.lines import HostPage, Label, Lines

WORD = 4
"""Bytes of a word: InfiniBand's data counters count words."""
MAX_INTERFACES = 64
MBIT = 1e6 / 8
GBIT = 1e9 / 8
_COLUMNS = {0: "receive", 8: "transmit"}
_ERRORS = ("symbol_error", "link_downed", "port_rcv_errors", "port_xmit_discards")
_CONGESTION = (
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "np_cnp_sent",
)


class Network:
    """Interfaces and TCP of the namespace that a process lives in, and the host's InfiniBand ports."""

    name, kind, role = "network", "host", None

    def __init__(
        self, pid: int, *, proc: str = "/proc", sys: str = "/sys", about: Mapping[str, str] | None = None
    ) -> None:
        self._pid, self._proc, self._sys, self._about = pid, proc, sys, dict(about or {})

    def read(self) -> HostPage:
        """Return the counters of the namespace; Unavailable when the process has ended."""
        lines = Lines()
        table = files.required(f"{self._proc}/{self._pid}/net/dev", files.TABLE_LIMIT)
        ours = self._same_namespace()
        for name, numbers in list(_interfaces(table).items())[:MAX_INTERFACES]:
            _interface(lines, name, numbers)
            if ours:
                speed = files.number(f"{self._sys}/class/net/{name}/speed")
                label = ("interface", name)
                lines.add("host_network_speed_bytes", speed * MBIT if speed and speed > 0 else None, label)
        if not ours:
            cure = f"nsenter -t {self._pid} -n ethtool eth0"
            lines.gap(
                "network", "the engine's network namespace is not ours: its link speed is not seen", cure
            )
        self._tcp(lines)
        for port in sorted(glob.glob(f"{self._sys}/class/infiniband/*/ports/*"))[:MAX_INTERFACES]:
            _infiniband(lines, port)
        return lines.page()

    def documents(self) -> dict[str, str]:
        """Return what the recording should know of the family."""
        return self._about

    def close(self) -> None:
        """Hold nothing open."""

    def _same_namespace(self) -> bool:
        """Say whether /sys shows the process's interfaces; where its namespace may not be read, assume so."""
        try:
            theirs = os.readlink(f"{self._proc}/{self._pid}/ns/net")
            return theirs == os.readlink(f"{self._proc}/self/ns/net")
        except OSError:
            return True

    def _tcp(self, lines: Lines) -> None:
        """Segments sent and sent again, from the two Tcp lines of net/snmp: names, then numbers."""
        text = files.optional(f"{self._proc}/{self._pid}/net/snmp") or ""
        rows = [line.split()[1:] for line in text.splitlines() if line.startswith("Tcp:")]
        counts = dict(zip(*rows, strict=False)) if len(rows) == 2 else {}
        for key, name in (("OutSegs", "segments"), ("RetransSegs", "retransmits")):
            value = counts.get(key, "")
            lines.add(f"host_tcp_{name}_total", float(value) if value.isdigit() else None)


def _interfaces(table: str) -> dict[str, list[int]]:
    found = {}
    for line in table.splitlines():
        name, colon, rest = line.rpartition(":")
        numbers = rest.split()
        if colon and len(numbers) >= 16 and all(number.isdigit() for number in numbers):
            found[name.strip()] = [int(number) for number in numbers]
    return found


def _interface(lines: Lines, name: str, numbers: list[int]) -> None:
    label = ("interface", name)
    for start, direction in _COLUMNS.items():
        way = ("direction", direction)
        lines.add("host_network_bytes_total", float(numbers[start]), label, way)
        lines.add("host_network_errors_total", float(numbers[start + 2]), label, way)
        lines.add("host_network_drops_total", float(numbers[start + 3]), label, way)


def _infiniband(lines: Lines, port: str) -> None:
    parts = port.split("/")
    labels: tuple[Label, ...] = (("device", parts[-3]), ("port", parts[-1]))
    for key, direction in (("port_rcv_data", "receive"), ("port_xmit_data", "transmit")):
        words = files.number(f"{port}/counters/{key}")
        size = words * WORD if words is not None else None
        lines.add("host_infiniband_bytes_total", size, *labels, ("direction", direction))
    lines.add("host_infiniband_wait_ticks_total", files.number(f"{port}/counters/port_xmit_wait"), *labels)
    for folder, names in (("counters", _ERRORS), ("hw_counters", _CONGESTION)):
        for name in names:
            value = files.number(f"{port}/{folder}/{name}")
            lines.add("host_infiniband_errors_total", value, *labels, ("kind", name))
    rate = files.number(f"{port}/rate")  # "400 Gb/sec (4X NDR)"
    lines.add("host_infiniband_speed_bytes", rate * GBIT if rate is not None else None, *labels)
    state = (files.optional(f"{port}/state") or "").partition(":")[2].strip()  # "4: ACTIVE"
    lines.add("host_infiniband_active", float(state == "ACTIVE") if state else None, *labels)
