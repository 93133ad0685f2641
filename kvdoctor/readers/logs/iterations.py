"""TensorRT-LLM's iteration statistics, a JSON array in one piece, as lines of one iteration each."""

from __future__ import annotations

import json
from collections.abc import Iterator

from kvdoctor.readers.logs.parse import MAX_VALUE

MAX_TEXT = 64 * 2**20
"""Bytes of JSON that are parsed at once."""
_INNER = ("kvCacheStats", "inflightBatchingStats", "specDecodingStats")


def is_iterations(head: bytes) -> bool:
    """Say whether a text that begins so is such an array, or one object of it."""
    return head.lstrip()[:1] in (b"[", b"{") and b'"iterLatencyMS"' in head and b'"log":' not in head


def iteration_lines(text: bytes) -> bytes:
    """Return one line an iteration, inner objects brought up and the share of the pool in use worked out.

    Text that is no JSON is returned as it is: it may be a log with such objects in it.
    """
    try:
        found = json.loads(text[:MAX_TEXT])
    except (ValueError, RecursionError):
        return text
    return b"\n".join(_lines(found if isinstance(found, list) else [found]))


def _lines(objects: list[object]) -> Iterator[bytes]:
    for one in objects:
        if not isinstance(one, dict):
            continue
        inner = [part for name in _INNER if isinstance(part := one.get(name), dict)]
        flat = {str(k): v for part in (one, *inner) for k, v in part.items() if _usable(v)}
        most, used = flat.get("maxNumBlocks"), flat.get("usedNumBlocks")
        if most and used is not None:
            flat["usedShare"] = used / most
        yield json.dumps(flat).encode()


def _usable(value: object) -> bool:
    """Say whether a value is a number that can be reckoned with: JSON has integers of any length."""
    return isinstance(value, int | float) and abs(value) <= MAX_VALUE
