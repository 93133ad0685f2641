"""From any process of an engine to all of them: roots by parentage, members by descent."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from kvdoctor.secrets import clean, mask_argv
from kvdoctor.target.fingerprint import Match
from kvdoctor.target.scan import Process, Scan
from kvdoctor.target.words import command

MOST_MEMBERS = 4096
"""Processes of one family that are listed."""
TITLE = 300
"""Characters kept of a title."""
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


@dataclass(frozen=True, slots=True)
class Kin:
    """One family as the process list shows it: its root, and each process with what it is."""

    engine: str
    root: Process
    members: tuple[tuple[Process, Match], ...]
    """The root first, then by pid."""


def families(scan: Scan) -> tuple[Kin, ...]:
    """Return all families of the list, by the pid of their root."""
    roots: dict[int, str] = {}
    for process in scan.processes.values():
        if process.match is not None:
            roots[_root(scan, process, process.match)] = process.match.engine
    children = _children(scan)
    return tuple(_kin(scan, pid, engine, children, frozenset(roots)) for pid, engine in sorted(roots.items()))


def family_at(scan: Scan, pid: int) -> Kin | None:
    """Return the family that a process belongs to; one of its own where no engine is known; None when gone."""
    if pid not in scan.processes:
        return None
    for kin in families(scan):
        if any(process.pid == pid for process, _ in kin.members):
            return kin
    return alone(scan, pid, "process")


def alone(scan: Scan, pid: int, engine: str) -> Kin:
    """Make a family of a process that no fingerprint knows, and of its descendants."""
    return _kin(scan, pid, engine, _children(scan), frozenset((pid,)))


def title(process: Process) -> str:
    """Return the title or masked command line of a process, fit for a report."""
    words = " ".join(mask_argv(process.argv)) or f"[{process.stat.comm}]"
    return " ".join(clean(words).split())[:TITLE]


def _children(scan: Scan) -> dict[int, list[int]]:
    children: dict[int, list[int]] = defaultdict(list)
    for process in scan.processes.values():
        children[process.stat.ppid].append(process.pid)
    return children


def _root(scan: Scan, process: Process, match: Match) -> int:
    """Return the topmost ancestor of the same engine.

    A process that an engine named, and that has no such ancestor, was started from a program of the user's
    own: its parent, when that is a Python process. Without one it was left behind and is its own root.
    """
    above = scan.ancestors(process.pid)
    same = [p for p in above if p.match is not None and p.match.engine == match.engine]
    top = same[-1] if same else process
    if top.match is None or not top.match.by_title:
        return top.pid
    parent = scan.processes.get(top.stat.ppid)
    is_python = parent is not None and parent.match is None and _is_python(parent) and parent.pid != 1
    return parent.pid if parent is not None and is_python else top.pid


def _is_python(process: Process) -> bool:
    known = command(process.argv)
    return process.stat.comm.startswith("python") or (known is not None and bool(known.python))


def _kin(scan: Scan, root: int, engine: str, children: dict[int, list[int]], roots: frozenset[int]) -> Kin:
    top = scan.processes[root]
    own = top.match or Match(engine, "loop" if engine in _LOOPS else "program")
    queue, seen = list(children.get(root, ())), {root}
    below: list[tuple[Process, Match]] = []
    while queue and len(below) < MOST_MEMBERS:
        pid = queue.pop()
        if pid in seen or pid in roots:
            continue
        seen.add(pid)
        process = scan.processes[pid]
        below.append((process, _place(scan, process, top, engine)))
        queue.extend(children.get(pid, ()))
    return Kin(engine, top, ((top, own), *sorted(below, key=lambda pair: pair[0].pid)))


_LOOPS = frozenset(("torch", "process"))


def _place(scan: Scan, process: Process, top: Process, engine: str) -> Match:
    """Say what a descendant is. One without a title of its own that runs Python is taken for a worker."""
    match = process.match
    if match is not None and match.engine == engine and (match.by_title or process.argv != top.argv):
        return match
    text = " ".join(process.argv)
    if any(helper in text for helper in _HELPERS) or not _is_python(process):
        return Match(engine, "helper")
    return Match(engine, "worker")
