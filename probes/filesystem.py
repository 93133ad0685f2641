"""Which file system a folder is on, how full it is, and whether a file's bytes are really written."""

from __future__ import annotations

import fcntl
import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kvdoctor.errors import Unavailable

FULLEST = 0.9
"""Share of a file system in use above which nothing is written to it."""
NO_DIRECT = "O_DIRECT is refused here"
SPARE = 10
"""Free bytes that must be there for each byte written."""
MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
LAYERED = ("overlay", "aufs")
REMOTE = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "ceph",
    "lustre",
    "beegfs",
    "glusterfs",
    "9p",
    "gpfs",
    "wekafs",
    "afs",
)
FIEMAP_IOCTL, FIEMAP_HEADER, FIEMAP_EXTENT = 0xC020660B, "=QQLLLL", "=QQQQQLLLL"
FIEMAP_UNWRITTEN, FIEMAP_LAST = 0x800, 0x1
FIEMAP_SYNC, MAX_EXTENTS = 0x1, 512


@dataclass(frozen=True, slots=True)
class FileSystem:
    """What /proc/self/mountinfo says of the mount that holds a folder."""

    kind: str
    mount: str
    device: str
    """`major:minor`."""

    @property
    def is_memory(self) -> bool:
        """Say whether its files are memory and no disk takes part."""
        return self.kind in MEMORY

    @property
    def says(self) -> str:
        """Say what a rate on it means where that is not a local disk; empty where it is."""
        if self.is_memory:
            return f"{self.kind} is memory: no disk takes part"
        if self.kind in LAYERED:
            return (
                f"{self.kind} is a container's layered file system: the KV tier belongs on a mounted volume"
            )
        if self.kind in REMOTE or self.kind.startswith("fuse"):
            return f"{self.kind} is reached over a network or a user process: its rate is not a disk's"
        return ""


def file_system(folder: str, mountinfo: str | None = None) -> FileSystem:
    """Return the file system of a folder, by the longest mount point above it."""
    text = mountinfo if mountinfo is not None else Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    found, longest = FileSystem("unknown", "/", ""), -1
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        mount = fields[4].encode().decode("unicode_escape")
        inside = folder == mount or folder.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= longest:
            found, longest = FileSystem(after.split()[0], mount, fields[2]), len(mount)
    return found


def require_room(folder: str, size: int, stat: os.statvfs_result | None = None) -> None:
    """Raise Unavailable where a file of `size` bytes would fill the file system too far."""
    about = stat or os.statvfs(folder)
    if about.f_flag & os.ST_RDONLY:
        raise Unavailable(f"{folder} is on a file system that is mounted read-only", "--path of another one")
    free, blocks = about.f_bavail * about.f_frsize, about.f_blocks - about.f_bfree + about.f_bavail
    used = 1 - about.f_bavail / blocks if blocks else 1.0
    if used > FULLEST:
        raise Unavailable(
            f"the file system of {folder} is {100 * used:.0f}% full", "make room, or --path of another"
        )
    if free < SPARE * size:
        need = f"{SPARE * size / 2**20:,.0f} MiB"
        raise Unavailable(
            f"{folder} has {free / 2**20:,.0f} MiB free, and a probe of {size / 2**20:,.0f} MiB wants {need}",
            "make room, --size less (64 MiB at least), or --path of another",
        )


def open_unlinked(folder: str, flags: int = 0) -> tuple[int, str]:
    """Open a new file that has no name, or none any more; return it and how that was done.

    Raises Unavailable where the folder cannot be written.
    """
    access = os.O_RDWR | os.O_CLOEXEC | flags
    try:
        if hasattr(os, "O_TMPFILE"):
            with suppress(IsADirectoryError, NotImplementedError):
                return os.open(folder, access | os.O_TMPFILE, 0o600), "O_TMPFILE"
    except OSError as error:
        if error.errno not in _NO_TMPFILE:
            raise _closed(folder, error) from error
    name = os.path.join(folder, f".kvdoctor-{os.getpid()}-{os.urandom(8).hex()}")
    try:
        fd = os.open(name, access | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise _closed(folder, error) from error
    os.unlink(name)
    return fd, "unlinked at once"


# EOPNOTSUPP, ENOENT and EISDIR are how file systems say that they have no O_TMPFILE; EINVAL, that a flag is refused.
_NO_TMPFILE = (95, 2, 21, 22)


def _closed(folder: str, error: OSError) -> Unavailable:
    cure = (
        "--path of a folder that you may write" if error.errno in (1, 13, 30) else "--path of another folder"
    )
    if error.errno == 22:
        return Unavailable(NO_DIRECT)
    return Unavailable(f"no file can be made in {folder}: {error.strerror}", cure)


def written_bytes(fd: int, size: int) -> int:
    """Return how many of the first `size` bytes are really written: no hole, and not only preallocated.

    SEEK_HOLE shows both on ext4 and XFS; where it is a stub that always answers the end, FIEMAP tells.
    """
    try:
        hole = os.lseek(fd, 0, os.SEEK_HOLE)
    except OSError:
        hole = size
    unwritten = _unwritten(fd, min(hole, size))
    return max(0, min(hole, size) - unwritten)


def _unwritten(fd: int, size: int) -> int:
    """Return the bytes of extents that are allocated and never written; 0 where FIEMAP is not known."""
    total = at = 0
    while at < size:
        buffer = bytearray(struct.pack(FIEMAP_HEADER, at, size - at, FIEMAP_SYNC, 0, MAX_EXTENTS, 0))
        buffer += bytes(struct.calcsize(FIEMAP_EXTENT) * MAX_EXTENTS)
        try:
            fcntl.ioctl(fd, FIEMAP_IOCTL, buffer)
        except OSError:
            return total
        count = struct.unpack_from(FIEMAP_HEADER, buffer)[3]
        for number in range(count):
            offset = struct.calcsize(FIEMAP_HEADER) + number * struct.calcsize(FIEMAP_EXTENT)
            start, _, length, _, _, flags, *_ = struct.unpack_from(FIEMAP_EXTENT, buffer, offset)
            total += length if flags & FIEMAP_UNWRITTEN else 0
            at = start + length
            if flags & FIEMAP_LAST:
                return total
        if not count:
            return total
    return total
