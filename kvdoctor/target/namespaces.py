"""Whether a process lives in other namespaces than we do, and the line that takes us there."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvdoctor.target.process import Proc
from kvdoctor.target.program import as_root

KINDS = ("pid", "net", "mnt", "user")
FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h: any other inode is a container's."""

_CONTAINER = re.compile(r"(?:^|[/:-])(?P<id>[0-9a-f]{64})(?:\.scope)?(?:/|$)")
_POD = re.compile(r"pod(?P<uid>[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Where one process lives, seen from here."""

    pid: int
    differ: frozenset[str]
    """The kinds in which it is elsewhere."""
    unknown: frozenset[str]
    """The kinds that may not be read."""
    container: str = ""
    """The container's id, 12 digits; empty where its cgroup names none."""
    pod: str = ""
    """The uid of its Kubernetes pod."""

    def words(self) -> str:
        """Say it in a few words, empty when it lives where we do."""
        parts = [f"container {self.container}"] if self.container else []
        parts += [f"pod {self.pod}"] if self.pod else []
        names = {"pid": "pid", "net": "network", "mnt": "mount", "user": "user"}
        own = [names[kind] for kind in KINDS if kind in self.differ]
        parts += [f"own {', '.join(own)} namespace" + ("s" if len(own) > 1 else "")] if own else []
        return "; ".join(parts)


def namespaces(proc: Proc, pid: int) -> Namespaces:
    """Compare a process's namespaces with ours. Nothing is entered."""
    theirs = {kind: proc.namespace(pid, kind) for kind in KINDS}
    ours = {kind: proc.namespace("self", kind) for kind in KINDS}
    container, pod = containers((proc.read(pid, "cgroup") or b"").decode("utf-8", "replace"))
    return Namespaces(
        pid=pid,
        differ=frozenset(k for k in KINDS if theirs[k] and ours[k] and theirs[k] != ours[k]),
        unknown=frozenset(k for k in KINDS if theirs[k] is None or ours[k] is None),
        container=container,
        pod=pod,
    )


def containers(cgroup: str) -> tuple[str, str]:
    """Return a container's id and a pod's uid from the text of `/proc/PID/cgroup`, empty where it names none."""
    container, pod = _CONTAINER.search(cgroup.replace("\n", "/")), _POD.search(cgroup)
    return (
        container["id"][:12] if container else "",
        pod["uid"].replace("_", "-") if pod else "",
    )


def enter_network(place: Namespaces, command: str, *, same_user: bool) -> str:
    """Return the line that runs a command in the process's network namespace and in our own file system.

    A namespace below a user namespace of our own is entered without root.
    """
    if "user" in place.differ and same_user:
        return f"nsenter --target {place.pid} --user --preserve-credentials --net {command}"
    return as_root(f"nsenter --target {place.pid} --net {command}")


def in_container(proc: Proc) -> bool:
    """Say whether our own list of processes is that of a container: then others exist that we cannot see."""
    own = proc.namespace("self", "pid")
    return own is not None and own != FIRST_PID_NAMESPACE
