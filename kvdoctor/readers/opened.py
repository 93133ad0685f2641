"""Opens what the user names, unzips it piece by piece, and says in a sentence what cannot be opened."""

from __future__ import annotations

import io
import os
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

from kvdoctor.errors import KvdoctorError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STDIN = "-"
READABLE = (
    "it reads recordings of kvdoctor, saved /metrics pages, series of them and engine logs, plain or gzip"
)
PIECE = 2**20
MAX_PLAIN = 8 * 2**30
"""Bytes that come out of one gzip file: two days of a large vLLM's pages at 1 Hz."""


@dataclass(slots=True)
class Opened:
    """A file to read from."""

    stream: io.BufferedReader
    name: str
    modified: float
    """Seconds since 1970; for a pipe, now."""
    unzipped: Unzipped | None = None

    @property
    def trouble(self) -> str:
        """Why less than the whole was read, empty when nothing was wrong."""
        return self.unzipped.trouble if self.unzipped else ""


class Unzipped(io.RawIOBase):
    """The plain bytes of a gzip stream. One that is cut or damaged ends early and says so in `trouble`."""

    def __init__(self, source: BinaryIO) -> None:
        self.trouble = ""
        self._source = source
        self._stream = zlib.decompressobj(wbits=31)
        self._left = MAX_PLAIN

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        plain = b""
        while not plain and not self.trouble:
            data = self._stream.unconsumed_tail or self._more()
            if not data:
                return 0
            try:
                plain = self._stream.decompress(data, len(view))
            except zlib.error:
                self.trouble = "the gzip data is damaged; what stands before that was read"
        self._left -= len(plain)
        if self._left < 0:
            self.trouble = f"only the first {MAX_PLAIN >> 30} GiB were read"
        view[: len(plain)] = plain
        return len(plain)

    def _more(self) -> bytes:
        """Return the next compressed bytes, of the next member when one has ended; empty at the end."""
        data = self._stream.unused_data or self._source.read(PIECE)
        if self._stream.eof:
            data = data.lstrip(b"\0")
            self._stream = zlib.decompressobj(wbits=31) if data else self._stream
        elif not data:
            self.trouble = "the gzip file is cut short; what stands before the cut was read"
        return data


@contextmanager
def open_file(path: str) -> Iterator[Opened]:
    """Open a file, or stdin for `-`; KvdoctorError when it cannot be opened or has nothing in it."""
    name = "stdin" if path == STDIN else _text(os.path.basename(path) or path)
    try:
        raw = sys.stdin.buffer if path == STDIN else open(path, "rb")  # noqa: SIM115
    except IsADirectoryError:
        raise KvdoctorError(f"{path} is a folder", "name the files in it") from None
    except (OSError, ValueError) as error:
        raise KvdoctorError(
            f"{path} cannot be read: {_why(error)}", "check the name and its permissions"
        ) from None
    try:
        yield _recognised(raw, name)
    except OSError as error:
        raise KvdoctorError(f"{name} cannot be read: {_why(error)}", "copy it and try again") from None
    finally:
        if path != STDIN:
            raw.close()


def _recognised(raw: BinaryIO, name: str) -> Opened:
    stream = cast(io.BufferedReader, raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw))
    try:
        modified = os.fstat(stream.fileno()).st_mtime
    except io.UnsupportedOperation:
        modified = time.time()
    if not stream.peek(2)[:2]:
        raise KvdoctorError(f"{name} is empty", READABLE)
    if stream.peek(2)[:2] != b"\x1f\x8b":
        return Opened(stream, name, modified)
    unzipped = Unzipped(stream)
    return Opened(io.BufferedReader(unzipped, PIECE), name, modified, unzipped)


def _text(path: str) -> str:
    """Return a file name as text: one may hold bytes that are not UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
