"""Keeps secrets and control characters out of recordings and reports."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

MASK = "***"
API_KEY = "KVDOCTOR_API_KEY"
"""Environment variable for a key that should not stand on a command line."""

_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movements
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, SOS, PM, APC: titles, links, clipboard
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_SURE = r"(?:api[-_]?keys?|secret|passw(?:or)?d|credential|authorization)"
_WORD = rf"(?:{_SURE}|token(?!i[sz]))"
# Names are looked at up to a length: without one, a long text that someone else wrote takes its square in time.
_PLAIN, _URL = r"[\w.-]{0,200}", r"[\w.%-]{0,200}"
_OPTION = re.compile(rf"^--?{_PLAIN}{_WORD}{_PLAIN}$", re.IGNORECASE)
_ASSIGNED = re.compile(rf"^(?P<key>{_PLAIN}{_WORD}{_PLAIN})=(?P<value>.*)$", re.IGNORECASE | re.DOTALL)
_USERINFO = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]{0,30}://)[^\s/?#]*@", re.IGNORECASE)
_QUERY = re.compile(rf"(?P<key>[?&;]{_URL}{_WORD}{_URL}=)[^&;#\s]*", re.IGNORECASE)
_BEARER = re.compile(r"(?P<kind>\b(?:bearer|basic)\s+)[\w.~+/=-]{8,}", re.IGNORECASE)
_JSON = re.compile(rf'(?P<key>"{_PLAIN}{_WORD}{_PLAIN}"\s*:\s*)"(?:[^"\\]|\\.)*"', re.IGNORECASE)
# `--max-num-batched-tokens 8192` and `--token-x auto` carry no secret: a short number or a plain word
_HARMLESS = re.compile(r"^(?:\d{1,9}(?:\.\d+)?[kmKM]?|true|false|none|auto)$", re.IGNORECASE)


def key_of(given: str | None = None) -> str | None:
    """Return the key that was given, else the environment's; None without either."""
    return given or os.environ.get(API_KEY)


def clean(text: str) -> str:
    """Return text from outside without escape sequences and control characters, fit for a terminal.

    Line feeds and tabs stay; what turns the direction of writing is dropped with the rest.
    """
    return _CONTROL.sub("", _ESCAPE.sub("", text))


def mask_url(text: str) -> str:
    """Mask user names, passwords and secret query values of every URL in a text."""
    return _QUERY.sub(rf"\g<key>{MASK}", _USERINFO.sub(rf"\g<scheme>{MASK}@", text))


def mask_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """Mask a command line: values of secret options and assignments, credentials in URLs, bearer tokens.

    All words up to the next option are taken for values: vLLM's `--api-key` takes several.
    """
    masked: list[str] = []
    option = ""
    for word in argv:
        if word.startswith("-"):
            option = word if _OPTION.match(word) else ""
            masked.append(_mask_word(word))
        else:
            masked.append(_mask_value(option, word) if option else _mask_word(word))
    return tuple(masked)


def _mask_value(name: str, value: str) -> str:
    counts_tokens = not re.search(_SURE, name, re.IGNORECASE) and _HARMLESS.match(value)
    return value if counts_tokens or not value else MASK


def _mask_word(word: str) -> str:
    found = _ASSIGNED.match(word)
    if found:
        return f"{found['key']}={_mask_value(found['key'], found['value'])}"
    word = _BEARER.sub(rf"\g<kind>{MASK}", mask_url(word))
    return _JSON.sub(rf'\g<key>"{MASK}"', word)
