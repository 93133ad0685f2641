"""Watches a reader while it is fed: what it raised, how long it took, how much memory it asked for."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType

from kvdoctor.errors import KvdoctorError

LIMIT_S = 4.0
"""CPU-seconds of one input from which it counts as a hang: the inputs here are some kilobytes."""
MEMORY = 2**30
"""Bytes of address space that one input may add to what the process has when it starts."""
SHRINKS = 400
"""Tries to make the input of a new fault smaller."""
PACKAGE = f"{os.sep}kvdoctor{os.sep}"

Feed = Callable[[bytes], None]


class Slow(BaseException):
    """An input that takes too long."""


class Leak(Exception):
    """A report that would steer a terminal or a page."""


class _Caught:
    """Holds what was raised, whatever it was, unless somebody wants the program to end."""

    error: BaseException | None = None

    def __enter__(self) -> _Caught:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.error = error
        return not isinstance(error, KeyboardInterrupt | SystemExit)


@dataclass(slots=True)
class Fault:
    """One kind of failure: the error and the line of ours that it came from."""

    key: str
    data: bytes
    trace: str
    times: int = 1


@dataclass(slots=True)
class Watch:
    """Feeds inputs and keeps one small input of each kind of failure, in `keep` where it is given."""

    feed: Feed
    keep: Path | None = None
    faults: dict[str, Fault] = field(default_factory=dict)
    runs: int = 0
    refused: int = 0
    longest: float = 0.0
    """CPU-seconds of the slowest input."""

    def __call__(self, data: bytes) -> None:
        """Feed one input; a failure of a new kind is made small and kept."""
        found = self.tried(data)
        self.runs += 1
        if found is None:
            return
        if found.key in self.faults:
            self.faults[found.key].times += 1
            return
        self.faults[found.key] = found
        found.data = self._shrunk(found)
        self._save(found)

    def tried(self, data: bytes) -> Fault | None:
        """Feed one input and return its failure; a refusal in a sentence is none."""
        begin = time.process_time()
        with _Caught() as caught:
            signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
            try:
                self.feed(data)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        self.longest = max(self.longest, time.process_time() - begin)
        error = caught.error
        if isinstance(error, KvdoctorError):
            self.refused += 1
        if error is None or isinstance(error, KvdoctorError):
            return None
        return Fault(_key(error), data, "".join(traceback.format_exception(error)[-12:]))

    def _shrunk(self, fault: Fault) -> bytes:
        """Leave out pieces, halves first, as long as the failure stays the same."""
        data, size, tries = fault.data, len(fault.data) // 2, 0
        while size and tries < SHRINKS and "Slow" not in fault.key:
            at, before = 0, len(data)
            while at < len(data) and tries < SHRINKS:
                tries += 1
                less = data[:at] + data[at + size :]
                again = self.tried(less)
                if again is not None and again.key == fault.key:
                    data = less
                else:
                    at += size
            size = size if len(data) < before else size // 2
        return data

    def _save(self, fault: Fault) -> None:
        sys.stderr.write(f"\n{fault.key} ({len(fault.data)} bytes): {fault.data[:120]!r}\n{fault.trace}\n")
        sys.stderr.flush()
        if self.keep is not None:
            self.keep.mkdir(parents=True, exist_ok=True)
            (self.keep / f"fault-{len(self.faults)}").write_bytes(fault.data)


def _key(error: BaseException) -> str:
    """Name a failure by its kind and the innermost line of the package."""
    ours = [f for f in traceback.extract_tb(error.__traceback__) if PACKAGE in f.filename]
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "outside"
    return f"{type(error).__name__} at {where}" + (
        f": {str(error).rpartition(' in ')[2]}" if isinstance(error, Leak) else ""
    )


def guard_time() -> None:
    """Bound the time of one input."""

    def late(number: int, frame: FrameType | None) -> None:
        raise Slow(f"over {LIMIT_S:g} CPU-seconds")

    signal.signal(signal.SIGPROF, late)


def guard() -> None:
    """Bound the time of one input and the memory of the process."""
    guard_time()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
