"""Near-valid input: a real text with a few things in it that no writer of such texts would write."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from benchmarks.fuzz_feed import CUT

MOST_EDITS = 6
NUMBERS = (
    "0", "-1", "1e308", "-1e308", "1e-320", "1e999", "NaN", "+Inf", "-Inf", "Infinity", "1_000", "0x10", "１２",
    "9" * 20, "9" * 400, "9" * 5000, "1.", ".5", "-0", "18446744073709551616", "true", "null",
)  # fmt: skip
TEXTS = (
    "\x1b]0;title\x07", "\x1b[2J\x1b[31m", "\x9b31m", "\u202eevil", "\u2028", "\x00", "\r", "{{7*7}}",
    "[bold]x[/bold]", "<script>alert(1)</script>", "| a | b |", "$x^2$", "%s%n", "../../etc/passwd", "a" * 3000, "",
    " ", "\ufeff", "\ud800",
)  # fmt: skip
BYTES = (
    b"\xff\xfe", b"\x00", b"\x00" * 40, b"\x1f\x8b\x08\x00", b"\n", b"\r\n", b"\n\n", CUT, b"\n#@ 1 1\n",
    b"\n#@ nan 1\n", b"\n#@ -1e308 0\n", b"\n#! failed \x1b[31m\n", b'\n#= {"source":{}}\n', b"\n# before\n",
    b"# TYPE x histogram\n", b'{le="+Inf"}', b'{le="x"}', b'{a="', b"}", b"{", b"[" * 3000, b'{"a":' * 1500,
    b'"', b"\\", b"\\u0000", b"=", b",", b"2024-01-01T00:00:00Z ", b"9999-99-99 99:99:99 ",
    b"\x1b[36m(EngineCore_DP0 pid=1)\x1b[0m ", b"a" * 20_000,
)  # fmt: skip
PREFIXES = (
    b"2026-11-29T10:00:00.123456789Z stdout F ", b"[pod/vllm-0/server] ", b"vllm-1  | ", b"\x1b[1;36m",
    b'{"log":"', b"Nov 29 10:00:00 host vllm[1]: ", b"(EngineCore_DP1 pid=2) ",
)  # fmt: skip
_values: SearchStrategy[object] = (
    st.sampled_from(
        [None, True, False, 0, -1, 0.5, 1e308, -1e308, 10**400, float("nan"), float("inf"), [], {}]
    )
    | st.sampled_from(NUMBERS)
    | st.sampled_from(TEXTS)
    | st.integers()
    | st.floats()
    | st.lists(st.none() | st.integers() | st.text(max_size=3), max_size=3)
    | st.dictionaries(st.text(max_size=3), st.integers() | st.none(), max_size=2)
)


def near(seeds: Sequence[bytes]) -> SearchStrategy[bytes]:
    """Real texts with some edits, and now and then bytes of any kind."""

    @st.composite
    def made(draw: DrawFn) -> bytes:
        data = draw(st.sampled_from(seeds))
        for _ in range(draw(st.integers(0, MOST_EDITS))):
            data = draw(st.sampled_from(_EDITS))(draw, data, seeds)
        return data

    return made() | st.binary(max_size=200)


def _place(draw: DrawFn, data: bytes) -> int:
    return draw(st.integers(0, len(data)))


def _token(draw: DrawFn) -> bytes:
    text = st.sampled_from(NUMBERS) | st.sampled_from(TEXTS)
    return draw(st.sampled_from(BYTES) | text.map(lambda t: t.encode("utf-8", "surrogatepass")))


def _insert(draw: DrawFn, data: bytes, seeds: Sequence[bytes]) -> bytes:
    at = _place(draw, data)
    return data[:at] + _token(draw) + data[at:]


def _replace(draw: DrawFn, data: bytes, seeds: Sequence[bytes]) -> bytes:
    at, size = _place(draw, data), draw(st.integers(1, 40))
    return data[:at] + _token(draw) + data[at + size :]


def _number(draw: DrawFn, data: bytes, seeds: Sequence[bytes]) -> bytes:
    """Put another number in the place of one."""
    at = _place(draw, data)
    while at < len(data) and not data[at : at + 1].isdigit():
        at += 1
    end = at
    while end < len(data) and (data[end : end + 1].isdigit() or data[end : end + 1] == b"."):
        end += 1
    return data[:at] + draw(st.sampled_from(NUMBERS)).encode() + data[end:]


def _value(draw: DrawFn, data: bytes, seeds: Sequence[bytes]) -> bytes:
    """Put another value at the end of some lines."""
    lines = data.split(b"\n")
    for _ in range(draw(st.sampled_from((1, 1, 2, 8)))):
        at = draw(st.integers(0, len(lines) - 1))
        lines[at] = lines[at].rpartition(b" ")[0] + b" " + draw(st.sampled_from(NUMBERS)).encode()
    return b"\n".join(lines)


def _label(draw: DrawFn, data: bytes, seeds: Sequence[bytes]) -> bytes:
    """Put another value between two quotes."""
    parts = data.split(b'"')
    at = 2 * draw(st.integers(0, max(0, (len(parts) - 2) // 2))) + 1
    return b'"'.join([*parts[:at], _token(draw), *parts[at + 1 :]]) if at < len(parts) else data


def _drop(draw: DrawFn, data: bytes, seeds: Sequence[bytes]) -> bytes:
    at, size = _place(draw, data), draw(st.integers(1, 2000))
    return data[:at] + data[at + size :]


def _flip(draw: DrawFn, data: bytes, seeds: Sequence[bytes]) -> bytes:
    at = _place(draw, data)
    return data[:at] + bytes(b ^ draw(st.integers(1, 255)) for b in data[at : at + 1]) + data[at + 1 :]


def _cut(draw: DrawFn, data: bytes, seeds: Sequence[bytes]) -> bytes:
    return data[: _place(draw, data)]


def _again(draw: DrawFn, data: bytes, seeds: Sequence[bytes]) -> bytes:
    at, size = _place(draw, data), draw(st.integers(1, 2000))
    return data + data[at : at + size]


def _splice(draw: DrawFn, data: bytes, seeds: Sequence[bytes]) -> bytes:
    other = draw(st.sampled_from(seeds))
    return data[: _place(draw, data)] + other[_place(draw, other) :]


def _lines(draw: DrawFn, data: bytes, seeds: Sequence[bytes]) -> bytes:
    """Shuffle neighbouring lines, and put a container's words before them."""
    lines = data.split(b"\n")
    at = draw(st.integers(0, len(lines)))
    some = draw(st.permutations(lines[at : at + 6]))
    prefix = draw(st.sampled_from((b"", *PREFIXES)))
    return b"\n".join([*lines[:at], *(prefix + line for line in some), *lines[at + 6 :]])


