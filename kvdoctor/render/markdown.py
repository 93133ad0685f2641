"""The report for a ticket: short, in tables, and nothing from outside becomes a link, a mention or a mark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kvdoctor.model import Diagnosis, Ledger, Verdict
from kvdoctor.render import facts, outline, words
from kvdoctor.render.text import clean, name, visible
from kvdoctor.units import duration, percent

BREAK = "&#8203;"
"""A zero-width space as an entity. It parts what GitHub and GitLab would join to a link or a mention."""

_MARKS = re.compile(r"([\\`*_\[\]|~^])")
_JOINED = re.compile(
    r"(?<=[@#!])(?=\w)|(?<=\w)(?=@)"  # a mention, an issue, a mail address
    r"|(?<=:)(?=//)|(?<=www)(?=\.)"  # a link without brackets
    r"|(?<=:)(?=[a-z+-][\w+-]*:)",  # a smiley by name
    re.IGNORECASE,
)
_LINE_START = re.compile(r"^(\d+)(?=[.)](?:\s|$))|^(?=[-+=#])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "<span>$</span>", "{": "&#123;", "}": "&#125;"}


def plain(text: str) -> str:
    """Return text that a Markdown reader shows as it is."""
    pieces = [
        "".join(_ENTITIES.get(c, c) for c in _MARKS.sub(r"\\\1", piece))
        for piece in _JOINED.split(visible(text))
    ]
    return _LINE_START.sub(lambda found: f"{found[1] or ''}\\", BREAK.join(pieces))


def code(text: str) -> str:
    """Return outside text as a code span for a table's cell: raw names, to be copied."""
    shown = visible(text).replace("`", "'").replace("|", "\\|")
    return f"`{shown}`" if shown else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> Iterator[str]:
    """Yield the lines of a table; the cells are Markdown already."""
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---:' if i in right else '---' for i in range(len(head)))} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def render(diagnosis: Diagnosis) -> str:
    """Return the whole report."""
    lines = [
        *_verdict(diagnosis),
        *_advice(diagnosis),
        *_numbers(diagnosis),
        *_findings(diagnosis),
        *_limits(diagnosis),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _verdict(diagnosis: Diagnosis) -> Iterator[str]:
    yield f"## kvdoctor: {plain(words.headline(diagnosis))}"
    yield ""
    why = words.reason(diagnosis)
    yield f"**{plain(why)}**" if why else ""
    yield ""
    for metric in outline.METRICS:
        if metric in diagnosis.primary_by_metric or metric in diagnosis.sentences:
            yield f"- {words.METRIC[metric]}: {plain(words.metric_sentence(diagnosis, metric))}"
    if beside := words.beside(diagnosis):
        yield f"- {plain(beside)}"
    for target in diagnosis.targets:
        where = f", {code(name(target.url))}" if target.url else ""
        yield f"- Engine: {plain(facts.target(replace(target, url=None)))}{where}"
    yield f"- Window: {plain(facts.window(diagnosis.window))}"
    yield f"- Asked for: {plain(facts.objective(diagnosis))}"
    yield from (f"- Note: {plain(clean(note))}" for note in diagnosis.notes)
    yield ""


def _numbers(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.header:
        rows = (
            (
                plain(name(item.name)),
                plain(words.headline_value(item, item.now)),
                plain(words.headline_value(item, item.lifetime)),
            )
            for item in diagnosis.header
        )
        yield from table(("", "in the window", "since start"), rows, right=(1, 2))
    for ledger in outline.ledgers(diagnosis):
        yield from _ledger(ledger, words.quantile_line(diagnosis, ledger.metric.value))
    if three := facts.sums(diagnosis):
        cells = ((plain(amount), plain(what)) for amount, what in three)
        yield from table(("three sums", "not to be confused"), cells, right=(0,))
    if under := facts.roofline(diagnosis):
        yield plain(under)
        yield ""


def _ledger(ledger: Ledger, quantiles: str) -> Iterator[str]:
    yield f"### {plain(words.ledger_title(ledger))}"
    yield ""
    if quantiles:
        yield plain(quantiles)
        yield ""
    rows = (
        (
            "&nbsp;&nbsp;" * (2 * row.depth) + plain(words.part_name(row.part.name)),
            duration(row.part.seconds),
            "" if row.share is None else percent(row.share),
            words.BASIS[row.part.basis],
            plain(clean(row.part.note)),
        )
        for row in outline.rows(ledger)
    )
    yield from table(("part", "time", "share", "basis", "note"), rows, right=(1, 2))


def _findings(diagnosis: Diagnosis) -> Iterator[str]:
    for verdict in (Verdict.LIKELY, Verdict.POSSIBLE):
        for finding in outline.findings(diagnosis, verdict):
            cause = plain(words.bound_name(finding.bound, finding.subclass))
            yield f"### {words.VERDICT[verdict].capitalize()}: {cause}"
            yield ""
            yield f"{plain(clean(finding.argument))} {words.weight(finding)}".strip()
            yield ""
            rows = (
                (
                    plain(name(item.name)),
                    plain(words.value(item)),
                    plain(words.against(item)),
                    code(name(item.source)),
                )
                for item in finding.evidence
            )
            if finding.evidence:
                yield from table(("evidence", "value", "", "source"), rows, right=(1,))
    ruled_out = outline.findings(diagnosis, Verdict.RULED_OUT)
    unseen = outline.findings(diagnosis, Verdict.NO_DATA)
    if ruled_out or unseen:
        yield "### Other causes"
        yield ""
    for item in ruled_out:
        cause = plain(words.bound_name(item.bound, item.subclass))
        yield f"- ruled out: {cause}: {plain(words.because(item))}"
    if unseen:
        names = ", ".join(words.bound_name(item.bound, item.subclass) for item in unseen)
        yield f"- not judged for want of data: {plain(names)}"
    yield ""


def _advice(diagnosis: Diagnosis) -> Iterator[str]:
    pairs = outline.advice(diagnosis)
    if pairs:
        yield f"### {words.changes(diagnosis)}"
        yield ""
        rows = (
            (
                plain(clean(item.do)),
                words.gain(item),
                plain(clean(item.expect)),
                plain(words.cause(finding)),
            )
            for finding, item in pairs
        )
        yield from table(("change", "gain", "how that is worked out", "against"), rows)
    if diagnosis.next_measurement:
        yield f"To measure next: {plain(clean(diagnosis.next_measurement))}"
        yield ""


def _limits(diagnosis: Diagnosis) -> Iterator[str]:
    found = outline.gaps(diagnosis)
    if found:
        yield "### What could not be seen"
        yield ""
        rows = ((plain(name(gap.source)), plain(clean(gap.reason)), plain(clean(gap.cure))) for gap in found)
        yield from table(("source", "why", "cure"), rows)
    reasons = "; ".join(plain(clean(reason)) for reason in diagnosis.confidence_reasons)
    if reasons:
        yield f"Confidence is {diagnosis.confidence.value}: {reasons}."
        yield ""
    yield f"kvdoctor {plain(name(diagnosis.kvdoctor))}; observing cost {facts.cost(diagnosis)}."
