"""The worked example as text."""

from __future__ import annotations

from kvdoctor.render.roofline_text import table, wrapped
from kvdoctor.roofline.example import NOTES, rows


def render() -> str:
    """Return the example as text that ends in a newline."""
    found = [(row.what, row.written, row.exact) for row in rows()]
    out = [
        *wrapped("A 7 B model in FP16, 32 layers with heads of 128, decoding over 131,072 tokens"),
        "",
        *table(("", "as written", "exact"), found),
        "",
    ]
    for note in NOTES:
        out += wrapped(note, indent="    ", first="  - ")
    return "\n".join(out) + "\n"
