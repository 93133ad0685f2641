"""A CPU quota for the server's processes: a cgroup of our own, where one can be made."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from kvdoctor.errors import KvdoctorError

ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000
_GONE_S = 5.0
_CURE = "run as root, outside a container or in one that may write /sys/fs/cgroup"


@contextlib.contextmanager
def cpu_quota(cpus: float, *, note: Path | None = None) -> Iterator[Path]:
    """A new cgroup that may use `cpus` CPUs; removed at the end. Raises KvdoctorError where none can be made.

    `note` is a file for its path, written before it is made: whoever clears up after us finds it there.
    """
    folder = _parent() / f"kvlab-{os.getpid()}"
    try:
        if note is not None:
            note.write_text(str(folder), encoding="utf-8")
        folder.mkdir()
    except OSError as error:
        raise KvdoctorError(f"no CPU quota can be set here: {error.strerror}", _CURE) from error
    try:
        _limit(folder, round(cpus * _PERIOD_US))
        yield folder
    finally:
        _remove(folder)


def move(folder: Path, pid: int) -> None:
    """Put a process and its descendants into a cgroup."""
    for each in (pid, *_descendants(pid)):
        (folder / "cgroup.procs").write_text(str(each), encoding="ascii")


def available() -> bool:
    """Whether a quota can be set here."""
    try:
        with cpu_quota(1.0):
            return True
    except KvdoctorError:
        return False


def _parent() -> Path:
    """The cgroup of this process that rules over CPUs: v1's own hierarchy, else the unified one."""
    unified = ROOT
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return unified / controllers / path.lstrip("/")
        if not controllers:
            unified = unified / path.lstrip("/")
    return unified


def _limit(folder: Path, quota_us: int) -> None:
    try:
        if (folder / "cpu.cfs_quota_us").exists():
            (folder / "cpu.cfs_period_us").write_text(str(_PERIOD_US), encoding="ascii")
            (folder / "cpu.cfs_quota_us").write_text(str(quota_us), encoding="ascii")
        elif (folder / "cpu.max").exists():
            (folder / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}", encoding="ascii")
        else:
            raise KvdoctorError("no CPU quota can be set here: the cgroup has no CPU controller", _CURE)
    except OSError as error:
        raise KvdoctorError(f"no CPU quota can be set here: {error.strerror}", _CURE) from error


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            found += (int(child), *_descendants(int(child)))
    return found


def leave_and_remove(folder: Path) -> bool:
    """Remove a cgroup that nobody owns any longer, and that we may be in ourselves; say whether it is gone."""
    with contextlib.suppress(OSError):
        if str(os.getpid()) in (folder / "cgroup.procs").read_text(encoding="ascii").split():
            (folder.parent / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    return _remove(folder)


def _remove(folder: Path) -> bool:
    """Remove the cgroup as soon as its processes have ended; say whether they have in time."""
    end = time.monotonic() + _GONE_S
    while True:
        try:
            folder.rmdir()
            return True
        except FileNotFoundError:
            return True
        except OSError:
            if time.monotonic() > end:
                return False
        time.sleep(0.05)
