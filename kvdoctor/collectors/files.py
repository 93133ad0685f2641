"""Small files of /proc and /sys, read with a limit and with a reason when they cannot be."""

from __future__ import annotations

import os

from kvdoctor.errors import Unavailable

LIMIT = 64 * 2**10
"""Bytes that are read of one file; more is cut off."""
TABLE_LIMIT = 4 * 2**20
"""The same for tables with a line a mount, a disk or a CPU, of large hosts."""

ROOT_CURE = "run kvdoctor as the same user as the engine, or as root"


def read(path: str, limit: int = LIMIT) -> str:
    """Return a small file's text. FileNotFoundError, ProcessLookupError, PermissionError as they come."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(file, limit)
        while len(data) >= 4096 and len(data) < limit:  # /proc gives a page at a time
            more = os.read(file, limit - len(data))
            if not more:
                break
            data += more
    finally:
        os.close(file)
    return data.decode("utf-8", "replace")


def required(path: str, limit: int = LIMIT) -> str:
    """Return a small file's text; Unavailable says why it cannot be read."""
    try:
        return read(path, limit)
    except PermissionError:
        raise Unavailable(f"{path} may not be read by this user", ROOT_CURE) from None
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror or error}") from None


def optional(path: str, limit: int = LIMIT) -> str | None:
    """Return a small file's text, None where there is none that we may read."""
    try:
        return read(path, limit)
    except OSError:
        return None


def number(path: str) -> float | None:
    """Return the first number of a file, None where there is none; `max` counts as none."""
    text = optional(path, 256)
    try:
        return float(text.split()[0]) if text else None
    except (ValueError, IndexError):
        return None


def pairs(text: str) -> dict[str, float]:
    """Read lines of `key value`, as in cpu.stat; other lines are left out."""
    found = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if value.strip().isdigit():
            found[key] = float(value)
    return found


def cpu_list(text: str) -> frozenset[int]:
    """Read `0-3,8` as CPU numbers; parts that are no numbers are left out."""
    found: set[int] = set()
    for part in text.strip().split(","):
        low, _, high = part.partition("-")
        if low.isdigit() and (high.isdigit() or not high):
            found.update(range(int(low), int(high or low) + 1))
    return frozenset(found)
