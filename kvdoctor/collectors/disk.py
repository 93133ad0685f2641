"""The disks that the model and the KV files lie on: bytes, operations, time in flight, time busy."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from kvdoctor.collectors import files
from kvdoctor.collectors.lines import HostPage, Lines
from kvdoctor.errors import Refused
from kvdoctor.target.family import Mount

SECTOR = 512
"""Bytes of a sector in /proc/diskstats, whatever the disk's own sectors are."""
MAX_DISKS = 64
REMOTE = frozenset(("nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre", "9p", "virtiofs", "beegfs"))
IN_MEMORY = frozenset(("tmpfs", "ramfs", "hugetlbfs"))
_SKIPPED = ("loop", "ram", "zram", "fd", "sr")


class Disks:
    """Whole disks of the host with what the engine keeps on them. /proc/diskstats is the same in every container."""

    name, kind, role = "disks", "host", None

    def __init__(
        self,
        mounts: Sequence[Mount],
        *,
        proc: str = "/proc",
        sys: str = "/sys",
        about: Mapping[str, str] | None = None,
    ) -> None:
        self._mounts, self._proc, self._sys, self._about = mounts, proc, sys, dict(about or {})

    def read(self) -> HostPage:
        """Return the counters of every disk that was ever used; Refused where /proc/diskstats is missing."""
        lines = Lines()
        rows = _rows(files.required(f"{self._proc}/diskstats", files.TABLE_LIMIT))
        placed = {mount: self._device(mount, rows) for mount in self._mounts}
        for mount, device in placed.items():
            self._mount(lines, mount, device)
        wanted = set(filter(None, placed.values()))
        chosen = [name for name, row in rows.items() if name in wanted or self._whole(name, row)]
        if not chosen:
            raise Refused("no disk has been used since the start, as far as /proc/diskstats tells")
        for name in sorted(chosen, key=lambda each: each not in wanted)[:MAX_DISKS]:
            _write(lines, name, rows[name])
        return lines.page()

    def documents(self) -> dict[str, str]:
        """Return what the recording should know of the family."""
        return self._about

    def close(self) -> None:
        """Hold nothing open."""

    def _mount(self, lines: Lines, mount: Mount, device: str | None) -> None:
        lines.add(
            "host_mount",
            1.0,
            ("purpose", mount.purpose),
            ("point", mount.point),
            ("fstype", mount.fstype),
            ("disk", device or ""),
        )
        if device is None and mount.fstype not in IN_MEMORY:
            where = "on another host" if mount.fstype in REMOTE else "on a layered file system"
            reason = f"the {mount.purpose} files lie {where} ({mount.fstype}); its disk is not seen"
            cure = "look at the file server" if mount.fstype in REMOTE else "keep them on a mounted volume"
            lines.gap("disks", reason, cure)

    def _device(self, mount: Mount, rows: Mapping[str, Sequence[int]]) -> str | None:
        """Return the whole disk below a mount: by its number, else by its source's name (btrfs)."""
        link = f"{self._sys}/dev/block/{mount.device}"
        names = [os.path.basename(os.path.realpath(link))] if os.path.exists(link) else []
        names += [os.path.basename(mount.source)] if mount.source.startswith("/dev/") else []
        for name in names:
            disk = self._parent(name)
            if disk in rows:
                return disk
        return None

    def _parent(self, name: str) -> str:
        """Return the disk that a partition is of; anything else is itself."""
        folder = os.path.realpath(f"{self._sys}/class/block/{name}")
        if os.path.exists(f"{folder}/partition"):
            return os.path.basename(os.path.dirname(folder))
        return name

    def _whole(self, name: str, row: Sequence[int]) -> bool:
        if name.startswith(_SKIPPED) or not any(row[:4]):
            return False
        return not os.path.exists(f"{self._sys}/class/block/{name}/partition")


def _rows(text: str) -> dict[str, tuple[int, ...]]:
    """Read /proc/diskstats: name to its numbers (11 of them since Linux 2.6, up to 17 now)."""
    rows = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 14 and all(word.isdigit() for word in words[3:14]):
            rows[words[2]] = tuple(int(word) for word in words[3:14])
    return rows


def _write(lines: Lines, name: str, row: Sequence[int]) -> None:
    reads, _, read_sectors, read_ms, writes, _, written, write_ms, _, busy_ms, queued_ms = row
    disk = ("disk", name)
    for operation, number, sectors, spent in (
        ("read", reads, read_sectors, read_ms),
        ("write", writes, written, write_ms),
    ):
        label = ("operation", operation)
        lines.add("host_disk_operations_total", float(number), disk, label)
        lines.add("host_disk_bytes_total", float(sectors) * SECTOR, disk, label)
        lines.add("host_disk_in_flight_seconds_total", spent / 1e3, disk, label)
    lines.add("host_disk_busy_seconds_total", busy_ms / 1e3, disk)
    lines.add("host_disk_queue_seconds_total", queued_ms / 1e3, disk)
