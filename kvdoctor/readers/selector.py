"""Label matchers of PromQL as they are given on a command line: read as the grammar has them, else refused."""

from __future__ import annotations

import re

from kvdoctor.errors import KvdoctorError
from kvdoctor.secrets import clean

HINT = "give it as 'namespace=\"prod\"', with the shell's quotes around it"
MAX_SHOWN = 80
_ESCAPED = (
    r"\\(?:[abfnrtv\\{quote}]|[0-3][0-7]{{2}}|x[0-9a-fA-F]{{2}}"
    r"|u(?![dD][89a-fA-F])[0-9a-fA-F]{{4}}|U000[0-9a-fA-F]{{5}}|U0010[0-9a-fA-F]{{4}})"
)
"""Escapes of Go's strings, in which PromQL writes its own: no code points that UTF-8 has not."""
_TEXT = "|".join(rf"{quote}(?:[^{quote}\\\n]|{_ESCAPED.format(quote=quote)})*{quote}" for quote in ('"', "'"))
_QUOTED = re.compile(rf"{_TEXT}|`[^`]*`")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OPERATOR = re.compile(r"=~|!~|!=|=")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*(?:\n|\Z))*")


def matchers(text: str) -> tuple[str, ...]:
    """Return the matchers of a selector, `{job="vllm",pod!="a"}` or the same without braces, blanks left out.

    KvdoctorError says where it is none. Whether a pattern is a regular expression is the server's to say.
    """
    reader = _Reader(text)
    braces = reader.take("{")
    found = []
    while not reader.at_end and not reader.sees("}"):
        found.append(_matcher(reader))
        if not reader.take(","):
            break
    if braces and not reader.take("}"):
        raise reader.refusal("a comma or the closing brace is due")
    if not reader.at_end:
        raise reader.refusal("it should have ended" if braces else "a comma or the end is due")
    if not found:
        raise KvdoctorError(f"--match {_shown(text)} selects nothing", HINT)
    return tuple(found)


def _matcher(reader: _Reader) -> str:
    """Read one: a label, an operator, a value. A quoted name alone is a metric's."""
    quoted = reader.match(_QUOTED)
    label = quoted or reader.match(_NAME)
    if not label:
        raise reader.refusal("the name of a label is due")
    operator = reader.match(_OPERATOR)
    if quoted and not operator:
        return f"__name__={quoted}"
    if not operator:
        raise reader.refusal("one of =, !=, =~ and !~ is due")
    value = reader.match(_QUOTED)
    if not value:
        raise reader.refusal("a value in quotes is due")
    return f"{label}{operator}{value}"


class _Reader:
    """A text and how far it was read; blanks and comments between words are passed over."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        if not _is_utf8(text):
            raise KvdoctorError(f"--match {_shown(text)} is not UTF-8", HINT)
        self.match(_BLANK)

    @property
    def at_end(self) -> bool:
        return self._at == len(self._text)

    def sees(self, mark: str) -> bool:
        return self._text.startswith(mark, self._at)

    def take(self, mark: str) -> bool:
        """Pass over a mark, where it stands here."""
        return bool(self.match(re.compile(re.escape(mark))))

    def match(self, pattern: re.Pattern[str]) -> str:
        """Take what matches here, empty where nothing does, and the blanks behind it."""
        found = pattern.match(self._text, self._at)
        if not found:
            return ""
        blank = _BLANK.match(self._text, found.end())
        self._at = blank.end() if blank else found.end()
        return found[0]

    def refusal(self, why: str) -> KvdoctorError:
        """Say what is wrong, and where."""
        rest = _shown(self._text[self._at :])
        where = f"where it goes on with {rest}" if rest else "at its end"
        return KvdoctorError(f"--match {_shown(self._text)} is no selector of PromQL: {why} {where}", HINT)


def _shown(text: str) -> str:
    return clean(text.encode("utf-8", "replace").decode())[:MAX_SHOWN]


def _is_utf8(text: str) -> bool:
    """Say whether a text can be sent: a command line's stray bytes are lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
