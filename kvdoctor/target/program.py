"""How to call this program again, in a line that works when it is pasted into a shell."""

from __future__ import annotations

import os
import shlex
import sys


def program() -> str:
    """Return the words that start this program from any folder and under sudo, quoted for a shell."""
    called = os.path.abspath(sys.argv[0])
    if os.path.basename(called) == "kvdoctor" and os.access(called, os.X_OK) and os.path.isfile(called):
        return shlex.quote(called)
    return f"{shlex.quote(sys.executable)} -m kvdoctor.cli"


def as_root(line: str) -> str:
    """Return a line as root would run it: with sudo in front when we are somebody else."""
    return line if os.geteuid() == 0 else f"sudo {line}"
