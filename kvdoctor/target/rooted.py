"""Opens files as a process sees them: through its root, never out of it, and only what its own user may read."""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice

from kvdoctor.errors import Unavailable
from kvdoctor.target.process import Ids

MOST_LINKS = 40
"""Symbolic links on one way, as many as the kernel follows."""
MOST_NAMES = 20000
"""Names of one folder that are looked at."""


@dataclass(frozen=True, slots=True)
class View:
    """A process's own tree of files."""

    root: str
    """Its /proc/PID/root."""
    ids: Ids
    """Its user: what that user may not read is not read for it."""


def read_file(view: View, path: str, limit: int) -> bytes:
    """Return a regular file of at most `limit` bytes; Unavailable says why not.

    Every link on the way is resolved inside the process's root: a link of its making leads nowhere else.
    """
    with _opened(view, path) as number:
        found = os.fstat(number)
        if not modes.S_ISREG(found.st_mode):
            raise Unavailable(f"{path} is not a regular file")
        if found.st_size > limit:
            raise Unavailable(f"{path} has {found.st_size} bytes, more than the {limit} that are read")
        if not _may(found, view.ids, modes.S_IRUSR):
            raise Unavailable(f"{path} may not be read by the process's own user, so it is not read for it")
        reader = os.open(f"/proc/self/fd/{number}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return _whole(reader, limit)
        finally:
            os.close(reader)


def names(view: View, path: str) -> tuple[str, ...]:
    """Return the names in a folder; Unavailable when there is none that the process's user may list."""
    with _opened(view, path) as number:
        found = os.fstat(number)
        if not modes.S_ISDIR(found.st_mode) or not _may(found, view.ids, modes.S_IRUSR):
            raise Unavailable(f"{path} is not a folder that may be listed")
        try:
            with os.scandir(f"/proc/self/fd/{number}") as entries:
                return tuple(entry.name for entry in islice(entries, MOST_NAMES))
        except OSError as error:
            raise Unavailable(f"{path}: {error.strerror or error}") from None


def exists(view: View, path: str) -> bool:
    """Say whether there is anything at a path."""
    try:
        with _opened(view, path):
            return True
    except Unavailable:
        return False


def _whole(reader: int, limit: int) -> bytes:
    pieces, size = [], 0
    while size <= limit and (piece := os.read(reader, limit + 1 - size)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)[:limit]


@contextmanager
def _opened(view: View, path: str) -> Iterator[int]:
    """Walk to a path, one name at a time, and give a handle (O_PATH) of what is there."""
    walk = _Walk(view.ids)
    try:
        walk.stack.append(os.open(view.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        walk.go(path)
        yield walk.stack[-1]
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror or error}") from None
    except ValueError:
        raise Unavailable("its path cannot be") from None
    finally:
        walk.back(0)


class _Walk:
    """A way from the process's root, which is the first handle, to where we stand, which is the last."""

    def __init__(self, ids: Ids) -> None:
        self.ids = ids
        self.stack: list[int] = []
        self.links = 0

    def go(self, path: str) -> None:
        """Go along a path from where we stand, or from the root."""
        if path.startswith("/"):
            self.back(1)
        for name in path.split("/"):
            if name == "..":
                self.back(max(1, len(self.stack) - 1))
            elif name not in ("", "."):
                self._step(name)

    def back(self, depth: int) -> None:
        """Close the handles above a depth."""
        while len(self.stack) > depth:
            with suppress(OSError):
                os.close(self.stack.pop())

    def _step(self, name: str) -> None:
        if not _may(os.fstat(self.stack[-1]), self.ids, modes.S_IXUSR):
            raise Unavailable("the way to it is closed to the process's own user")
        number = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.stack[-1])
        if not modes.S_ISLNK(os.fstat(number).st_mode):
            self.stack.append(number)
            return
        try:
            target = os.readlink("", dir_fd=number)
        finally:
            os.close(number)
        self.links += 1
        if self.links > MOST_LINKS:
            raise Unavailable("too many symbolic links")
        self.go(target)


def _may(found: os.stat_result, ids: Ids, bit: int) -> bool:
    """Apply a mode bit (S_IRUSR, S_IXUSR) as the kernel does for a user without privileges; root may all."""
    if ids.uid == 0:
        return True
    if ids.uid == found.st_uid:
        return bool(found.st_mode & bit)
    if found.st_gid == ids.gid or found.st_gid in ids.groups:
        return bool(found.st_mode & bit >> 3)
    return bool(found.st_mode & bit >> 6)
