"""A report's figures, one a row with a name and a value, as readings of a source of their own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kvdoctor import __version__
from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.frames import VERSION
from kvdoctor.model import Cost, Gap
from kvdoctor.quantity import Quantity
from kvdoctor.readers.changes import changes
from kvdoctor.readers.figures import Figure, figures
from kvdoctor.readers.forms import of_whole, parts
from kvdoctor.readers.relative import relative
from kvdoctor.readers.rows import facts, normal, quantity_of
from kvdoctor.readers.statements import statements
from kvdoctor.recording import Column, Labels, Recording, Source, add_reading

KIND = "report"
STEP = 10.0
"""Seconds assumed between two figures of a row: an engine's usual log interval."""
MAX_ROWS = 1000
LONGEST = 1000
"""Characters of a name or a value that are read: many times what a report's row has."""
_CURED = re.compile(
    r"\bafter$|\bafter (the |matching |also )?(fix|change|patch|upgrad|updat|flag|disabl|switch|enabl)"
    r"|\bfixed\b|with (the )?fix"
)
_WORSENED = re.compile(r"\b(?:hits?|reuse)\b.{0,60}\bafter (?:the |an? )?(?:upgrad|updat|switch)")
"""What hits after an upgrade is no cured state: a fall is told that way too."""
_SPELLINGS = tuple(
    (re.compile(pattern, re.IGNORECASE), word)
    for pattern, word in (
        (r"\bw/o\b", "without"),
        (r"\bw/(?= |[a-z])", "with "),
        (r"\btime[- ]to[- ]first[- ]token\b|\bfirst[- ]token (?:latency|delay|time)\b", "TTFT"),
        (r"\btime[- ]per[- ]output[- ]token\b", "TPOT"),
        (r"\binter[- ]token latency\b", "ITL"),
        (r"\bt(?:hru|hrough|p)put\b|\btput\b", "throughput"),
        (r"\bbacklog(?:ged)?\b", "queue"),
        (r"\bprior to\b", "before"),
        (r"\butil\b", "utilization"),
        (r"\btransmissions?\b", "transfer"),
        (r"\bmsecs?\b", "ms"),
        (r"(?<=\d) per ?cent\b", "%"),
    )
)
_QUEUED = re.compile(r"running: ?(\d{1,6}).{0,60}?\b(?:waiting|pending|queued): ?(\d{1,7})")
"""An engine's own line inside a value."""
_AT_USAGE = re.compile(r"at (\d{1,3}(?:\.\d+)?) ?% kv")
_AT_LOAD = re.compile(
    r"\b(?:concurrency|bs|batch|clients?|users?|qps|rps|(?:request|arrival) rate) ?=? ?(\d{1,9}(?:\.\d{1,6})?)"
    r"|(\d{1,9}) (?:concurrent|clients?|users?|parallel)\b|(\d{1,9}(?:\.\d{1,6})?) ?(?:qps|rps|req/s)"
)
_AT_LENGTH = re.compile(
    r"(?<!num )(?<!n )(?<!max )(?:prompt|input|context|ctx|isl|prefix|depth)"
    r"(?: (?:length|len|size|tokens|depth))? ?=? ?(?:of |at )?(?:\d{1,9}k? )?(\d{1,9}(?:\.\d{1,6})?)(k?)(?![\w.])"
    r"|(\d{1,9}(?:\.\d{1,6})?)(k?) (?:tokens? (?:of )?)?(?:prompt|input|context|ctx)"
    r"|\bat (\d{1,9}(?:\.\d{1,6})?)(k?) tokens"
)
_TAIL = re.compile(r"(?:%|percent) (of [\w ]{1,40})$")
_WHILE = re.compile(r"\b(?:while|with|at) running ?= ?(\d{1,6})|\bwith (\d{1,6}) running\b")
_WITH = re.compile(r"\bwith (one|two|three|four|five|six|eight|ten|\d+) (?:requests|sequences|users|reqs)")
_AT_HITS = re.compile(r"\bcache hits?(?: rate)? ?(?:of |=|at )?(\d{1,3}(?:\.\d{1,4})?) ?%")
_WORDS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "eight": 8, "ten": 10}
_INSIDE = re.compile(r"shared prefix (?:of )?(\d+)")
_PRODUCT, _SUM = re.compile(r"\b(\d{1,6})\*(\d{1,6})\b"), re.compile(r"\b\d{1,9}(?:\+\d{1,9}){1,8}\b")
_COUNTED = re.compile(r"histogram|bucket|distribution")
_RATIOS = frozenset(
    (
        m.KV_CACHE_USAGE,
        m.HITS_RATE_GAUGE,
        lm.GPU_BUSY,
        lm.EXTERNAL_HIT_RATE,
        lm.EXPECTED_HIT_RATE,
        lm.TENSOR_ACTIVE,
        lm.DRAM_ACTIVE,
    )
)


