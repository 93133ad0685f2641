"""The standard streams as they may be: closed, full, too narrow, or with a reader that has gone."""

from __future__ import annotations

import io
import os
import re
import select
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from rich.console import Console

NARROWEST, USUAL = 20, 80
"""Columns: what is narrower is no terminal (COLUMNS=0 is found in containers), and what is taken instead."""
CLOSED = "it is closed"
_DESCRIPTOR = re.compile(r"/(?:dev|proc/(?:self|thread-self|\d+))/fd/(\d+)")
_LINKS = 10
"""Links that are followed from a name to a descriptor."""
_closed_at_start: set[int] = set()


class Stream(io.FileIO):
    """A stream that never breaks a report off: what can no longer be written is dropped, and why is kept.

    One that was `closed` when the program began, as `>&-` does, takes nothing at all.
    """

    def __init__(self, descriptor: int, *, closed: bool = False) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._closed = closed
        self.gone = False
        """True when the reader has left, as `head` does."""
        self.failure = ""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write what can be written at once; say that all was written where nothing ever will be."""
        if self._closed:
            self.failure = CLOSED
        try:
            while not (self.gone or self.failure):
                written: int | None = super().write(data)
                if written is not None:
                    return written
                select.select((), (self,), ())  # a parent made it non-blocking
        except BrokenPipeError:
            self.gone = True
        except OSError as error:
            self.failure = error.strerror or str(error)
        return memoryview(data).nbytes


def guard() -> None:
    """Put such streams in place of stdout and stderr, and the null device where one is closed.

    A closed one would otherwise lend its number to the next file that is opened: a recording.
    """
    closed = [number for number in range(3) if not _is_open(number)]
    _closed_at_start.update(closed)
    for _ in closed:
        os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: each of those in turn
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stdout is sys.__stdout__:
        sys.stdout = _guarded(sys.stdout, 1, "replace", closed=1 in closed)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _guarded(sys.stderr, 2, "backslashreplace", closed=2 in closed)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def is_closed(where: str) -> bool:
    """Say whether a name, such as /dev/stdout, is that of a standard stream that was closed when we began.

    What is written there would go to the null device that stands in its place.
    """
    path = os.path.abspath(where)
    for _ in range(_LINKS):
        match = _DESCRIPTOR.fullmatch(path)
        if match:
            return int(match[1]) in _closed_at_start
        try:
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except OSError:
            return False
    return False


def _guarded(old: object, number: int, errors: str, *, closed: bool) -> io.TextIOWrapper:
    encoding = getattr(old, "encoding", None) or "utf-8"
    by_line = number == 2 or os.isatty(number)
    if isinstance(old, io.TextIOWrapper):
        old.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(Stream(number, closed=closed)),
        encoding=encoding,
        errors=errors,
        line_buffering=by_line,
    )


def _raw() -> Stream | None:
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw if isinstance(raw, Stream) else None


def reader_gone() -> bool:
    """Say whether nobody reads standard output any longer."""
    raw = _raw()
    return raw is not None and raw.gone


def failure() -> str:
    """Flush standard output; return why something of it could not be written, empty when all was."""
    sys.stdout.flush()
    raw = _raw()
    return raw.failure if raw is not None else ""


def console(*, stderr: bool = False) -> Console:
    """Return a console that takes text as text, on standard output unless told."""
    from rich.console import Console

    plain = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if plain.width >= NARROWEST:
        return plain
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=USUAL)
