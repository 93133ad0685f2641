"""Which Python a probe's child runs under: ours, else the target's own, else the one that is named."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from kvdoctor.errors import Absent, KvdoctorError, Unavailable
from kvdoctor.probes.child import environment

LOOK_SECONDS = 20.0
HAS_TORCH = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"


def has_torch(python: str) -> bool:
    """Say whether a Python finds torch in the environment that a probe's child gets; it is not imported."""
    if python == sys.executable and "PYTHONPATH" not in os.environ:
        return importlib.util.find_spec("torch") is not None
    try:
        done = subprocess.run(
            [python, "-B", "-c", HAS_TORCH],
            timeout=LOOK_SECONDS,
            capture_output=True,
            check=False,
            cwd="/",
            env=environment(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def python_for(need: str, *, given: str | None, pid: int | None) -> str:
    """Return the Python for a probe that needs torch (`required`), takes it (`used`) or not (`no`).

    Absent where torch is required and none of them has it; KvdoctorError for a --python that cannot be run.
    """
    if given is not None:
        if not os.access(given, os.X_OK):
            raise KvdoctorError(f"{given} is no program that we may run", "--python /path/to/bin/python")
        if need == "required" and not has_torch(given):
            raise Absent(f"{given} has no torch", "--python PATH of a Python that has it")
        return given
    if need == "no" or has_torch(sys.executable):
        return sys.executable
    why = "this Python has no torch"
    why += ", PYTHONPATH aside, which a probe does not take over" if "PYTHONPATH" in os.environ else ""
    if pid is not None:
        try:
            found = python_of(pid)
            if has_torch(found):
                return found
            why = f"neither this Python nor that of process {pid} has torch"
        except Unavailable as closed:
            why = f"{why}, and {closed.reason}"
    if need == "required":
        raise Absent(why, "pip install 'kvdoctor[torch]', or --python PATH of a Python that has it")
    return sys.executable


def python_of(pid: int, proc: str = "/proc") -> str:
    """Return the interpreter of a process of our own user, in our own file system.

    Unavailable for another user's, whose files we never run, and for one in a container.
    """
    folder = Path(proc, str(pid))
    try:
        owner, program = folder.stat().st_uid, os.readlink(folder / "exe")
        inside = os.readlink(folder / "ns/mnt") != os.readlink(Path(proc, "self/ns/mnt"))
        words = (folder / "cmdline").read_bytes().split(b"\0")
        settings = (folder / "environ").read_bytes().split(b"\0")
    except OSError as error:
        raise Unavailable(f"process {pid} cannot be read: {error.strerror}", "run as its user") from error
    if owner != os.geteuid():
        raise Unavailable(f"process {pid} is another user's, whose Python is not run", f"run as user {owner}")
    if inside:
        cure = f"nsenter -t {pid} -m -- python3 -m kvdoctor.cli probe"
        raise Unavailable(f"process {pid} is in a container with files of its own", cure)
    return _in_its_environment(program, os.fsdecode(words[0]), settings)


def _in_its_environment(program: str, word: str, settings: list[bytes]) -> str:
    """Prefer the name that the process was started by: behind it stands its virtual environment."""
    home = next((s.partition(b"=")[2] for s in settings if s.startswith(b"VIRTUAL_ENV=")), b"")
    for name in (word, os.path.join(os.fsdecode(home), "bin/python") if home else ""):
        if name.startswith("/") and os.path.realpath(name) == os.path.realpath(program):
            return name
    return program
