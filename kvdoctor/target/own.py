"""Which processes are this program's own: the commands, their probes, the demo's helpers. None is a target."""

from __future__ import annotations

from kvdoctor.target.scan import Process, Scan
from kvdoctor.target.words import command

NAME = "kvdoctor"
# How the code given to a probe's interpreter by `-c` names its package.
_IN_CODE = f"from {NAME}.probes import"


def is_own(scan: Scan, process: Process) -> bool:
    """Say whether a process is a kvdoctor, also one that others started, or descends from one.

    The lab's server is an engine like any other: it is recognised before anybody asks here.
    """
    return any(_is_kvdoctor(one) for one in (process, *scan.ancestors(process.pid)))


def _is_kvdoctor(process: Process) -> bool:
    words = command(process.argv)
    if words is None:
        return any(_IN_CODE in word for word in process.argv)
    return words.program == NAME or words.program.startswith(f"{NAME}.")
