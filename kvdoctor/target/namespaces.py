"""Whether a process lives in other namespaces than we do, and the line that takes us there."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvdoctor.target.process import Proc
from kvdoctor.target.program import as_root
from kvdoctor.target.sockets import shares_network

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
    elsewhere = {kind: _elsewhere(proc, pid, kind) for kind in KINDS}
    container, pod = containers((proc.read(pid, "cgroup") or b"").decode("utf-8", "replace"))
    return Namespaces(
        pid=pid,
        differ=frozenset(kind for kind, differs in elsewhere.items() if differs),
        unknown=frozenset(kind for kind, differs in elsewhere.items() if differs is None),
        container=container,
        pod=pod,
    )


def _elsewhere(proc: Proc, pid: int, kind: str) -> bool | None:
    """Compare one kind; for another user's process, by signs that anybody may read. None when it can't be told."""
    theirs, ours = proc.namespace(pid, kind), proc.namespace("self", kind)
    if theirs is not None and ours is not None:
        return theirs != ours
    if kind == "pid":
        ids = proc.ids(pid)
        return len(ids.ns_pids) > 1 if ids is not None else None
    if kind == "net":
        shares = shares_network(proc, pid)
        return None if shares is None else not shares
    return None


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
