"""The pieces of a terminal report: rich renderables that never cut and never interpret what they show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

FULL = "█"
_EIGHTHS = " ▏▎▍▌▋▊▉"
_PLAIN = str.maketrans(
    {FULL: "#", "…": "~", **dict.fromkeys(_EIGHTHS[1:4], " "), **dict.fromkeys(_EIGHTHS[4:], "#")}
)


class Printable:
    """What the console's encoding can write of a renderable: bars become `#`, other characters `?`."""

    def __init__(self, inner: RenderableType) -> None:
        self.inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for row in console.render_lines(self.inner, options, pad=False):
            kept = [segment for segment in row if not segment.control]
            yield from _trimmed(_ascii(kept, options.encoding) if options.ascii_only else kept)
            yield Segment.line()


def _trimmed(row: list[Segment]) -> list[Segment]:
    """Drop the blanks at the end of a line."""
    while row and not row[-1].text.strip():
        row.pop()
    return [*row[:-1], Segment(row[-1].text.rstrip(), row[-1].style)] if row else []


def _ascii(row: list[Segment], encoding: str) -> list[Segment]:
    return [
        Segment(part.text.translate(_PLAIN).encode(encoding, "replace").decode(encoding), part.style)
        for part in row
    ]


def line(text: str, style: str = "", *, indent: int = 0) -> RenderableType:
    """Return a paragraph that wraps between words, and inside a word only where it must."""
    return Padding(Text(text, style=style, overflow="fold"), (0, 0, 0, indent))


def heading(text: str) -> RenderableType:
    """Return a section's heading with the empty line before it."""
    return Padding(Text(text, style="bold", overflow="fold"), (1, 0, 0, 0))


def bar(share: float, width: int) -> str:
    """Return a bar of `share` of `width` characters, to an eighth of one."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    if share > 0:
        eighths = max(1, eighths)
    return FULL * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def columns(
    rows: Iterable[Sequence[Text]],
    *,
    right: Sequence[int] = (),
    fixed: Sequence[int] = (),
    indent: int = 2,
    gutter: int = 2,
) -> RenderableType:
    """Return a table without rules; `right` columns align right, `fixed` ones keep their width."""
    every = list(rows)
    table = Table.grid(padding=(0, gutter, 0, 0))
    for index in range(max((len(row) for row in every), default=0)):
        table.add_column(
            justify="right" if index in right else "left", overflow="fold", no_wrap=index in fixed
        )
    for row in every:
        table.add_row(*row)
    return Padding(table, (0, 0, 0, indent))


def items(texts: Iterable[str], *, mark: str = "-", style: str = "") -> RenderableType:
    """Return a list whose wrapped lines hang under their first word."""
    return columns(((Text(mark), Text(text, style=style)) for text in texts), fixed=(0,), gutter=1)
