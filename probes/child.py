"""The child process of a probe, from outside: started with a time limit, asked on stdin, answering in JSON lines.

The child is started with `BOOT`, which makes the `kvdoctor` package importable for any Python without a temporary
folder and without any other package of ours. Its lines are `{"doing": text, "share": 0..1}` for progress, and one of
`{"result": {...}}`, `{"refused": [reason, cure]}`, `{"absent": [reason, cure]}` or `{"failed": [message, hint]}` at
the end.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from kvdoctor.errors import Absent, KvdoctorError, Unavailable
from kvdoctor.probes.shortage import is_short, last_words, says_short, short

Tell = Callable[[str, float], None]
"""Called by a probe with what it does now and the share that is done, 0..1."""

BOOT_PACKAGE = """
import sys
sys.path[:] = [p for p in sys.path if p]
import importlib.util as u
s = u.spec_from_file_location("kvdoctor", sys.argv[1] + "/__init__.py", submodule_search_locations=[sys.argv[1]])
sys.modules["kvdoctor"] = m = u.module_from_spec(s)
s.loader.exec_module(m)
"""
BOOT = BOOT_PACKAGE + "from kvdoctor.probes import inside\ninside.main()\n"
GRACE_S = 2.0
"""Seconds between the polite and the final signal."""
IDLE = "probe again when the service is idle"
MAX_LINE = 64 * 2**20
"""Bytes of an answer; a result is a few kilobytes."""
# Settings of a service that would otherwise be inherited by the child.
CLEARED = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP")


class Stopped(Unavailable):
    """A probe that ran, and was ended for the service's sake."""


def package_folder() -> str:
    """Return the folder of the `kvdoctor` package, for BOOT."""
    import kvdoctor

    return str(Path(kvdoctor.__file__).resolve().parent)


def argv(python: str) -> list[str]:
    """Return the command line of a child under a Python; -B, so that it writes no bytecode beside ours."""
    return [python, "-B", "-c", BOOT, package_folder()]


def environment(**more: str) -> dict[str, str]:
    """Return our environment without what was meant for somebody else."""
    return {**{k: v for k, v in os.environ.items() if k not in CLEARED}, **more}


def run_child(
    probe: str,
    options: Mapping[str, Any],
    *,
    limit_s: float,
    python: str = sys.executable,
    tell: Tell | None = None,
    stop: Callable[[], str] | None = None,
    env: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run one probe in a child process and return its result.

    `stop` is asked about twice a second; a sentence it returns ends the probe. Raises Unavailable where the
    probe was refused, Absent where there is nothing to measure, Stopped where it was ended, KvdoctorError where it
    failed or ran out of time.
    """
    with tempfile.TemporaryFile() as errors:
        process = _start(python, errors, environment(**(env or {})))
        try:
            _ask(process, {"probe": probe, "options": dict(options), "parent": os.getpid()})
            answer = _answer(process, limit_s, tell or (lambda doing, share: None), stop)
            if answer is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE_S)
        finally:
            _end(process)
        if answer is None:
            raise _died(probe, process.returncode, errors)
    for key, kind in (("absent", Absent), ("refused", Unavailable)):
        if key in answer:
            raise kind(*answer[key])
    if "failed" in answer:
        raise KvdoctorError(*answer["failed"])
    result: dict[str, Any] = answer["result"]
    return result


def _start(python: str, errors: IO[bytes], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv(python),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=dict(env),
            start_new_session=True,
        )
    except OSError as error:
        if is_short(error):
            raise short("this process, to start a probe,") from error
        raise KvdoctorError(f"{python} cannot be started: {error.strerror}", "--python PATH") from error


def _ask(process: subprocess.Popen[bytes], request: Mapping[str, Any]) -> None:
    """Write the request and leave the pipe open: its end tells the child that we are gone."""
    if process.stdin is None:
        return
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()


def _answer(
    process: subprocess.Popen[bytes], limit_s: float, tell: Tell, stop: Callable[[], str] | None
) -> dict[str, Any] | None:
    """Read lines until one ends the probe; None when the child died without one."""
    if process.stdout is None:
        return None
    deadline, pending = time.monotonic() + limit_s, b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            reason = stop() if stop else ""
            if reason:
                raise Stopped(reason, IDLE)
            if not selector.select(min(left, 0.5)):
                continue
            piece = os.read(process.stdout.fileno(), 2**16)
            if not piece or len(pending) > MAX_LINE:
                return None
            *lines, pending = (pending + piece).split(b"\n")
            for line in lines:
                message = _message(line)
                if "share" not in message:
                    found: dict[str, Any] = message
                    return found
                tell(message["doing"], message["share"])
    raise KvdoctorError(f"the probe did not end within {limit_s:g} s and was stopped", "allow it more time")


def _message(line: bytes) -> dict[str, Any]:
    """Read one line; KvdoctorError for one that is not ours: --python may name any program."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not (
        {"result", "refused", "absent", "failed"} & found.keys() or {"doing", "share"} <= found.keys()
    ):
        raise KvdoctorError(
            "the program that was started is no Python that runs a probe", "--python PATH of one"
        )
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the child's whole group: SIGTERM, then SIGKILL. What is stuck in a driver is left and said."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            continue
        break


def _died(probe: str, code: int | None, errors: IO[bytes]) -> KvdoctorError | Unavailable:
    """Say how a child ended that gave no answer."""
    words = last_words(errors)
    if code is None:
        return KvdoctorError(f"the {probe} probe hangs in the kernel and cannot be ended", "look at dmesg")
    if code == -signal.SIGKILL:
        return KvdoctorError(
            f"the {probe} probe was killed from outside", "dmesg tells of an out-of-memory kill"
        )
    if says_short(words):
        return short(f"the {probe} probe")
    said = words.splitlines()[-1] if words else f"exit code {code}"
    return KvdoctorError(
        f"the {probe} probe ended without an answer: {said}", "report this with the line above"
    )
