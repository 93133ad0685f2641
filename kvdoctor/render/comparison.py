"""What changed between two answers, and whether the two may be compared at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kvdoctor.model import Diagnosis, Ledger
from kvdoctor.render import noise, outline, words
from kvdoctor.render.noise import FEW_REQUESTS
from kvdoctor.render.text import clean, name
from kvdoctor.units import change, count, counted, duration, quantity

SAME_LOAD = 1.25
"""Factor by which two loads may differ and still be the same load; our choice, the size of a busy hour's swing."""
NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Line:
    """One quantity before and after, as text."""

    name: str
    before: str
    after: str
    change: str


@dataclass(frozen=True, slots=True)
class Table:
    """Lines that belong together."""

    title: str
    lines: tuple[Line, ...]


def doubts(before: Diagnosis, after: Diagnosis) -> tuple[str, ...]:
    """Return why the two windows are not, or not quite, of the same thing; empty when nothing speaks against it."""
    return (*_identity(before, after), *_windows(before, after), *_load(before, after))


def tables(before: Diagnosis, after: Diagnosis) -> tuple[Table, ...]:
    """Return everything that both have, the verdict first."""
    found = [Table("Verdict", tuple(_verdict(before, after)))]
    for metric in outline.METRICS:
        title = f"{words.METRIC[metric]}, {words.METRIC_MEANING[metric]}"
        lines = (
            *_latency(before, after, metric),
            *_parts(before.ledgers.get(metric), after.ledgers.get(metric)),
        )
        found.append(Table(title, lines))
    found.append(Table("Rates and latencies in the window", tuple(_header(before, after))))
    found.append(Table("Evidence that moved", tuple(_evidence(before, after))))
    return tuple(table for table in found if table.lines)


def headline(before: Diagnosis, after: Diagnosis) -> str:
    """Say in one line what became of both latencies."""
    said = []
    for metric in outline.METRICS:
        old, new = before.ledgers.get(metric), after.ledgers.get(metric)
        if old and new:
            said.append(
                f"{words.METRIC[metric]} {_became(old, new, noise.of_mean(before, after, metric)[1])}"
            )
    return "; ".join(said) or "Neither latency was measured in both windows"


def _became(old: Ledger, new: Ledger, unsure: str) -> str:
    """Say what became of a mean, or that it can't be told from chance and why."""
    if unsure:
        return f"can't tell: {duration(old.seconds)}, then {duration(new.seconds)} ({unsure})"
    return f"{duration(old.seconds)} to {duration(new.seconds)} ({change(old.seconds, new.seconds)})"


def _identity(before: Diagnosis, after: Diagnosis) -> Iterator[str]:
    for what in ("engine", "version", "model", "role", "gpus"):
        old, new = (
            sorted({_named(getattr(target, what)) for target in diagnosis.targets})
            for diagnosis in (before, after)
        )
        if old != new:
            yield f"not the same {what}: {', '.join(old) or 'none'}, then {', '.join(new) or 'none'}"


def _named(value: str | tuple[str, ...] | None) -> str:
    return name(", ".join(value) if isinstance(value, tuple) else value or "unknown") or "unknown"


def _windows(before: Diagnosis, after: Diagnosis) -> Iterator[str]:
    for when, diagnosis in (("before", before), ("after", after)):
        window = diagnosis.window
        if window.lifetime:
            yield f"{when}: sums since the engine started, not a window"
        if window.requests < FEW_REQUESTS:
            yield f"{when}: {counted(window.requests, 'first token')}, {FEW_REQUESTS} are needed for a mean"
        if window.restarts:
            yield f"{when}: the engine restarted inside the window"


def _load(before: Diagnosis, after: Diagnosis) -> Iterator[str]:
    rates = [d.window.requests / d.window.seconds if d.window.seconds > 0 else 0.0 for d in (before, after)]
    if _far(*rates):
        yield f"not the same load: {count(rates[0])}, then {count(rates[1])} first tokens a second"
    lengths = [
        d.window.prompt_tokens / d.window.requests if d.window.requests else 0.0 for d in (before, after)
    ]
    if _far(*lengths):
        yield f"not the same prompts: {count(lengths[0])}, then {count(lengths[1])} tokens a request"


def _far(one: float, other: float) -> bool:
    """Whether two amounts that are both known differ by more than the same load would."""
    return one > 0 and other > 0 and max(one, other) > SAME_LOAD * min(one, other)


