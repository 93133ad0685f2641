"""Engines' logs: what their lines say, as readings, each with the number of its line."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from kvdoctor import __version__
from kvdoctor import logmetrics as lm
from kvdoctor.export import MARK
from kvdoctor.frames import VERSION
from kvdoctor.model import Cost, Gap
from kvdoctor.quantity import Kind
from kvdoctor.readers.logs import LINES
from kvdoctor.readers.logs.iterations import MAX_TEXT, is_iterations, iteration_lines
from kvdoctor.readers.logs.parse import Statement, parse
from kvdoctor.readers.logs.scan import KEPT, Scan, scan
from kvdoctor.readers.opened import Opened
from kvdoctor.recording import Column, Labels, Recording, Source, add_reading
from kvdoctor.secrets import clean

KIND = "log"
USUAL_STEP = 10.0
"""Seconds assumed between two lines without times where their kind has no usual distance: vLLM's is 10 s."""
_ROTATED = re.compile(r"(?:\.\d{1,3}|[._-]\d{8}(?:[T_-]?\d{2,6})?|[._-]\d{4}-\d\d-\d\d(?:[T_-][\d-]{2,8})?)$")
_PACKED = (".gz", ".log", ".txt", ".out")
START = "log:start_created"
"""Changes when an engine started anew: named as exporters name the time at which a counter was made."""


_SAMPLE = re.compile(
    rb"\s*(?:[A-Za-z_:][\w:.]*(?:\{.*\})?|\{.*\})\s+[-+0-9.eEinfINFa]+(?:\s+-?\d+)?\s*$|# (?:HELP|TYPE) "
)
MOSTLY = 0.2
"""Share of lines that read as samples from which a text is taken for metrics."""


def is_log(head: bytes) -> bool:
    """Say whether a text that begins so is to be read as a log: it is text, and hardly any line is a sample."""
    if b"\0" in head or MARK in head or head.lstrip()[:1] == b"<":
        return False
    if any(line.needle in head for line in LINES):
        return True
    if head.lstrip().startswith((b"{", b"[{")):
        return b'"log":' in head
    lines = [line for line in head.split(b"\n") if line.strip()][:200]
    samples = sum(1 for line in lines if _SAMPLE.match(line[:2000]))
    return bool(lines) and samples < MOSTLY * len(lines)


@dataclass(slots=True)
class _Part:
    """One file, or one situation in it."""

    name: str
    stem: str
    process: str
    modified: float
    statements: list[Statement] = field(default_factory=list)

    @property
    def first(self) -> float:
        return next((s.wall for s in self.statements if s.wall is not None), self.modified)


class Logs:
    """Collects logs; parts of one log are brought together, in whatever order they are named."""

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._gaps: list[Gap] = []
        self._size = 0

    def add(self, file: Opened) -> bool:
        """Take in a log; False when no line in it is known."""
        head = file.stream.peek(1)
        stream: BinaryIO = file.stream
        if is_iterations(head):
            stream = io.BytesIO(iteration_lines(file.stream.read(MAX_TEXT)))
        found = scan(stream, LINES)
        statements = [s for hit in found.hits if (s := parse(hit, file.modified)) is not None]
        if not statements:
            return False
        for situation, some in _situations(found, statements):
            self._add(file, situation, some)
        if found.dropped:
            why = f"{found.dropped} older lines were left out: of each kind, {KEPT} are kept"
            self._gaps.append(Gap(file.name, why, "give the part of the log that is in question"))
        if file.trouble:
            self._gaps.append(Gap(file.name, file.trouble, "copy it again"))
        return True

    def recordings(self) -> list[Recording]:
        """Return one recording a process, an engine's rotated parts joined."""
        groups: dict[tuple[str, str], list[_Part]] = {}
        for part in self._parts:
            groups.setdefault((part.stem, part.process), []).append(part)
        return [self._recording(parts, n) for n, parts in enumerate(groups.values())]

    def _add(self, file: Opened, situation: str, statements: Iterable[Statement]) -> None:
        parts: dict[str, _Part] = {}
        for statement in statements:
            if statement.process not in parts:
                stem = f"{_stem(file.name)} {situation}".strip()
                parts[statement.process] = _Part(file.name, stem, statement.process, file.modified)
            parts[statement.process].statements.append(statement)
        self._parts.extend(parts.values())

    def _recording(self, parts: list[_Part], number: int) -> Recording:
        ordered = sorted(parts, key=lambda part: part.first)
        name = " ".join(filter(None, (ordered[-1].stem, ordered[-1].process)))
        source, untimed = _source(name, ordered)
        gaps = [] if number else list(self._gaps)
        if untimed:
            why = "its lines carry no time: the usual distance between such lines is assumed"
            gaps.append(Gap(name, why, "switch the time stamps of the logger, or of the container, on"))
        return Recording(VERSION, __version__, source.wall, [source], gaps, {}, Cost(), not self._gaps)


