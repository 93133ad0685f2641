"""Text from outside is data: nothing in it steers a terminal, a page or a figure."""

from __future__ import annotations

import re
import unicodedata

LIMIT = 1000
"""Characters of one sentence that a person gets to see; what is over is counted. JSON keeps it all."""
NAME_LIMIT = 300
"""The same for one name: a model, a label, a metric."""
READ_AHEAD = 4
"""How many times the limit is looked at, so that a string full of escape sequences still shows its text."""

_SEQUENCE = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\x90\x98\x9d-\x9f]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[ -/]*[0-~]"  # other escapes
)
_SPACES = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x1f\x85")


def _glyph(character: str) -> str:
    """Return what may be shown of one character: itself, a space, a mark for the unknown, or nothing."""
    category = unicodedata.category(character)
    if category[0] == "Z" or character in _SPACES:
        return " "
    if category in ("Cc", "Cf"):  # control characters; bidi overrides and zero-width characters
        return ""
    return "\N{REPLACEMENT CHARACTER}" if category[0] == "C" else character


def visible(text: str) -> str:
    """Return one line of visible text: no escape sequence, no control or direction character, no newline."""
    return " ".join("".join(_glyph(c) for c in _SEQUENCE.sub("", text)).split())


def clean(text: str, limit: int = LIMIT) -> str:
    """Return visible text of at most `limit` characters, and how many more there were."""
    head = text[: limit * READ_AHEAD]
    shown, unread = visible(head), len(text) - len(head)
    if len(shown) <= limit and not unread:
        return shown
    return f"{shown[:limit]} [and {max(0, len(shown) - limit) + unread:,} more characters]"


def name(text: str) -> str:
    """Return visible text of a name's length."""
    return clean(text, NAME_LIMIT)


def shorten(text: str, limit: int) -> str:
    """Return clean text cut to a figure's room, the cut marked; the full text must stand beside it."""
    shown = clean(text)
    return shown if len(shown) <= limit else shown[: limit - 1].rstrip() + "…"
