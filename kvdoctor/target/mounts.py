"""Which file system a folder of an engine lies on, and which cgroups a process is in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from kvdoctor.secrets import clean, mask_url
from kvdoctor.target.family import Cgroup, Mount
from kvdoctor.target.process import Proc

CGROUP_ROOT = Path("/sys/fs/cgroup")
_OCTAL = re.compile(r"\\([0-7]{3})")
_SOURCE = 200


def mount_of(proc: Proc, pid: int, path: str, purpose: str) -> Mount | None:
    """Return the mount that a path of a process lies on, by the longest mount point that holds it."""
    best: Mount | None = None
    for line in (proc.read(pid, "mountinfo") or b"").decode("utf-8", "replace").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) < 5 or len(kind) < 2:
            continue
        point = _plain(fields[4])
        # of two mounts on one point the later one covers the other
        if _holds(point, path) and (best is None or len(point) >= len(best.point)):
            source = mask_url(clean(_plain(kind[1])))[:_SOURCE]
            best = Mount(purpose, path, point, fields[2], kind[0], source)
    return best


def _plain(text: str) -> str:
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text)


def _holds(point: str, path: str) -> bool:
    return point == "/" or path == point or path.startswith(point.rstrip("/") + "/")


def cgroups_of(proc: Proc, pids: Iterable[int], root: Path = CGROUP_ROOT) -> tuple[Cgroup, ...]:
    """Return every cgroup that one of these processes is in, each once."""
    found: dict[tuple[tuple[str, ...], str], Cgroup] = {}
    for pid in pids:
        for line in (proc.read(pid, "cgroup") or b"").decode("utf-8", "replace").splitlines():
            number, _, rest = line.partition(":")
            names, _, path = rest.partition(":")
            if number.isdigit() and path:
                controllers = tuple(name for name in names.split(",") if name)
                key = (controllers, path)
                if key not in found:
                    found[key] = Cgroup(controllers, path, _folder(root, controllers, path))
    return tuple(found.values())


def _folder(root: Path, controllers: tuple[str, ...], path: str) -> str:
    """Return the folder of a cgroup where it is visible from here: v2 at the top or under `unified`."""
    inside = path.strip("/")
    if ".." in inside.split("/"):
        return ""
    named = [",".join(controllers), *controllers] if controllers else ["", "unified"]
    for name in named:
        folder = root / name.removeprefix("name=") / inside
        marker = "cgroup.procs"
        if (folder / marker).exists():
            return str(folder)
    return ""