def _verdict(before: Diagnosis, after: Diagnosis) -> Iterator[Line]:
    yield _text("overall", words.verdict(before), words.verdict(after))
    for metric in outline.METRICS:
        old, new = (words.metric_verdict(diagnosis, metric) for diagnosis in (before, after))
        yield _text(words.METRIC[metric], old, new)
    yield _text("confidence", before.confidence.value, after.confidence.value)


def _text(what: str, before: str, after: str) -> Line:
    return Line(what, before, after, "" if before == after else "changed")


def _latency(before: Diagnosis, after: Diagnosis, metric: str) -> Iterator[Line]:
    old, new = before.ledgers.get(metric), after.ledgers.get(metric)
    if old or new:
        mean = _seconds("mean", old.seconds if old else None, new.seconds if new else None)
        unsure = noise.of_mean(before, after, metric)[0]
        yield replace(mean, change=f"cannot tell: {unsure}") if unsure else mean
    quantiles = before.quantiles.get(metric, {})
    for which, bounds in quantiles.items():
        other = after.quantiles.get(metric, {}).get(which)
        if other:
            yield Line(
                name(which),
                words.quantile(bounds),
                words.quantile(other),
                noise.of_quantile(before, after, metric, which),
            )


def _parts(before: Ledger | None, after: Ledger | None) -> Iterator[Line]:
    if before is None or after is None:
        return
    inside = {row.part.name: row.depth for ledger in (after, before) for row in outline.rows(ledger)}
    order = [row.part.name for row in outline.rows(before)] + [row.part.name for row in outline.rows(after)]
    for part in dict.fromkeys(order):
        old, new = (
            ledger.part(part) if any(p.name == part for p in ledger.parts) else None
            for ledger in (before, after)
        )
        yield _seconds("  " * (1 + inside[part]) + words.part_name(part), old, new)


def _seconds(what: str, before: float | None, after: float | None) -> Line:
    old, new = (NOTHING if seconds is None else duration(seconds) for seconds in (before, after))
    moved = (after or 0.0) - (before or 0.0)
    sign = "+" if moved > 0 else ""
    known = f" ({change(before, after)})" if before and after is not None else ""
    return Line(what, old, new, f"{sign}{duration(moved)}{known}" if moved else "unchanged")


def _header(before: Diagnosis, after: Diagnosis) -> Iterator[Line]:
    """Yield the lines that both headers have."""
    old = {(line.name, line.unit): line for line in before.header}
    for line in after.header:
        other = old.get((line.name, line.unit))
        if other is None:
            continue
        first, second = (words.headline_value(which, which.now) for which in (other, line))
        moved = _unsure(before, after, line.name) or _difference(other.now, line.now, line.unit)
        yield Line(name(line.name), first, second, moved)


def _unsure(before: Diagnosis, after: Diagnosis, line: str) -> str:
    """Say that a latency of the header can't be told from chance; empty where it can, and for anything else."""
    for metric in outline.METRICS:
        label, _, rest = line.partition(" ")
        which = rest.partition(",")[0]
        if label != words.METRIC[metric]:
            continue
        if which == "mean":
            why = noise.of_mean(before, after, metric)[0]
            return f"cannot tell: {why}" if why else ""
        if all(which in diagnosis.quantiles.get(metric, {}) for diagnosis in (before, after)):
            moved = noise.of_quantile(before, after, metric, which)
            return "" if moved in noise.DIRECTIONS else moved
    return ""


def _evidence(before: Diagnosis, after: Diagnosis) -> Iterator[Line]:
    """Yield every number that both answers give and that reads differently, each name once."""
    old = {(f.bound, item.name, item.unit): item for f in before.findings for item in f.evidence}
    seen: set[str] = set()
    for finding in after.findings:
        for item in finding.evidence:
            other = old.get((finding.bound, item.name, item.unit))
            if other is None or item.name in seen or words.value(other) == words.value(item):
                continue
            seen.add(item.name)
            yield Line(
                name(item.name),
                words.value(other),
                words.value(item),
                _difference(other.value, item.value, item.unit),
            )


def _difference(before: float | None, after: float | None, unit: str) -> str:
    """Say how far a value moved: a ratio in points, anything else against where it was."""
    if before is None or after is None:
        return "" if before is after else "changed"
    if unit != "ratio":
        return change(before, after)
    points = 100 * (after - before)
    return f"{'+' if points > 0 else ''}{quantity(points, 'points')}" if points else "unchanged"


def summaries(before: Diagnosis, after: Diagnosis) -> tuple[tuple[str, str], ...]:
    """Return both answers' own sentences."""
    return (("before", clean(before.summary)), ("after", clean(after.summary)))
