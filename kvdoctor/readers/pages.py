"""Metrics pages in a file: one alone, or a series of them, each behind a line with its time."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from kvdoctor.errors import KvdoctorError
from kvdoctor.export import FAILED, MARK, NOTE
from kvdoctor.exposition import MAX_TEXT
from kvdoctor.readers.opened import READABLE
from kvdoctor.secrets import clean, mask_url

PIECE = 2**20
MAX_SKIPPED = 4 * MAX_TEXT
"""Bytes that are passed over in search of the next mark."""
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_SPLIT = b"\n" + MARK


@dataclass(slots=True)
class Page:
    """One page, and what was noted with it."""

    text: bytes
    wall: float | None = None
    """Seconds since 1970, None when the file does not tell."""
    took: float = 0.0
    failed: str = ""
    """Why there is no page."""
    notes: list[tuple[str, object]] = field(default_factory=list)


def pages_of(stream: BinaryIO) -> Iterator[Page]:
    """Yield the pages of a file. What stands before the first mark comes first, without a time."""
    first = True
    for block in _blocks(stream):
        if first:
            first = False
            if block.strip():
                yield Page(block)
            continue
        mark, _, text = block.partition(b"\n")
        yield _page(mark, text)


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Split a file at its marks; of a block that is longer than any page, only the beginning is kept."""
    held: list[bytes] = []  # of the block under way, what can hold no part of a mark; `rest` may
    rest, size, skipping = b"\n", 0, False
    while piece := stream.read(PIECE):
        *whole, rest = (rest + piece).split(_SPLIT)
        for block in whole:
            if not skipping:
                yield b"".join((*held, block, b"\n"))
            held, size, skipping = [], 0, False
        done = max(0, len(rest) - len(_SPLIT))
        size += done
        if not skipping:
            held.append(rest[:done])
        rest = rest[done:]
        if size > MAX_TEXT and not skipping:
            yield b"".join(held)
            held, skipping = [], True
        if size > MAX_SKIPPED:
            return
    if not skipping:
        yield b"".join((*held, rest))


def _page(mark: bytes, text: bytes) -> Page:
    fields = mark.split()
    page = Page(text)
    try:
        page.wall = float(fields[0])
        page.took = float(fields[1]) / 1000 if len(fields) > 1 else 0.0
    except (ValueError, IndexError):
        page.wall = math.nan
    if not (math.isfinite(page.wall) and math.isfinite(page.took)):
        page.failed, page.wall, page.took = "its time could not be read", None, 0.0
    while text.startswith((FAILED, NOTE)):
        line, _, text = text.partition(b"\n")
        if line.startswith(FAILED):
            page.failed = mask_url(clean(line[len(FAILED) :].decode("utf-8", "replace")))[:200] or "it failed"
        else:
            page.notes.extend(_note(line))
    page.text = text
    return page


def _note(line: bytes) -> Iterator[tuple[str, object]]:
    try:
        note = json.loads(line[len(NOTE) :])
    except (ValueError, RecursionError):
        return
    if isinstance(note, dict):
        yield from note.items()


_JSON = re.compile(rb"\{|\[\s*(?:[\[{\"\]]|-?\d+(?:\.\d+)?\s*[,\]])")
"""How JSON begins; a log's line may begin with a time in brackets."""


def foreign(name: str, text: bytes) -> KvdoctorError:
    """Return the error for a file that is no metrics page, naming what it looks like."""
    start = text[:4096].lstrip()
    first = clean(start.partition(b"\n")[0][:60].decode("utf-8", "replace"))
    if start.startswith(_UTF_16):
        return KvdoctorError(
            f"{name} is UTF-16 text", "save it as UTF-8 (PowerShell: Out-File -Encoding utf8)"
        )
    what = f"is neither a kvdoctor recording nor a metrics page; it begins with: {first}"
    if b"\0" in start:
        what = "is binary, and no kvdoctor recording"
    elif start.startswith(b"<"):
        what = "is a web page, not a metrics page"
    elif _JSON.match(start):
        what = "is JSON, not a metrics page"
    elif not start:
        what = "is empty"
    return KvdoctorError(f"{name} {what}", READABLE)
