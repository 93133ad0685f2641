"""The report on a terminal: the verdict in the first line, its evidence under it, colour only as an extra."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.text import Text

from kvdoctor.model import Diagnosis, Finding, Ledger, Verdict
from kvdoctor.render import facts, outline, words
from kvdoctor.render.paper import Printable, bar, columns, heading, items, line
from kvdoctor.render.text import clean, name
from kvdoctor.service import Headline, TargetInfo
from kvdoctor.units import duration, percent

STYLE = {Verdict.LIKELY: "bold red", Verdict.POSSIBLE: "bold yellow"}
NARROWEST_BAR, WIDEST_BAR = 6, 40


def render(diagnosis: Diagnosis, console: Console) -> None:
    """Print the whole report."""
    for block in _blocks(diagnosis, console.width):
        console.print(Printable(block), end="")


def live_header(
    targets: tuple[TargetInfo, ...], headlines: tuple[Headline, ...], window_seconds: float
) -> RenderableType:
    """Return what can be said within seconds: the engines, their latencies and rates now and since start."""
    blocks = [*_targets(targets)]
    if headlines:
        blocks.append(_headlines(headlines, f"last {duration(window_seconds)}"))
    return Printable(Group(*blocks))


def _blocks(diagnosis: Diagnosis, width: int) -> Iterator[RenderableType]:
    yield from _verdict(diagnosis)
    yield from _advice(diagnosis)
    yield from _next(diagnosis)
    yield from _window(diagnosis)
    for ledger in outline.ledgers(diagnosis):
        yield from _ledger(ledger, words.quantile_line(diagnosis, ledger.metric.value), width)
    if diagnosis.ledgers:
        yield line(words.BASIS_MEANING, "dim", indent=2)
    yield from _sums(diagnosis)
    yield from _findings(diagnosis)
    yield from _limits(diagnosis)


def _verdict(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    yield line(words.headline(diagnosis), "bold")
    yield line(words.reason(diagnosis))
    if beside := words.beside(diagnosis):
        yield line(beside, "dim")
    rows = [
        (
            Text(words.METRIC[metric], style="bold"),
            Text(words.metric_sentence(diagnosis, metric)),
        )
        for metric in outline.METRICS
        if metric in diagnosis.primary_by_metric or metric in diagnosis.sentences
    ]
    yield columns(rows, fixed=(0,))


def _window(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    yield heading("What was looked at")
    yield from _targets(diagnosis.targets)
    rows = [("Window", facts.window(diagnosis.window)), ("Asked for", facts.objective(diagnosis))]
    rows += [("Note", clean(note)) for note in diagnosis.notes]
    yield columns(((Text(name), Text(text)) for name, text in rows), fixed=(0,))
    if diagnosis.header:
        yield Text()
        yield _headlines(diagnosis.header, "in the window")


def _targets(targets: tuple[TargetInfo, ...]) -> Iterator[RenderableType]:
    for target in targets:
        yield line(facts.target(target), indent=2)
        if known := facts.memory(target):
            yield line(f"memory: {known}", "dim", indent=4)


def _headlines(headlines: tuple[Headline, ...], now: str) -> RenderableType:
    head = (Text(""), Text(now, style="bold"), Text("since start", style="bold"))
    rows = [
        (
            Text(name(item.name)),
            Text(words.headline_value(item, item.now)),
            Text(words.headline_value(item, item.lifetime)),
        )
        for item in headlines
    ]
    return columns([head, *rows], right=(1, 2))


def _ledger(ledger: Ledger, quantiles: str, width: int) -> Iterator[RenderableType]:
    yield heading(f"Where the time goes: {words.ledger_title(ledger)}")
    if quantiles:
        yield line(quantiles, indent=2)
    shown = outline.rows(ledger)
    names = [Text("  " * row.depth + words.part_name(row.part.name)) for row in shown]
    others = max((name.cell_len for name in names), default=0) + 32
    room = max(NARROWEST_BAR, min(WIDEST_BAR, width - others))
    yield columns(
        (
            (
                name,
                Text(duration(row.part.seconds)),
                Text("" if row.share is None else percent(row.share)),
                Text(words.BASIS[row.part.basis], style="dim"),
                Text(bar(row.share or 0.0, room), style="cyan" if row.depth else "bold cyan"),
            )
            for name, row in zip(names, shown, strict=True)
        ),
        right=(1, 2),
        fixed=(1, 2, 3, 4),
    )
    notes = [f"{words.part_name(row.part.name)}: {clean(row.part.note)}" for row in shown if row.part.note]
    if notes:
        yield items(notes, style="dim")


def _sums(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    three = facts.sums(diagnosis)
    if three:
        yield heading("Three sums that are easily confused")
        yield columns(((Text(amount), Text(what)) for amount, what in three), right=(0,), fixed=(0,))
        if diagnosis.sums and diagnosis.sums.note:
            yield line(clean(diagnosis.sums.note), "dim", indent=2)
    if under := facts.roofline(diagnosis):
        yield heading("Under the memory roof")
        yield line(under, indent=2)


def _findings(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    for verdict in (Verdict.LIKELY, Verdict.POSSIBLE):
        found = outline.findings(diagnosis, verdict)
        if found:
            yield heading(f"Causes: {words.VERDICT[verdict]}")
        for finding in found:
            yield from _finding(finding)
    ruled_out = outline.findings(diagnosis, Verdict.RULED_OUT)
    if ruled_out:
        yield heading("Causes: ruled out")
        yield items(
            f"{words.bound_name(item.bound, item.subclass)}: {words.because(item)}" for item in ruled_out
        )
    unseen = outline.findings(diagnosis, Verdict.NO_DATA)
    if unseen:
        yield heading("Causes: not judged for want of data (this is not health)")
        yield line(", ".join(words.bound_name(item.bound, item.subclass) for item in unseen), indent=2)


def _finding(finding: Finding) -> Iterator[RenderableType]:
    yield line(words.bound_name(finding.bound, finding.subclass), STYLE[finding.verdict], indent=2)
    for sentence in (clean(finding.argument), words.weight(finding)):
        if sentence:
            yield line(sentence, indent=4)
    yield columns(_evidence(finding), right=(0,), fixed=(0,), indent=4)


def _evidence(finding: Finding) -> Iterator[tuple[Text, Text]]:
    for item in finding.evidence:
        text = Text(name(item.name))
        if held := words.against(item):
            text.append(f", {held}")
        if item.source:
            text.append(f"  [{name(item.source)}]", style="dim")
        yield Text(words.value(item)), text


def _advice(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    listed = list(outline.advice(diagnosis))
    if not listed:
        return
    yield heading(words.changes(diagnosis))
    rows = []
    for number, (finding, item) in enumerate(listed, 1):
        text = Text(clean(item.do), style="bold")
        text.append(f"\n{words.gain(item)}: {clean(item.expect)}", style="not bold")
        text.append(f"\nagainst {words.cause(finding)}", style="not bold dim")
        rows.append((Text(f"{number}."), text))
    yield columns(rows, right=(0,), fixed=(0,))


def _next(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    if diagnosis.next_measurement:
        yield heading("What to measure next")
        yield line(clean(diagnosis.next_measurement), indent=2)


def _limits(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    found = outline.gaps(diagnosis)
    if found:
        yield heading("What could not be seen")
        yield items(f"{words.gap(gap)}{f'. Cure: {clean(gap.cure)}' if gap.cure else ''}" for gap in found)
    if diagnosis.confidence_reasons:
        yield heading(f"Why confidence is {diagnosis.confidence.value}")
        yield items(clean(reason) for reason in diagnosis.confidence_reasons)
    yield heading(f"kvdoctor {name(diagnosis.kvdoctor)}; observing cost {facts.cost(diagnosis)}")
