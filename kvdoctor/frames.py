"""The format of a recording on disk: a line that names it, then frames that check themselves.

A frame is its kind (1 byte), the length and the CRC-32 of its payload (4 bytes each, little-endian), and the
payload, a zlib stream. A file is believed up to the first frame that is cut or damaged: a reading holds only
what changed, so nothing behind a hole can be trusted.
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array
from typing import BinaryIO

MAGIC = b"kvdoctor recording "
VERSION = 1
HEAD, SOURCE, SERIES, READING, TEXT, FACTS, GAPS, END = b"H", b"S", b"D", b"R", b"T", b"F", b"G", b"E"
KINDS = frozenset((HEAD, SOURCE, SERIES, READING, TEXT, FACTS, GAPS, END))
MAX_PLAIN = 32 * 2**20
"""A reading of 200,000 series that all changed is 2.4 MB, the rest is smaller: a guard against zip bombs."""

_FRAME = struct.Struct("<cII")
_READING = struct.Struct("<IddQI")
"""Source, `at`, `took`, bytes, number of changes; then the columns' numbers, then their values."""


class Damaged(Exception):
    """A frame that is cut, or that says what cannot be."""


def pack(kind: bytes, plain: bytes) -> bytes:
    """Return a whole frame."""
    payload = zlib.compress(plain, 6)
    return _FRAME.pack(kind, len(payload), zlib.crc32(kind + payload)) + payload


def unpack(stream: BinaryIO) -> tuple[bytes, bytes] | None:
    """Read the next frame: its kind and its plain bytes; None at the end of the file.

    Raises Damaged for a frame that is cut, altered, of an unknown kind or too large.
    """
    head = stream.read(_FRAME.size)
    if not head:
        return None
    if len(head) < _FRAME.size:
        raise Damaged("cut")
    kind, length, crc = _FRAME.unpack(head)
    if kind not in KINDS or length > MAX_PLAIN:
        raise Damaged("no frame")
    payload = stream.read(length)
    if len(payload) < length:
        raise Damaged("cut")
    if zlib.crc32(kind + payload) != crc:
        raise Damaged("altered")
    return kind, _inflate(payload)


def pack_reading(
    source: int, at: float, took: float, size: int, changes: tuple[array[int], array[float]]
) -> bytes:
    """Return a reading as plain bytes."""
    ids, values = changes
    return _READING.pack(source, at, took, size, len(ids)) + _little(ids) + _little(values)


def unpack_reading(plain: bytes) -> tuple[int, float, float, int, array[int], array[float]]:
    """Return source, at, took, bytes, columns and values of a reading; Damaged when the lengths disagree."""
    if len(plain) < _READING.size:
        raise Damaged("short")
    source, at, took, size, count = _READING.unpack_from(plain)
    middle = _READING.size + 4 * count
    if len(plain) != middle + 8 * count:
        raise Damaged("lengths disagree")
    ids, values = array("I"), array("d")
    ids.frombytes(plain[_READING.size : middle])
    values.frombytes(plain[middle:])
    if sys.byteorder == "big":
        ids.byteswap()
        values.byteswap()
    return source, at, took, size, ids, values


def _little(numbers: array[int] | array[float]) -> bytes:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def _inflate(payload: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(payload, MAX_PLAIN)
    except zlib.error as error:
        raise Damaged(str(error)) from None
    if not stream.eof:
        raise Damaged("too large, or no whole zlib stream")
    return plain