def _stem(name: str) -> str:
    """Return a name without what log rotation adds to it."""
    while name.endswith(_PACKED) or _ROTATED.search(name):
        shorter = _ROTATED.sub("", name)
        for ending in _PACKED:
            shorter = shorter.removesuffix(ending)
        if not shorter:
            break
        name = shorter
    return name


def _situations(found: Scan, statements: Sequence[Statement]) -> Iterable[tuple[str, list[Statement]]]:
    """Part a log at lines such as `# before` and `# after`, where each part says something."""
    edges = [0, *(number for number, _ in found.marks), found.lines + 1]
    names = ["", *(text for _, text in found.marks)]
    parts = [
        (name, [s for s in statements if low <= s.number < high])
        for name, low, high in zip(names, edges, edges[1:], strict=False)
    ]
    filled = [(name, some) for name, some in parts if some]
    return filled if len(filled) > 1 else [("", list(statements))]


def _source(name: str, parts: Sequence[_Part]) -> tuple[Source, bool]:
    """Build the source of one process; say too whether its times had to be assumed."""
    statements = [(part, s) for part in parts for s in part.statements]
    untimed = all(s.wall is None for _, s in statements)
    wall = next((s.wall for _, s in statements if s.wall is not None), parts[0].modified)
    source = Source(name, KIND, wall)
    writer = _Writer(source)
    many = len({part.name for part in parts}) > 1
    for part, statement in statements:
        writer.add(statement, part.name if many else "")
    source.texts.update(_about(statement for _, statement in statements))
    return source, untimed


_ABOUT = (
    ("version", re.compile(rb"engine \(v([\w.+-]{1,40})\)")),
    ("model", re.compile(rb"\bmodel(?:_path)?='?\"?([^'\",\s]{1,200})")),
)


def _about(statements: Iterable[Statement]) -> dict[str, str]:
    """Return version and model as the newest start tells them."""
    found = {}
    for statement in statements:
        for key, pattern in _ABOUT if statement.hit.line.start else ():
            told = pattern.search(statement.hit.text)
            if told:
                found[key] = clean(told[1].decode("utf-8", "replace"))
    return found


class _Writer:
    """Writes statements into the columns of a source."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._columns: dict[tuple[str, Labels], int] = {}
        self._counts: dict[int, float] = {}
        self._at = 0.0
        self._running = False

    def add(self, statement: Statement, file: str) -> None:
        """Add one line as one reading, at its time or a usual distance after the one before."""
        kind = statement.hit.line
        if statement.wall is not None:
            self._at = max(self._at, statement.wall - self._source.wall)
        elif self._source.at:
            self._at += kind.seconds or (0.0 if kind.start else USUAL_STEP)
        values: dict[int, float] = {}
        self._start(values, kind.start)
        labels: Labels = (("engine", kind.engine), ("rank", statement.rank), *kind.labels)
        for quantity, value in statement.values:
            number = self._column(lm.raw(quantity), labels, quantity.kind.value)
            if quantity.kind is Kind.COUNTER:
                value = self._counts[number] = self._counts.get(number, 0.0) + value
            values[number] = value
        values[self._column(lm.LINE, (("file", file),) if file else (), "gauge")] = statement.number
        self._append(values, len(statement.hit.text))

    def _start(self, values: dict[int, float], starts: bool) -> None:
        """Note an engine's start, the first of its lines: what was said before is of a process that is gone."""
        if (starts and self._running) or not self._source.at:
            gone = (n for n, c in enumerate(self._source.columns) if c.name not in (lm.LINE, START))
            values.update(dict.fromkeys(gone, math.nan))
            self._counts.clear()
            values[self._column(START, (), "gauge")] = self._at if starts else -1.0
        self._running = not starts

    def _column(self, name: str, labels: Labels, kind: str) -> int:
        key = (name, labels)
        if key not in self._columns:
            self._columns[key] = len(self._source.columns)
            self._source.columns.append(Column(name, labels, kind))
        return self._columns[key]

    def _append(self, values: dict[int, float], size: int) -> None:
        add_reading(self._source, at=self._at, took=0.0, size=size, ids=values.keys(), values=values.values())
