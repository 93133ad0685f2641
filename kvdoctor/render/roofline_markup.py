"""Pieces of the roofline's page: paragraphs, tables, figures, sections; all text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def paragraph(text: str, style: str = "") -> str:
    """A paragraph of plain text."""
    kind = f' class="{style}"' if style else ""
    return f"<p{kind}>{escape(text)}</p>" if text else ""


_NUM = ' class="num"'
# Longer cells are sentences, and so are those of several words without a figure.
_NUMBER_LENGTH = 24


def _cell(text: str) -> str:
    """A number flush right on one line, or a sentence."""
    if len(text) > _NUMBER_LENGTH or (" " in text and not any(map(str.isdigit, text))):
        return f'<td class="soft small">{escape(text)}</td>'
    return f"<td{_NUM}>{escape(text)}</td>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column names the row; the others hold numbers."""
    top = "".join(
        f'<th scope="col"{"" if i == 0 else _NUM}>{escape(cell)}</th>' for i, cell in enumerate(head)
    )
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>' + "".join(_cell(cell) for cell in row[1:]) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def figure(svg: str, caption: str) -> str:
    """A figure with its caption; nothing where there is no figure."""
    return (
        f'<figure class="wide">{svg}<figcaption class="soft">{escape(caption)}</figcaption></figure>'
        if svg
        else ""
    )


def section(title: str, *parts: str) -> str:
    """A titled section, left out where it is empty."""
    body = "".join(parts)
    return f"<section><h2>{escape(title)}</h2>{body}</section>" if body else ""


def card(title: str, big: str, small: str) -> str:
    """One of the three figures that people came for."""
    return f'<div class="card"><h2>{escape(title)}</h2><p class="big">{escape(big)}</p>{paragraph(small, "soft")}</div>'