@dataclass(frozen=True, slots=True)
class Stated:
    """One number that a row states."""

    quantity: Quantity
    value: float
    labels: Labels


def evidence_recording(rows: Sequence[Mapping[str, object]], name: str) -> Recording:
    """Read the rows of a report: `kind`, `name` and `value` each. Rows of a cured state are left out."""
    stated = [one for number, row in enumerate(rows[:MAX_ROWS], 1) for one in _row(number, row)]
    stated.extend(_changed(rows[:MAX_ROWS]))
    source = Source(name, KIND, 0.0)
    by_quantity: dict[Quantity, list[Stated]] = {}
    for one in stated:
        by_quantity.setdefault(one.quantity, []).append(one)
    readings = max((len(some) for some in by_quantity.values()), default=0)
    columns: dict[tuple[str, Labels], int] = {}
    for reading in range(readings):
        values: dict[int, float] = {}
        for quantity, some in by_quantity.items():
            for number, one in enumerate(some):
                if _place(number, len(some), readings) == reading:
                    key = (lm.raw(quantity), one.labels)
                    if key not in columns:
                        columns[key] = len(source.columns)
                        source.columns.append(Column(*key, "gauge"))
                    values[columns[key]] = one.value
        add_reading(source, at=STEP * reading, took=0.0, size=0, ids=values.keys(), values=values.values())
    gap = Gap(
        name, "a report's figures: their times and their conditions are not told", "record the service itself"
    )
    return Recording(VERSION, __version__, 0.0, [source], [gap], {}, Cost())


def _place(number: int, count: int, readings: int) -> int:
    """Spread the figures of one quantity over the readings, the last one last."""
    return readings - 1 if count == 1 else round(number * (readings - 1) / (count - 1))


def _texts(row: Mapping[str, object], *keys: str) -> tuple[str, ...]:
    return tuple(str(row.get(key, ""))[:LONGEST] for key in keys)


def _changed(rows: Sequence[Mapping[str, object]]) -> Iterable[Stated]:
    """What was changed between a figure before and after, and by how much it got better."""
    for change in changes([(kind, name, value) for kind, name, value in map(_three, rows)]):
        labels: Labels = (("row", "0"), ("as", change.what[:120]), ("kind", "change"))
        yield Stated(lm.CHANGED_BY, change.factor, labels)


def _three(row: Mapping[str, object]) -> tuple[str, str, str]:
    kind, name, value = _texts(row, "kind", "name", "value")
    return kind, _spelled(name), _spelled(value)


def _row(number: int, row: Mapping[str, object]) -> Iterable[Stated]:
    kind, title, text, note = _texts(row, "kind", "name", "value", "note")
    title, text = _spelled(title), _spelled(text)
    base: Labels = (("row", str(number)), ("as", title[:120]), ("kind", kind))
    whole: Labels = (base[0], ("as", f"{title}: {text}"[:160]), base[2])
    factors = [Stated(quantity, one, whole) for quantity, one in relative(kind, normal(title), text, note)]
    if _CURED.search(normal(title)) and not _WORSENED.search(normal(title)):
        yield from (one for one in factors if one.quantity is lm.TIMES_SLOWER and one.value > 1)
        return
    for name, value in parts(title, text, note):
        plain = normal(name)
        labels = (base[0], ("as", name[:120]), base[2], *_conditions(plain))
        yield from (Stated(quantity, one, labels) for quantity, one in facts(kind, plain, value))
        parted = [Stated(quantity, one, labels) for quantity, one in of_whole(name, value, kind)]
        yield from parted or _numbers(plain, kind, value, labels)
    yield from _asides(normal(title), normal(text), base)
    line = _QUEUED.search(f"{title}: {text}".lower())
    if line and int(line[2]):
        yield from (Stated(m.RUNNING, float(line[1]), base), Stated(m.WAITING, float(line[2]), base))
    yield from (Stated(quantity, one, whole) for quantity, one in statements(kind, normal(title), text))
    yield from factors


