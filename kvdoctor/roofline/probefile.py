"""The file of a probe's results: which of its lines says how fast memory is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from kvdoctor.errors import Misuse
from kvdoctor.roofline.measured import Measured, number, of_result

# A file of a probe is a few kilobytes.
_LARGEST_FILE = 16 * 2**20
_RATE_KEYS = ("achieved_bytes_per_s", "bytes_per_s")
READERS = ("decode", "hbm")
"""Probes that measure how fast memory is read, the one that is preferred first."""
_LARGE = "kvdoctor probe decode, or probe hbm where the machine tells its caches"
_CURE = "give the JSON of kvdoctor probe decode or kvdoctor probe hbm"


def measured_in(path: Path) -> Measured:
    """What a probe's file (JSON, or one JSON object a line) says of the read rate.

    Decode goes before a plain read, and the fastest of several counts: a ceiling lies above all that was measured.
    A file of another tool gives the best of its `achieved_bytes_per_s` or `bytes_per_s`.
    Raises Misuse where the file can't be read or holds no read rate of memory.
    """
    documents = _documents(_text(path), path)
    results = [one for one in documents if isinstance(one, dict) and "probe" in one]
    if not results:
        rate = max(rates_in(documents), default=0.0)
        if not rate:
            raise Misuse(f"{path} holds no rate", _CURE)
        return Measured("", rate)
    for name in READERS:
        of_it = [
            found
            for one in results
            if one["probe"] == name and not _cached(one) and (found := of_result(one))
        ]
        if of_it:
            return max(of_it, key=lambda found: found.bytes_per_s)
    raise _nothing(results, path)


def _nothing(results: list[dict[str, object]], path: Path) -> Misuse:
    """Why none of a file's results will do: it was refused, it failed, or it measures something else."""
    for one in results:
        if _cached(one):
            return Misuse(
                f"{path}: caches may have answered a part of what was read, so it is no ceiling", _LARGE
            )
        why = one.get("refused") or one.get("failed")
        if one["probe"] in READERS and isinstance(why, dict):
            return Misuse(
                f"{path}: the probe {one['probe']} measured nothing: {why.get('reason')}",
                str(why.get("cure", "")) or _CURE,
            )
    names = ", ".join(sorted({str(one["probe"]) for one in results}))
    return Misuse(f"{path} holds results of {names}, and none of how fast memory is read", _CURE)


def _cached(result: dict[str, object]) -> bool:
    """Whether a result says that its rate may be partly that of caches."""
    about = result.get("conditions")
    return isinstance(about, dict) and bool(about.get("possible_cache_reading"))


def _text(path: Path) -> str:
    """The file's text."""
    try:
        with path.open("rb") as file:
            found = file.read(_LARGEST_FILE + 1)
        text = found.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Misuse(f"{path} is no text", _CURE) from error
    except OSError as error:
        raise Misuse(f"{path} can't be read: {error.strerror}", _CURE) from error
    if len(found) > _LARGEST_FILE:
        raise Misuse(f"{path} is too large for a probe's result", _CURE)
    return text


def _documents(text: str, path: Path) -> list[object]:
    """One JSON document, or one a line."""
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):
        lines = [line for line in text.splitlines() if line.strip()]
    try:
        return [json.loads(line) for line in lines]
    except (ValueError, RecursionError) as error:
        raise Misuse(f"{path} is not JSON: {error}", _CURE) from error


def rates_in(node: object) -> Iterator[float]:
    """Every rate in a tool's JSON, at any depth: `achieved_bytes_per_s`, else the rows' `bytes_per_s`."""
    if isinstance(node, dict):
        for key in _RATE_KEYS:
            if (value := number(node.get(key))) > 0:
                yield value
                return
        for inner in node.values():
            yield from rates_in(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from rates_in(inner)
