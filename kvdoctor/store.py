"""Recording <-> file: written frame by frame, so that a killed process leaves a file that opens."""

from __future__ import annotations

import errno
import json
import os
import time
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from kvdoctor import frames
from kvdoctor.errors import KvdoctorError
from kvdoctor.model import Gap
from kvdoctor.recording import Recording, Source

SUFFIX = ".kvrec"
MAX_NAMES = 10_000
"""Recordings of one second that are told apart by a number."""
SERIES_A_FRAME = 64
"""Keeps a frame of the longest series that the parser takes, 64 KiB each, under the limit of a frame."""
Changes = tuple["array[int]", "array[float]"]


class Exists(KvdoctorError):
    """There is a file of that name."""


class Writer:
    """Writes one recording. Each frame has reached the operating system when the call returns.

    When the disk is full the file keeps its whole frames, `failure` says why, and further calls do nothing:
    the recording goes on in memory. `size` is the number of bytes in the file.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self.path = path
        self.failure: str | None = None
        self._descriptor = descriptor
        self.size = 0
        self._columns: list[int] = []

    @classmethod
    def create(cls, path: str | Path) -> Writer:
        """Make a new file, readable by its owner alone; KvdoctorError when it exists or cannot be made."""
        path = Path(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        try:
            return cls(os.open(path, flags, 0o600), path)
        except FileExistsError:
            raise Exists(f"{path} exists already", "choose another name: nothing is written over") from None
        except (OSError, ValueError) as error:
            raise KvdoctorError(f"{path} cannot be written: {_why(error)}", "choose another folder") from None

    def begin(self, recording: Recording) -> None:
        """Write the head, the facts and the sources."""
        self._append(frames.MAGIC + str(frames.VERSION).encode() + b"\n")
        self._json(frames.HEAD, {"kvdoctor": recording.kvdoctor, "wall": recording.wall})
        self._json(frames.FACTS, recording.facts)
        for number, source in enumerate(recording.sources):
            self._columns.append(0)
            entry = {"name": source.name, "kind": source.kind, "wall": source.wall, "role": source.role}
            self._json(frames.SOURCE, entry)
            for key, text in source.texts.items():
                self.text(number, key, text)

    def reading(self, number: int, source: Source, changes: Changes, *, reading: int = -1) -> None:
        """Write a reading of a source, the newest unless told: its new columns, then what changed."""
        for first in range(self._columns[number], len(source.columns), SERIES_A_FRAME):
            series = [[c.name, c.labels, c.type] for c in source.columns[first : first + SERIES_A_FRAME]]
            self._json(frames.SERIES, {"source": number, "first": first, "series": series})
        self._columns[number] = len(source.columns)
        times = source.at[reading], source.took[reading], source.size[reading]
        self._append(frames.pack(frames.READING, frames.pack_reading(number, *times, changes)))

    def text(self, number: int, key: str, text: str) -> None:
        """Write a small document of a source."""
        self._json(frames.TEXT, {"source": number, "key": key, "text": text})

    def gaps(self, gaps: Iterable[Gap]) -> None:
        """Write all gaps so far; the newest list counts."""
        self._json(frames.GAPS, [asdict(gap) for gap in gaps])

    def end(self, recording: Recording) -> None:
        """Write the gaps and the cost, and close the file."""
        self.gaps(recording.gaps)
        self._json(frames.END, {"complete": recording.complete, **asdict(recording.cost)})
        self.close()

    def close(self) -> None:
        """Close the file; what was written stays readable."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _json(self, kind: bytes, value: object) -> None:
        self._append(frames.pack(kind, json.dumps(value, separators=(",", ":")).encode()))

    def _append(self, data: bytes) -> None:
        if self.failure is not None or self._descriptor < 0:
            return
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            self.size += len(data)
        except OSError as error:
            self.failure = _why(error)
            self._cut_back()

    def _cut_back(self) -> None:
        """Drop the frame that was half written. Where that fails too, the file still opens up to it."""
        try:
            os.ftruncate(self._descriptor, self.size)
        except OSError as error:
            self.failure = f"{self.failure}; {_why(error)}"


def save(recording: Recording, path: str | Path) -> None:
    """Write a whole recording to a new file; KvdoctorError when that cannot be done."""
    writer = Writer.create(path)
    writer.begin(recording)
    for number, source in enumerate(recording.sources):
        for reading, changes in enumerate(changes_of(source)):
            writer.reading(number, source, changes, reading=reading)
    writer.end(recording)
    if writer.failure:
        raise KvdoctorError(f"{path} is not whole: {writer.failure}", "make room, or choose another folder")


def changes_of(source: Source) -> Iterator[Changes]:
    """Yield for each reading the columns that changed and their values."""
    changes: list[Changes] = [(array("I"), array("d")) for _ in source.at]
    for number, column in enumerate(source.columns):
        for reading, value in zip(column.index, column.value, strict=True):
            changes[reading][0].append(number)
            changes[reading][1].append(value)
    yield from changes


def create_in_state(wall: float) -> Writer:
    """Make a new file, named after a time, in the user's state folder, which is made when missing.

    KvdoctorError when that cannot be done. Of two programs that start in one second each gets a name of its own.
    """
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification has relative ones ignored
        base = os.path.expanduser("~/.local/state")
    folder = Path(base) / "kvdoctor"
    try:
        if not folder.is_absolute():
            raise FileNotFoundError(errno.ENOENT, "this user has no home folder")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise KvdoctorError(f"{folder} cannot be made: {_why(error)}", "name a file with --save") from None
    stem = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime(wall))
    for n in range(MAX_NAMES):
        path = folder / f"{stem}{f'-{n}' if n else ''}{SUFFIX}"
        try:
            return Writer.create(path)
        except Exists:
            continue
    raise KvdoctorError(f"{folder} has no free name", "name a file with --save")


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "the disk is full"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
