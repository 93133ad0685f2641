"""vLLM's periodic lines that a terminal broke in two, made whole again."""

from __future__ import annotations

import re

_HEAD = b"Avg prompt throughput: "
_WHOLE = re.compile(rb"generation throughput: [^\n]*KV cache usage: [\d.]+%")
MOST = 1000
"""Bytes of a line and the one after it that may have been one: no more are searched."""


def unwrapped(text: bytes) -> bytes:
    """Join such lines, and leave an empty line behind the whole: lines keep their numbers."""
    at, made = text.find(_HEAD), None
    while at >= 0:
        end = text.find(b"\n", at)
        after = text.find(b"\n", end + 1)
        after = len(text) if after < 0 else after
        if end < 0:
            break
        if after - at <= MOST and _one(text, at, end, after):
            made = bytearray(text) if made is None else made
            made[end:after] = text[end + 1 : after] + b"\n"
        at = text.find(_HEAD, end)
    return text if made is None else bytes(made)


def _one(text: bytes, at: int, end: int, after: int) -> bool:
    """Say whether a line that begins at `at` is whole only together with the line after it."""
    line, rest = text[at:end], text[end + 1 : after]
    return not _WHOLE.search(line) and _HEAD not in rest and bool(_WHOLE.search(line + rest))