def _pieces(draw: DrawFn, data: bytes, seeds: Sequence[bytes]) -> bytes:
    """Leave an answer out, or give it twice."""
    pieces = data.split(CUT)
    at = draw(st.integers(0, len(pieces) - 1))
    return CUT.join([*pieces[:at], *pieces[at : at + 1] * draw(st.sampled_from((0, 2))), *pieces[at + 1 :]])


def _document(draw: DrawFn, data: bytes, seeds: Sequence[bytes]) -> bytes:
    """Put another value into a JSON document; a frame has its kind in front of it."""
    pieces = data.split(CUT)
    at = draw(st.integers(0, len(pieces) - 1))
    text = pieces[at]
    kind = text[:1] if text[:1] not in (b"{", b"[") else b""
    try:
        found = json.loads(text[len(kind) :])
    except (ValueError, RecursionError):
        return data
    pieces[at] = kind + json.dumps(_mangled(draw, found)).encode()
    return CUT.join(pieces)


def _mangled(draw: DrawFn, value: object) -> object:
    """Go down a document by chance, and put something else where the way ends."""
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(value)))
        if not draw(st.integers(0, 7)):
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: _mangled(draw, value[key])}
    if isinstance(value, list) and value and draw(st.integers(0, 5)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], _mangled(draw, value[at]), *value[at + 1 :]]
    return draw(_values)


def _zipped(draw: DrawFn, data: bytes, seeds: Sequence[bytes]) -> bytes:
    return gzip.compress(data, 1, mtime=0)


_EDITS: tuple[Callable[[DrawFn, bytes, Sequence[bytes]], bytes], ...] = (
    _insert, _replace, _number, _value, _value, _label, _drop, _flip, _cut, _again, _splice, _lines, _pieces, _document,
    _document, _document, _zipped,
)  # fmt: skip
