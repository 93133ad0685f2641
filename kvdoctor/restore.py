"""A saved recording, read back as far as it is whole."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from kvdoctor import frames
from kvdoctor.errors import KvdoctorError
from kvdoctor.frames import Damaged
from kvdoctor.model import Cost, Gap
from kvdoctor.recording import Column, Recording, Source, add_reading

MAX_CHANGES = 50_000_000
"""600 MB of changes, two days of a busy endpoint at 1 Hz: more is taken for an attack on our memory."""
MAX_DOCUMENTS = 256 * 2**20
"""Bytes of everything that is no reading; the names of 200,000 series are some 40 MB."""


def load(path: str | Path) -> Recording:
    """Read a recording; KvdoctorError when it cannot be opened, is none, or is of a newer version."""
    try:
        with open(path, "rb") as stream:
            return load_stream(stream, str(path))
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise KvdoctorError(f"{path} cannot be read: {reason}", "name a file that kvdoctor saved") from None


def load_stream(stream: BinaryIO, name: str) -> Recording:
    """Read a recording from an open file. A cut or damaged one opens with a gap and `complete` False."""
    _check_version(stream.readline(len(frames.MAGIC) + 16), name)
    loader = _Loader()
    reason = "the process that wrote it was killed, or the disk was full"
    try:
        while frame := frames.unpack(stream):
            loader.apply(*frame)
    except Damaged as damage:
        if str(damage) != "cut":
            reason = "it is damaged there, and what follows cannot be trusted"
    return loader.finish(name, reason)


def _check_version(line: bytes, name: str) -> None:
    number = line[len(frames.MAGIC) :].strip()
    if not line.startswith(frames.MAGIC) or not number.isdigit():
        raise KvdoctorError(f"{name} is not a kvdoctor recording", "make one with: kvdoctor record --url URL")
    if int(number) > frames.VERSION:
        raise KvdoctorError(
            f"{name} was written by a newer kvdoctor (format {int(number)}, this one reads {frames.VERSION})",
            "upgrade: pip install -U kvdoctor",
        )


class _Loader:
    def __init__(self) -> None:
        self.recording = Recording(version=frames.VERSION, kvdoctor="", wall=0.0)
        self.ended = False
        self._changes = 0
        self._documents = 0
        self._kinds: dict[bytes, Callable[[bytes], None]] = {
            frames.HEAD: self._head,
            frames.SOURCE: self._source,
            frames.SERIES: self._series,
            frames.READING: self._reading,
            frames.TEXT: self._text,
            frames.FACTS: self._facts,
            frames.GAPS: self._gaps,
            frames.END: self._end,
        }

    def apply(self, kind: bytes, plain: bytes) -> None:
        """Take in one frame; Damaged when it says what cannot be."""
        self._documents += len(plain) if kind != frames.READING else 0
        if self._documents > MAX_DOCUMENTS:
            raise Damaged("too large")
        try:
            self._kinds[kind](plain)
        except (
            ValueError,
            KeyError,
            IndexError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as error:
            raise Damaged(str(error)) from None

    def finish(self, name: str, reason: str) -> Recording:
        """Return what was read; where the end is missing, with a gap."""
        recording = self.recording
        if not self.ended:
            recording.complete = False
            recording.gaps.append(Gap(name, f"the recording breaks off: {reason}", "record again"))
            took = [t for source in recording.sources for t in source.took]
            size = sum(sum(source.size) for source in recording.sources)
            recording.cost = Cost(0.0, size, max(took, default=0.0))
        return recording

    def _head(self, plain: bytes) -> None:
        head = json.loads(plain)
        self.recording.kvdoctor, self.recording.wall = str(head["kvdoctor"]), finite(head["wall"])

    def _source(self, plain: bytes) -> None:
        entry = json.loads(plain)
        role = None if entry["role"] is None else str(entry["role"])
        self.recording.sources.append(
            Source(str(entry["name"]), str(entry["kind"]), finite(entry["wall"]), role)
        )

    def _series(self, plain: bytes) -> None:
        entry = json.loads(plain)
        columns = self._of(entry["source"]).columns
        new = [
            Column(str(name), tuple((str(k), str(v)) for k, v in labels), str(kind))
            for name, labels, kind in entry["series"]
        ]
        if entry["first"] != len(columns):
            raise Damaged("columns out of order")
        columns.extend(new)

    def _reading(self, plain: bytes) -> None:
        number, at, took, size, ids, values = frames.unpack_reading(plain)
        source = self._of(number)
        self._changes += len(ids) + 1
        if self._changes > MAX_CHANGES or (ids and max(ids) >= len(source.columns)):
            raise Damaged("a column that was never named, or too many changes")
        if not (math.isfinite(at) and math.isfinite(took)) or (source.at and at < source.at[-1]):
            raise Damaged("a time that cannot be")
        if len(set(ids)) != len(ids):
            raise Damaged("a column twice in one reading")
        add_reading(source, at=at, took=took, size=size, ids=ids, values=values)

    def _text(self, plain: bytes) -> None:
        entry = json.loads(plain)
        self._of(entry["source"]).texts[str(entry["key"])] = str(entry["text"])

    def _facts(self, plain: bytes) -> None:
        self.recording.facts.update({str(k): str(v) for k, v in json.loads(plain).items()})

    def _gaps(self, plain: bytes) -> None:
        self.recording.gaps = [
            Gap(str(g["source"]), str(g["reason"]), str(g["cure"])) for g in json.loads(plain)
        ]

    def _end(self, plain: bytes) -> None:
        end = json.loads(plain)
        self.recording.cost = Cost(
            finite(end["cpu_seconds"]), int(end["bytes"]), finite(end["longest_read_seconds"])
        )
        self.recording.complete = bool(end["complete"])
        self.ended = True

    def _of(self, number: int) -> Source:
        if number < 0:
            raise Damaged("no such source")
        return self.recording.sources[number]


def finite(value: object) -> float:
    """Return a value as a number; ValueError or TypeError for what is none, or has no end."""
    number = float(str(value))
    if not math.isfinite(number):
        raise ValueError("not a number")
    return number
