"""The Prometheus text format: from the bytes of one answer to what changed since the one before."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import dataclass, field
from itertools import compress
from operator import ne

from kvdoctor.model import Gap
from kvdoctor.recording import Column, Labels
from kvdoctor.secrets import clean
from kvdoctor.textline import Head, Heads, declared, family_type, sample_value

# Far above any engine (a vLLM of eight ranks answers some 5,000 lines, 1 MB).
MAX_TEXT = 64 * 2**20
MAX_LINES = 200_000
MAX_SERIES = 200_000
MAX_LINE = 64 * 2**10

_LOOK = "look at the page with curl"
_TWO = "are two exporters behind one page?"
# What is counted: lines over all readings, and the readings that had such lines.
_TROUBLE = {
    "bad": (
        "lines that are no Prometheus text: {lines}, in readings: {readings}; the first: {example}",
        _LOOK,
    ),
    "twice": (
        "series that came twice in one text: {lines}, in readings: {readings}; the last one counts",
        _TWO,
    ),
    "bytes": ("series with bytes that are not UTF-8, shown as \ufffd: {lines}", ""),
    "cut": ("readings that were cut short: {readings}; what lay behind the cut kept its last value", ""),
    "long": (
        f"readings over {MAX_TEXT >> 20} MiB or {MAX_LINES:,} lines: {{readings}}; the rest was left out",
        "",
    ),
    "many": (f"lines left out because only {MAX_SERIES:,} series of a source are kept: {{lines}}", ""),
}


@dataclass(frozen=True, slots=True)
class Change:
    """What one text said that the one before it did not."""

    ids: array[int]
    """Numbers of the columns whose value changed."""
    values: array[float]
    """Their values; NaN for a series that is gone."""
    samples: int
    """Series in the text, changed or not; a text without any changes nothing."""


@dataclass(slots=True)
class _Trouble:
    readings: int = 0
    lines: int = 0
    example: str = ""


@dataclass(slots=True)
class _Layout:
    """The text before: for each line the length of what stands before its value, and its column."""

    lines: list[bytes] = field(default_factory=list)
    length: list[int] = field(default_factory=list)
    """0 for a line that is no sample."""
    column: list[int] = field(default_factory=list)
    trouble: Counter[str] = field(default_factory=Counter)
    samples: int = 0


class Parser:
    """Reads the texts of one source, in order; appends a column to `columns` for each new series.

    A line is understood once. From the second text on, only lines that differ from the line at the same
    place of the text before are looked at, and of those only the value is read. Parsers may share `heads`.
    """

    def __init__(self, columns: list[Column], heads: Heads | None = None) -> None:
        self.columns = columns
        self._heads = Heads() if heads is None else heads
        self._known: dict[bytes, int] = {}
        self._series: dict[tuple[str, Labels], int] = {}
        self._types: dict[str, str] = {}
        self._last: list[float | None] = []
        self._live: set[int] = set()
        self._layout = _Layout()
        self._troubles: dict[str, _Trouble] = {}

    def read(self, text: bytes, *, cut: bool = False) -> Change:
        """Read one text. `cut` says that the sender broke off; an unterminated last line says so too."""
        lines, trouble = _split(text, cut)
        values = self._again(lines)
        if values is None:
            values = self._anew(lines, trouble)
            partial = not values or "cut" in trouble or "long" in trouble
            gone = set() if partial else self._live - values.keys()
            self._live.difference_update(gone)
            self._live.update(values)
        else:
            gone = set()
            trouble += self._layout.trouble
            self._layout.lines = lines
        for kind, count in trouble.items():
            self._note(kind, count)
        return self._changes(values, gone)

    @property
    def bad(self) -> int:
        """Lines so far that could not be read."""
        return self._troubles["bad"].lines if "bad" in self._troubles else 0

    @property
    def kinds(self) -> int:
        """Kinds of trouble so far: while it stays, so do the kinds of gaps."""
        return len(self._troubles)

    def gaps(self, source: str) -> tuple[Gap, ...]:
        """Return what was wrong with the texts so far, one gap a kind."""
        return tuple(
            Gap(source, reason.format(lines=t.lines, readings=t.readings, example=t.example), cure)
            for kind, (reason, cure) in _TROUBLE.items()
            if (t := self._troubles.get(kind))
        )

    def _changes(self, values: dict[int, float], gone: set[int]) -> Change:
        last = self._last
        ids: array[int] = array("I")
        new: array[float] = array("d")
        for number, value in values.items():
            old = last[number]
            if old != value and (old is None or value == value or old == old):
                ids.append(number)
                new.append(value)
                last[number] = value
        for number in sorted(gone):
            if last[number] == last[number]:
                ids.append(number)
                new.append(math.nan)
                last[number] = math.nan
        return Change(ids, new, self._layout.samples)

    def _again(self, lines: list[bytes]) -> dict[int, float] | None:
        """Read a text that has the layout of the one before; None when it has not."""
        layout = self._layout
        before, length, column = layout.lines, layout.length, layout.column
        if len(lines) != len(before) or not before:
            return None
        values: dict[int, float] = {}
        try:
            for i in compress(range(len(lines)), map(ne, lines, before)):
                line, size = lines[i], length[i]
                if not size or line[:size] != before[i][:size]:
                    return None
                values[column[i]] = sample_value(line[size:])
        except ValueError:
            return None
        return values

    def _anew(self, lines: list[bytes], trouble: Counter[str]) -> dict[int, float]:
        """Read every line and remember the layout."""
        layout = _Layout(lines)
        values: dict[int, float] = {}
        for line in lines:
            number, size = -1, 0
            try:
                number, size, value = self._line(line, layout.trouble)
                if number in values and number >= 0:
                    layout.trouble["twice"] += 1
                values[number] = value
            except ValueError:
                layout.trouble["bad"] += 1
                self._example(line)
            layout.length.append(size)
            layout.column.append(number)
        values.pop(-1, None)
        trouble += layout.trouble
        # Where a series comes twice, its last line counts, changed or not: every text is read anew.
        self._layout = _Layout() if "twice" in layout.trouble else layout
        self._layout.samples = len(values)
        return values

    def _line(self, line: bytes, trouble: Counter[str]) -> tuple[int, int, float]:
        """Return column, length before the value, and value; column -1 for a comment or blank line."""
        key, blank, rest = line.rpartition(b" ")
        number = self._known.get(key)
        if number is not None and blank:
            return number, len(key) + 1, sample_value(rest)
        text = line.strip()
        if not text or text.startswith(b"#"):
            self._comment(text)
            return -1, 0, 0.0
        return self._new_line(line, trouble)

    def _new_line(self, line: bytes, trouble: Counter[str]) -> tuple[int, int, float]:
        if len(line) > MAX_LINE:
            raise ValueError("too long to be a sample")
        head = self._heads.of(line)
        value = sample_value(line[head.size :])
        number = self._series.get(head.series)
        if number is None:
            if len(self.columns) >= MAX_SERIES:
                trouble["many"] += 1
                return -1, 0, 0.0
            number = self._add(head)
        if head.damaged:
            self._note("bytes", 1)
        if len(self._known) < 2 * MAX_SERIES:
            self._known[head.key] = number
        return number, head.size, value

    def _add(self, head: Head) -> int:
        number = len(self.columns)
        self.columns.append(Column(head.name, head.labels, family_type(head.name, self._types)))
        self._series[head.series] = number
        self._last.append(None)
        return number

    def _comment(self, text: bytes) -> None:
        found = declared(text)
        if found and len(self._types) < MAX_SERIES:
            self._types[found[0]] = found[1]

    def _note(self, kind: str, count: int) -> None:
        trouble = self._troubles.setdefault(kind, _Trouble())
        trouble.readings += 1
        trouble.lines += count

    def _example(self, line: bytes) -> None:
        trouble = self._troubles.setdefault("bad", _Trouble())
        trouble.example = trouble.example or clean(line[:60].decode("utf-8", "replace"))


def _split(text: bytes, cut: bool) -> tuple[list[bytes], Counter[str]]:
    """Split a text into whole lines, within the limits."""
    trouble: Counter[str] = Counter()
    if len(text) > MAX_TEXT:
        trouble["long"] = 1
        text = text[: text.rfind(b"\n", 0, MAX_TEXT) + 1]
    lines = text.split(b"\n", MAX_LINES)
    rest = lines.pop()
    if len(lines) == MAX_LINES and rest:
        trouble["long"] = 1
    elif cut or (rest.strip() and rest.strip() != b"# EOF"):
        trouble["cut"] = 1
    return lines, trouble
