"""Folders of runs: each is locked by the run that it belongs to, so that what a killed one left can be cleared."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kvdoctor.lab import quota

PREFIX = "kvlab-"
OWNER = "owner"
"""The file in a folder that its run holds locked. The kernel unlocks it when the run ends, however it ends."""
CGROUP = "cgroup"
"""The file in a folder that holds the path of the run's cgroup, where it has one."""
_UNLOCKED = ".owner"


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """A new folder for a run, gone with it. One that no lock can be set in is never taken for a dead run's."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    held = os.open(folder / _UNLOCKED, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (folder / _UNLOCKED).rename(folder / OWNER)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def sweep() -> None:
    """Clear what dead runs of this user left; leave what a run still holds, and all that no run has marked."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if _is_own_folder(folder):
            with _taken(folder / OWNER) as is_dead:
                if is_dead and _without_cgroup(folder / CGROUP):
                    shutil.rmtree(folder, ignore_errors=True)


def _is_own_folder(path: Path) -> bool:
    """Say whether this is a folder of this user's, and no link to one."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


@contextlib.contextmanager
def _taken(owner: Path) -> Iterator[bool]:
    """Try to lock a run's mark; say whether nobody holds it, and hold it for the while."""
    try:
        mark = os.open(owner, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_dead = os.path.samestat(os.fstat(mark), os.lstat(owner))  # else another has cleared it by now
    except OSError:
        is_dead = False
    try:
        yield is_dead
    finally:
        os.close(mark)


def _without_cgroup(note: Path) -> bool:
    """Remove the cgroup of a dead run; say whether it is gone."""
    try:
        cgroup = Path(note.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return True
    except (OSError, ValueError):  # not what a run writes: nothing is known of a cgroup
        return True
    if "\0" in str(cgroup):
        return True
    is_ours = cgroup.name.startswith(PREFIX) and quota.ROOT in cgroup.parents and ".." not in cgroup.parts
    return not is_ours or not _is_own_folder(cgroup) or quota.leave_and_remove(cgroup)
