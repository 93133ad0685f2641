"""One file a report format."""

from __future__ import annotations

RENDERERS: dict[str, str] = {
    "terminal": "kvdoctor.render.terminal",
    "json": "kvdoctor.render.json",
    "markdown": "kvdoctor.render.markdown",
    "html": "kvdoctor.render.html",
}
"""Name -> module, imported by whoever needs it: html brings jinja2 and matplotlib, terminal brings rich."""
