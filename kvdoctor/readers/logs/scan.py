"""Finds the lines that say something in a log of any length, in one pass and little memory."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import BinaryIO

from kvdoctor.readers.logs.line import Line
from kvdoctor.readers.logs.wrapped import unwrapped

PIECE = 4 * 2**20
KEPT = 20_000
"""Lines of one kind that are kept, the newest ones: two days of vLLM's line every 10 s."""
MAX_START = 200
"""Lines of one kind that an engine writes at its start: likewise the newest."""
MAX_LINE = 16 * 2**10
"""Bytes of a line that are looked at: vLLM's whole configuration is some 5 KB."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One line that says something."""

    number: int
    """Of the line in its file, from 1."""
    text: bytes
    line: Line


@dataclass(slots=True)
class Scan:
    """What a file holds of the known lines."""

    hits: list[Hit] = field(default_factory=list)
    """In the order of the file; of kinds that came too often, the newest."""
    dropped: int = 0
    lines: int = 0
    marks: list[tuple[int, str]] = field(default_factory=list)
    """Lines that someone put in to part two situations: number, text."""


def scan(stream: BinaryIO, kinds: tuple[Line, ...]) -> Scan:
    """Read a log to its end."""
    found: list[deque[Hit]] = [deque(maxlen=MAX_START if kind.start else KEPT) for kind in kinds]
    seen = [0] * len(kinds)
    scanned, rest = Scan(), b""
    while piece := stream.read(PIECE):
        text = rest + piece if rest else piece
        cut = text.rfind(b"\n") + 1
        if not cut and len(text) <= PIECE:
            rest = text
            continue
        cut = cut or len(text)
        rest = text[cut:]
        _piece(text[:cut], kinds, found, seen, scanned)
    _piece(rest, kinds, found, seen, scanned)
    scanned.lines += bool(rest)
    scanned.hits = sorted((hit for kept in found for hit in kept), key=lambda hit: hit.number)
    scanned.dropped = sum(seen) - sum(len(kept) for kept in found)
    return scanned


def _piece(
    text: bytes, kinds: tuple[Line, ...], found: list[deque[Hit]], seen: list[int], scanned: Scan
) -> None:
    before = scanned.lines
    text = unwrapped(text)
    for number, kind in enumerate(kinds):
        seen[number] += _kind(text, kind, found[number], before)
    if b"\n# " in text or text.startswith(b"# "):
        scanned.marks.extend(_marks(text, before))
    scanned.lines += text.count(b"\n")


def _kind(text: bytes, kind: Line, kept: deque[Hit], before: int) -> int:
    """Take in the lines of one kind; return how many there were."""
    needle, count, line, counted = kind.needle, 0, before + 1, 0
    at = text.find(needle)
    while at >= 0:
        start = text.rfind(b"\n", 0, at) + 1
        line += text.count(b"\n", counted, start)
        counted = start
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        if not kind.needs or text.find(kind.needs, start, end) >= 0:
            kept.append(Hit(line, text[max(start, at - MAX_LINE // 2) : min(end, at + MAX_LINE // 2)], kind))
            count += 1
        at = text.find(needle, end)
    return count


MAX_MARKS = 20


def _marks(text: bytes, before: int) -> list[tuple[int, str]]:
    """Return lines such as `# before` and `# with the fix`; a metrics page's own comments are none."""
    marks = []
    for number, line in enumerate(text[: 2**20].split(b"\n"), before + 1):
        if line.startswith(b"# ") and not line.startswith((b"# HELP", b"# TYPE", b"# EOF", b"# UNIT")):
            marks.append((number, line[2:60].decode("utf-8", "replace").strip()))
    return marks if len(marks) <= MAX_MARKS else []
