"""Running py-spy: always without stopping the target, with a limit on time and size, and a reason when it fails."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import time

from kvdoctor.collectors import files
from kvdoctor.errors import Refused, Unavailable

TIME_LIMIT = 2.0
"""Seconds for one dump; about 60 ms is usual."""
SIZE_LIMIT = 32 * 2**20
"""Bytes of one dump: 500 threads of 60 frames take some 10 MB."""
CAP_SYS_PTRACE = 19
_NOT_PYTHON = ("Failed to find python version", "Failed to find a python interpreter", "not a python")
_DENIED = ("permission denied", "operation not permitted")
_GONE = ("no such process", "no such file or directory")


def binary() -> str | None:
    """Return py-spy beside our interpreter, else the one on PATH; None when there is none."""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    return beside if os.access(beside, os.X_OK) else shutil.which("py-spy")


def dump(pid: int) -> bytes:
    """Return the stacks of a process as py-spy's JSON; Unavailable or Refused with the cure."""
    spy = binary()
    if spy is None:
        raise Refused("py-spy is not installed", "pip install py-spy")
    argv = [spy, "dump", "--nonblocking", "--json", "--pid", str(pid)]
    code, out, error = run(argv, time_limit=TIME_LIMIT, size_limit=SIZE_LIMIT)
    if code == 0:
        return out
    raise failure(error.decode("utf-8", "replace"), pid)


def run(argv: list[str], *, time_limit: float, size_limit: int) -> tuple[int, bytes, bytes]:
    """Run a program and return its exit code, output and errors; Unavailable when it exceeds a limit."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": os.defpath},
        close_fds=True,
    )
    with process:
        try:
            out, error = _collect(process, time.monotonic() + time_limit, size_limit)
            left = max(0.1, time_limit)
            return process.wait(timeout=left), out, error
        except (Unavailable, subprocess.TimeoutExpired) as reason:
            process.kill()
            if isinstance(reason, Unavailable):
                raise
            raise Unavailable(f"it took longer than {time_limit:g} s") from None


def _collect(process: subprocess.Popen[bytes], deadline: float, size_limit: int) -> tuple[bytes, bytes]:
    """Read both pipes to their ends."""
    poll, pipes = select.poll(), {}
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            poll.register(stream, select.POLLIN | select.POLLHUP)
            pipes[stream.fileno()] = bytearray()
    parts = tuple(pipes.values())
    while pipes:
        ready = poll.poll(max(0.0, deadline - time.monotonic()) * 1e3)
        if not ready:
            raise Unavailable("it did not answer in time", "the machine may be overloaded")
        for file, _ in ready:
            data = os.read(file, 2**16)
            if not data:
                poll.unregister(file)
                del pipes[file]
                continue
            pipes[file] += data
            if len(pipes[file]) > size_limit:
                raise Unavailable(f"it wrote more than {size_limit >> 20} MiB")
    return bytes(parts[0]), bytes(parts[1])


def failure(text: str, pid: int, *, proc: str = "/proc") -> Unavailable:
    """Turn py-spy's error into a reason and a cure. The order matters: its texts overlap."""
    lower = text.lower()
    if any(word in lower for word in _DENIED):
        return Refused("its stacks may not be read", permission_cure(pid, proc=proc))
    if any(word.lower() in lower for word in _NOT_PYTHON):
        reason = "it is no Python process, or its interpreter is not known to this py-spy"
        return Refused(reason, "pip install --upgrade py-spy, if it is Python")
    if any(word in lower for word in _GONE):
        return Refused("it has ended", "kvdoctor targets shows who runs now")
    first = next((line for line in text.splitlines() if line.strip()), "no message")
    return Unavailable(f"py-spy: {first[:120]}", "an overloaded or starting process may give stacks later")


def permission_cure(pid: int, *, proc: str = "/proc") -> str:
    """Say which permission is missing: another user, Yama's ptrace_scope, or a container without SYS_PTRACE."""
    if os.geteuid() == 0 and not _may_trace(proc):
        return (
            "this container lacks SYS_PTRACE: docker run --cap-add SYS_PTRACE, or "
            "securityContext.capabilities.add: [SYS_PTRACE], or kubectl debug --profile=sysadmin"
        )
    scope = files.number(f"{proc}/sys/kernel/yama/ptrace_scope") or 0
    if scope >= 3:
        return "kernel.yama.ptrace_scope is 3: no stacks until the host boots with a lower value"
    if os.geteuid() != 0 and _owner(pid, proc) != os.geteuid():
        return "it belongs to another user: run kvdoctor as that user, or with sudo"
    if scope >= 1 and os.geteuid() != 0:
        lower = "" if scope >= 2 else ", or sysctl -w kernel.yama.ptrace_scope=0"
        return f"kernel.yama.ptrace_scope is {scope:.0f}: run kvdoctor with sudo{lower}"
    return "run kvdoctor with sudo; in a container, with the capability SYS_PTRACE"


def _may_trace(proc: str) -> bool:
    status = files.optional(f"{proc}/self/status") or ""
    mask = status.partition("CapEff:\t")[2].partition("\n")[0].strip()
    try:
        return bool(int(mask, 16) >> CAP_SYS_PTRACE & 1)
    except ValueError:
        return True


def _owner(pid: int, proc: str) -> int | None:
    """Return the effective user of a process; None where it cannot be told."""
    status = files.optional(f"{proc}/{pid}/status") or ""
    words = status.partition("\nUid:\t")[2].partition("\n")[0].split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else None
