"""Whether a process that is no known engine serves anybody: a listening socket or a web server, and no training."""

from __future__ import annotations

from kvdoctor.target.environment import environment
from kvdoctor.target.process import Proc
from kvdoctor.target.scan import Process, Scan
from kvdoctor.target.sockets import listening
from kvdoctor.target.words import command

NOT_SERVING = "nothing shows that it serves requests"
LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "deepspeed")
"""Programs that start the ranks of one job."""
_WEB = (
    "uvicorn",
    "gunicorn",
    "hypercorn",
    "granian",
    "fastapi",
    "flask",
    "litserve",
    "bentoml",
    "torchserve",
)
# A notebook's kernel listens too, for its notebook; so do the ranks of one job, for one another.
_NOTEBOOKS = ("ipykernel", "ipykernel_launcher", "jupyter", "jupyter-lab", "jupyter-notebook", "ipython")
_OF_A_JOB = ("WORLD_SIZE", "LOCAL_RANK")
# Threads that torch starts for a backward pass.
_BACKWARD = "pt_autograd"


def serving_sign(proc: Proc, scan: Scan, process: Process) -> str:
    """Return what shows that a process serves requests, or the Python above it; empty where nothing does."""
    own = _sign(proc, process)
    parent = scan.processes.get(process.stat.ppid)
    if own or _is_of_a_job(process) or parent is None or not _is_of_python(parent):
        return own
    above = _sign(proc, parent)
    return f"the Python above it: {above}" if above else ""


def _is_of_python(process: Process) -> bool:
    words = command(process.argv)
    return words is not None and bool(words.python)


def _is_of_a_job(process: Process) -> bool:
    """Say whether a process is a notebook's kernel or a launcher of ranks: what is above it serves people."""
    words = command(process.argv)
    return words is not None and words.program in (*LAUNCHERS, *_NOTEBOOKS)


def _sign(proc: Proc, process: Process) -> str:
    words = command(process.argv)
    name = words.program if words is not None else ""
    if name.partition(".")[0] in _WEB:
        return f"it was started by {name.partition('.')[0]}"
    if _is_of_a_job(process) or _trains(proc, process.pid):
        return ""
    ports = listening(proc, process.pid)
    return f"it listens at port {ports[0]}" if ports else ""


def _trains(proc: Proc, pid: int) -> bool:
    """Say whether a process is a rank of a job, or has computed gradients."""
    if any(thread.startswith(_BACKWARD) for thread in proc.thread_names(pid)):
        return True
    told = environment(proc, pid)
    return any(told.get(name) for name in _OF_A_JOB)
