"""From a plotting library's SVG to one that lives in a page: its theme, its fonts, ids of its own."""

from __future__ import annotations

import re
from html import escape

SERIES = 8
"""Colours a figure may use; the last one is for what is left over."""
INK, MUTED, RULE, PAPER = "#010101", "#010102", "#010103", "#010104"
STROKES = tuple(f"#0102{n:02x}" for n in range(1, SERIES + 1))
FILLS = tuple(f"#0103{n:02x}" for n in range(1, SERIES + 1))
"""Colours that nobody sees: each stands for a custom property of the page and so follows its theme."""

PROPERTIES: dict[str, str] = {
    INK: "--ink",
    MUTED: "--muted",
    RULE: "--rule",
    PAPER: "--paper",
    **{colour: f"--c{n}" for n, colour in enumerate(STROKES, 1)},
    **{colour: f"--f{n}" for n, colour in enumerate(FILLS, 1)},
}

_PROLOGUE = re.compile(r"^.*?(?=<svg\b)", re.DOTALL)
_UNWANTED = re.compile(r"<!--.*?-->|<metadata>.*?</metadata>|<style\b.*?</style>", re.DOTALL)
_OPENING = re.compile(r'<svg\b[^>]*?viewBox="([^"]*)"[^>]*>', re.DOTALL)
_NAMESPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
_COLOUR = re.compile(r"#010[1-3][0-9a-f]{2}")
_FONT = re.compile(r"(font: [^'\";]*?px) [^;\"]*")
_TAG = re.compile(r"<[^>]*>")
_ID = re.compile(r' id="')
_USE = re.compile(r'(xlink:href="#|url\(#)')


def inline(svg: str, slug: str, title: str, description: str) -> str:
    """Return the `<svg>` element; `slug` makes its ids its own, title and description are read aloud."""
    body = _TAG.sub(lambda m: _own(m[0], slug), _UNWANTED.sub("", _PROLOGUE.sub("", svg)))
    spoken = (
        f'role="img" aria-labelledby="{slug}-title {slug}-desc">\n<title id="{slug}-title">{escape(title)}</title>\n'
        f'<desc id="{slug}-desc">{escape(description)}</desc>'
    )
    return _OPENING.sub(
        lambda found: f'<svg {_NAMESPACES} viewBox="{found[1]}" {spoken}', body, count=1
    ).strip()


def _own(tag: str, slug: str) -> str:
    """Rewrite one tag: ids and references to them, colours, fonts. Text between tags is never touched."""
    tag = _ID.sub(f' id="{slug}-', _USE.sub(lambda m: f"{m[1]}{slug}-", tag))
    tag = _COLOUR.sub(lambda m: f"var({PROPERTIES[m[0]]})", tag)
    return _FONT.sub(r"\1 var(--sans)", tag)
