"""The child process of a probe, from inside: it dies with its parent, is nice, runs the probe and answers."""

from __future__ import annotations

import ctypes
import dataclasses
import importlib
import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from kvdoctor.errors import Absent, KvdoctorError, Unavailable
from kvdoctor.probes import PROBES
from kvdoctor.probes.child import Tell
from kvdoctor.probes.shortage import is_short, short

NICE, OOM_SCORE = 10, 1000
PR_SET_PDEATHSIG = 1


def main() -> None:
    """Be the child: read the request, run the probe, answer."""
    out = _private_stdout()
    request = json.loads(sys.stdin.buffer.readline())
    _behave(int(request["parent"]))
    sys.excepthook = _die
    threading.Thread(target=_watch_parent, daemon=True).start()

    def say(message: Mapping[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    say(
        answer_of(
            request["probe"], request["options"], lambda doing, share: say({"doing": doing, "share": share})
        )
    )
    sys.stderr.flush()
    os._exit(0)  # a thread that waits in a system call, and the parent watch, must not hold us


def _die(*error: Any) -> None:
    """Show an error that nothing caught, and end at once: a thread that waits for the others would hold us for ever."""
    sys.__excepthook__(*error)
    sys.stderr.flush()
    os._exit(1)


def answer_of(probe: str, options: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Run a probe here and return its last message."""
    try:
        module = importlib.import_module(PROBES[probe].module)
        return {"result": module.run(options_of(module.Options, options), tell)}
    except Absent as absence:
        return {"absent": [absence.reason, absence.cure]}
    except Unavailable as refusal:
        return {"refused": [refusal.reason, refusal.cure]}
    except KvdoctorError as error:
        return {"failed": [error.message, error.hint]}
    except (MemoryError, OSError, ImportError, RuntimeError) as error:
        if not is_short(error):
            raise
        told = short(f"the {probe} probe")
        return {"refused": [told.reason, told.cure]}


def options_of(kind: Any, values: Mapping[str, Any]) -> Any:
    """Make an options object from JSON, whose lists stand for tuples; unknown keys are left out."""
    names = {field.name for field in dataclasses.fields(kind)}
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in names})


def _private_stdout() -> IO[str]:
    """Keep the pipe for answers, and send what libraries print to standard error."""
    kept = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(kept, "w", encoding="utf-8")


def die_with(parent: int) -> None:
    """Be killed by the kernel when the parent ends, however it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _behave(parent: int) -> None:
    """Die with the parent, be nice, be the first that an out-of-memory kill takes, dump no core."""
    die_with(parent)
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))


def _watch_parent() -> None:
    """End when the parent's end of the pipe closes: it works where the death signal does not."""
    while os.read(0, 4096):
        pass
    os._exit(1)
