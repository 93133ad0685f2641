"""Where blocks lie beyond the pool: host memory, and a file read past the page cache. Payloads are plain bytes."""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from typing import Protocol

# O_DIRECT wants offsets, sizes and addresses in multiples of the logical block; 4 KiB suits every device.
_ALIGNMENT = 4096
Key = bytes


class Store(Protocol):
    """Holds payloads of one size by key. Capacity and order are the tier's business, not the store's."""

    name: str

    def write(self, key: Key, data: memoryview) -> bool:
        """Keep a copy of `data`; False where there is no room, which only a store shared with others may say."""

    def read(self, key: Key, into: memoryview) -> bool:
        """Fill `into`; False where the key is not there."""

    def drop(self, key: Key) -> None:
        """Forget a key."""

    def close(self) -> None:
        """Give everything back."""


class HostStore:
    """Blocks in ordinary memory of this process."""

    def __init__(self) -> None:
        self.name = "host"
        self._kept: dict[Key, bytearray] = {}

    def write(self, key: Key, data: memoryview) -> bool:
        """Copy into memory."""
        self._kept[key] = bytearray(data)
        return True

    def read(self, key: Key, into: memoryview) -> bool:
        """Copy out of memory."""
        found = self._kept.get(key)
        if found is None:
            return False
        into[:] = found
        return True

    def drop(self, key: Key) -> None:
        """Free the copy."""
        self._kept.pop(key, None)

    def close(self) -> None:
        """Free all copies."""
        self._kept.clear()


class FileStore:
    """Blocks in one file that has no name, in slots; O_DIRECT where the file system has it (`direct` says)."""

    def __init__(self, folder: str | None = None, *, block_bytes: int) -> None:
        """A file in `folder`, the temporary folder by default; it is gone when the process is."""
        self.name = "file"
        self.slot_bytes = -(-block_bytes // _ALIGNMENT) * _ALIGNMENT
        self._block_bytes = block_bytes
        self._file, self.direct = _nameless(folder or tempfile.gettempdir())
        # Anonymous maps are page aligned, as O_DIRECT demands of its buffers.
        self._buffer = mmap.mmap(-1, self.slot_bytes)
        self._slots: dict[Key, int] = {}
        self._empty: list[int] = []

    def write(self, key: Key, data: memoryview) -> bool:
        """Write a slot."""
        slot = self._slots.get(key)
        if slot is None:
            slot = self._empty.pop() if self._empty else len(self._slots)
        self._buffer[: self._block_bytes] = data.tobytes()
        os.pwritev(self._file, [self._buffer], slot * self.slot_bytes)
        self._slots[key] = slot
        return True

    def read(self, key: Key, into: memoryview) -> bool:
        """Read a slot."""
        slot = self._slots.get(key)
        if slot is None:
            return False
        os.preadv(self._file, [self._buffer], slot * self.slot_bytes)
        into[:] = memoryview(self._buffer)[: self._block_bytes]
        return True

    def drop(self, key: Key) -> None:
        """Free the slot."""
        slot = self._slots.pop(key, None)
        if slot is not None:
            self._empty.append(slot)

    def close(self) -> None:
        """Close the file, which removes it."""
        os.close(self._file)
        self._buffer.close()


def _nameless(folder: str) -> tuple[int, bool]:
    """An open file without a name, and whether it bypasses the page cache."""
    direct = getattr(os, "O_DIRECT", 0)
    if direct:
        try:
            return _open(folder, direct), True
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
    return _open(folder, 0), False


def _open(folder: str, extra: int) -> int:
    """Create by O_TMPFILE, or by a name that is removed at once."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | extra, 0o600)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR):
            raise
    handle, path = tempfile.mkstemp(dir=folder)
    os.close(handle)
    try:
        return os.open(path, os.O_RDWR | extra)
    finally:
        os.unlink(path)
