"""Two answers side by side: before and after a change, on a terminal or in a ticket."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from kvdoctor.model import Diagnosis
from kvdoctor.render import comparison, facts
from kvdoctor.render.comparison import Line
from kvdoctor.render.markdown import plain, table
from kvdoctor.render.paper import Printable, columns, heading, items, line

HEAD = ("", "before", "after", "change")


def render(before: Diagnosis, after: Diagnosis, console: Console) -> None:
    """Print what changed; what speaks against the comparison comes before its numbers."""
    for block in _blocks(before, after):
        console.print(Printable(block), end="")


def _blocks(before: Diagnosis, after: Diagnosis) -> Iterator[RenderableType]:
    yield line(comparison.headline(before, after), "bold")
    yield columns(
        ((Text(when, style="bold"), Text(said)) for when, said in comparison.summaries(before, after)),
        fixed=(0,),
    )
    yield columns(
        (
            (Text("window before"), Text(facts.window(before.window))),
            (Text("window after"), Text(facts.window(after.window))),
        ),
        fixed=(0,),
    )
    if against := comparison.doubts(before, after):
        yield heading("Not quite comparable")
        yield items(against)
    for group in comparison.tables(before, after):
        yield heading(group.title)
        yield columns([tuple(Text(cell, style="dim") for cell in HEAD), *map(_cells, group.lines)])


def _cells(row: Line) -> tuple[Text, ...]:
    return (Text(row.name), Text(row.before), Text(row.after), Text(row.change))


def markdown(before: Diagnosis, after: Diagnosis) -> str:
    """Return what changed for a ticket."""
    lines = [f"## kvdoctor: {plain(comparison.headline(before, after))}", ""]
    lines += [f"- {when}: {plain(said)}" for when, said in comparison.summaries(before, after)]
    lines += [f"- window before: {plain(facts.window(before.window))}"]
    lines += [f"- window after: {plain(facts.window(after.window))}", ""]
    if against := comparison.doubts(before, after):
        lines += ["Not quite comparable:", "", *(f"- {plain(doubt)}" for doubt in against), ""]
    for group in comparison.tables(before, after):
        lines += [f"### {group.title}", ""]
        lines += table(HEAD, (_row(row) for row in group.lines))
    return "\n".join(lines).rstrip("\n") + "\n"


def _row(row: Line) -> tuple[str, ...]:
    indent = "&nbsp;" * (2 * (len(row.name) - len(row.name.lstrip())))
    return (indent + plain(row.name), plain(row.before), plain(row.after), plain(row.change))