def _numbers(name: str, kind: str, value: str, labels: Labels) -> Iterable[Stated]:
    lead = normal(re.split(r"\d", value, maxsplit=1)[0])
    told = figures(value)
    tail = _TAIL.search(value)
    found = [(quantity_of(name, figure.kind, kind), figure) for figure in told]
    if tail and len(told) == 1 and told[0].kind == "ratio":
        found = [(quantity_of(f"{name} {normal(tail[1])}", "ratio", kind), told[0])]
    if len(told) == 1 and found[0][0] is None and lead:
        found = [(quantity_of(f"{name} {lead}", told[0].kind, kind), told[0])]
    kept = [(quantity, figure) for quantity, figure in found if quantity is not None]
    if kind == "flag" and any(quantity is m.PREEMPTIONS for quantity, _ in kept):
        return
    whole = any(q in _RATIOS and f.value > 1 for q, f in kept)
    for quantity, figure in (one for one in kept if not _unsaid(one[1], name)):
        value_ = figure.value / 100 if whole and quantity in _RATIOS else figure.value
        if value_ >= 0 and not (quantity is m.PREEMPTIONS and not value_):
            yield Stated(quantity, value_, (*labels, *_below(figure)))


def _unsaid(figure: Figure, name: str) -> bool:
    """Say whether a number is no figure: one of a histogram, or the zero of `more than 0`."""
    return bool(_COUNTED.search(name)) or (figure.above and not figure.value)


def _below(figure: Figure) -> Labels:
    return (("below", "yes"),) if figure.below else ()


def _conditions(name: str) -> Labels:
    """Return under which load, and at which length of the prompt, a figure was taken, where its name tells."""
    load, length = _AT_LOAD.search(name), _AT_LENGTH.search(_summed(name))
    told: Labels = (("load", load[1] or load[2] or load[3]),) if load else ()
    if length:
        number = float(length[1] or length[3] or length[5])
        number *= 1000 if length[2] or length[4] or length[6] else 1
        told = (*told, ("length", f"{number:g}"))
    return told


def _spelled(text: str) -> str:
    """Write one word for each of its spellings: `w/o` as without, `first-token latency` as TTFT."""
    for pattern, word in _SPELLINGS:
        text = pattern.sub(word, text)
    return text


def _summed(name: str) -> str:
    """`6*8192+646`: the sum in place of its parts."""
    plain = _PRODUCT.sub(lambda found: str(int(found[1]) * int(found[2])), name)
    return _SUM.sub(lambda found: str(sum(map(int, found[0].split("+")))), plain)


def _asides(name: str, value: str, labels: Labels) -> Iterable[Stated]:
    """Read what a name or a value tells beside its figure: at which KV usage, with how many requests."""
    hit = _AT_HITS.search(name)
    usage, while_, with_, inside = (
        _AT_USAGE.search(name.replace("%", " %")),
        _WHILE.search(name),
        _WITH.search(name),
        _INSIDE.search(value),
    )
    if usage:
        yield Stated(m.KV_CACHE_USAGE, min(1.0, float(usage[1]) / 100), labels)
    if while_:
        yield Stated(m.RUNNING, float(while_[1] or while_[2]), labels)
    if with_:
        number = _WORDS.get(with_[1]) or (int(with_[1]) if with_[1].isdigit() else 0)
        yield Stated(m.RUNNING, float(number), labels)
    if hit:
        yield Stated(m.HITS_RATE_GAUGE, min(1.0, float(hit[1]) / 100), labels)
    if inside:
        yield Stated(lm.SHARED_PREFIX, float(inside[1]), labels)
