"""One line of the Prometheus text format: what it names, and the number it carries."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvdoctor.recording import Labels

_QUOTED = rb'"(?:[^"\\]|\\.)*"'
_SERIES = re.compile(
    rb"[ \t]*(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)?[ \t]*(?:\{(?P<labels>(?:[^\"}]|"
    + _QUOTED
    + rb")*)\}|(?=[ \t]))"
)
_LABEL = re.compile(
    rb"[ \t]*(?:(?P<key>[a-zA-Z_][a-zA-Z0-9_]*|" + _QUOTED + rb")[ \t]*=[ \t]*)?"
    rb"(?P<value>" + _QUOTED + rb")[ \t]*(?:,[ \t]*|$)"
)
_ESCAPED = re.compile(rb'\\([n"\\])')
_SUFFIXES = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum", "_count"),
    "gaugehistogram": ("_bucket", "_gsum", "_gcount"),
    "summary": ("_sum", "_count"),
    "info": ("_info",),
}


MAX_HEADS = 200_000
"""Lines that are remembered: as many as one source may have series."""


@dataclass(frozen=True, slots=True)
class Head:
    """What stands before the value of a line."""

    key: bytes
    size: int
    """Where the value begins."""
    name: str
    labels: Labels
    series: tuple[str, Labels]
    """Name and sorted labels: equal for one series, however its line is written."""
    damaged: bool
    """True when its bytes were not UTF-8."""


class Heads:
    """Takes lines apart and remembers them: like sources have the same names and labels, which are kept once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Head] = {}

    def of(self, line: bytes) -> Head:
        """Return what stands before the value; ValueError when the line is no sample."""
        before = line.rpartition(b" ")[0]
        known = self._known.get(before)
        if known is not None:
            return known
        key, size, name, labels = series_of(line)
        damaged = "\ufffd" in name or any("\ufffd" in value for _, value in labels)
        head = Head(key, size, name, labels, (name, tuple(sorted(labels))), damaged)
        # With a timestamp behind the value, what stands before the last blank is not the series alone.
        if key == before and len(self._known) < MAX_HEADS:
            self._known[key] = head
        return head


def series_of(line: bytes) -> tuple[bytes, int, str, Labels]:
    """Return the bytes that stand for the series, where the value begins, name and labels.

    Any line that starts with `line[:begin]` and has a value from there on is of the same series.
    Raises ValueError when the line is no sample.
    """
    found = _SERIES.match(line)
    if not found:
        raise ValueError("not a sample")
    name, labels = _names(found["name"], found["labels"])
    return found[0], found.end() + (found["labels"] is None), name, labels


def declared(line: bytes) -> tuple[str, str] | None:
    """Return the family and the type that a `# TYPE` line declares, None for another line."""
    fields = line.split(None, 3) if line.startswith(b"# TYPE ") else ()
    if len(fields) != 4:
        return None
    return fields[2].decode("utf-8", "replace").strip('"'), fields[3].decode("utf-8", "replace").strip()[:32]


def family_type(name: str, types: dict[str, str]) -> str:
    """Return the type of the family that a series belongs to, empty when the text declares none.

    The declared type decides, never the suffix alone: `vllm:iteration_tokens_total` is a histogram.
    `_created` series are gauges in every dialect: Unix times, never to be added up.
    """
    if name in types:
        return types[name]
    for kind, suffixes in _SUFFIXES.items():
        for suffix in suffixes:
            if name.endswith(suffix) and types.get(name[: -len(suffix)]) == kind:
                return kind
    return "gauge" if name.endswith("_created") and name[: -len("_created")] in types else ""


def family_of(name: str, kind: str) -> str:
    """Return the name that a `# TYPE` line of the classic format declares for a series of this type."""
    for suffix in _SUFFIXES.get(kind, ()) if kind not in ("counter", "info") else ():
        if name.endswith(suffix):
            return name[: -len(suffix)]
    return name


def sample_value(text: bytes) -> float:
    """Return the value that stands before an optional timestamp and exemplar; ValueError when it is none."""
    if b"_" not in text:  # Python would read 1_000 as a number
        try:
            return float(text)
        except ValueError:
            pass
    fields = text.partition(b"#")[0].split()
    if not 1 <= len(fields) <= 2 or b"_" in fields[0] or b"_" in fields[-1]:
        raise ValueError("not a value")
    float(fields[-1])
    return float(fields[0])


def _names(name: bytes | None, body: bytes | None) -> tuple[str, Labels]:
    """Return the name and the labels of a series; the name may stand quoted among the labels."""
    labels: dict[str, str] = {}
    at = len(body) - len(body.lstrip()) if body else 0
    while body and at < len(body):
        found = _LABEL.match(body, at)
        if not found:
            raise ValueError("not a label")
        at = found.end()
        value = _text(found["value"])
        if found["key"] is None and name is None:
            name = value.encode()
            continue
        key = "" if found["key"] is None else _text(found["key"])
        if not key or key in labels:
            raise ValueError("a label without a name, or twice")
        labels[key] = value
    if not name:
        raise ValueError("no name")
    return name.decode("utf-8", "replace"), tuple(labels.items())


def _text(token: bytes) -> str:
    if token.startswith(b'"'):
        token = token[1:-1]
        if b"\\" in token:
            token = _ESCAPED.sub(lambda m: b"\n" if m[1] == b"n" else m[1], token)
    return token.decode("utf-8", "replace")
