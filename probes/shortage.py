"""How processes say that they ran out of memory or of threads, and the sentence that we make of it."""

from __future__ import annotations

import errno
from typing import IO

from kvdoctor.errors import Unavailable

MEMORY = (
    "failed to map segment",
    "annot allocate memory",
    "can't allocate memory",
    "CUDA out of memory",
    "std::bad_alloc",
    "MemoryError",
)
"""How the loader, the C library, torch on a CPU and on a GPU, C++ and Python say that memory is short."""
THREADS = ("can't start new thread", "Thread creation failed", "pthread_create")
"""How Python, OpenMP and OpenBLAS say that a thread cannot be had: its stack is memory, and threads have a limit."""
CURE = "more of it: ulimit -v and -u, memory.max and pids.max of the cgroup; or take less: --size, --streams"
LAST = 4096
"""Bytes at the end of what a process said that are looked at."""


def is_short(error: BaseException) -> bool:
    """Say whether it is memory, a thread's stack included, that an operation failed for."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or says_short(str(error))


def says_short(text: str) -> bool:
    """Say whether a process tells in these lines that memory or threads ran out."""
    return any(each in text for each in (*MEMORY, *THREADS))


class PeerShort(Unavailable):
    """The other side of a connection told so of itself."""

    def __init__(self) -> None:
        told = short("the peer")
        super().__init__(told.reason, told.cure)


def short(who: str) -> Unavailable:
    """Return the refusal that names who ran out of it."""
    return Unavailable(f"{who} could not get the memory or the threads that it needs", CURE)


def last_words(errors: IO[bytes]) -> str:
    """Return the end of what a process wrote to its standard error, a file of ours."""
    at = errors.seek(0, 2)
    errors.seek(max(0, at - LAST))
    return errors.read().decode("utf-8", "replace").strip()
