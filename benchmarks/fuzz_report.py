"""Whatever was read must lead to reports that steer nothing: text, JSON, Markdown, HTML."""

from __future__ import annotations

import io
import json
import re
import zlib

from rich.console import Console

from benchmarks.fuzz_watch import Leak
from kvdoctor.diagnose import diagnose
from kvdoctor.export import export_text
from kvdoctor.fleet import fleet
from kvdoctor.model import Diagnosis
from kvdoctor.recording import Recording
from kvdoctor.render import html, markdown, terminal
from kvdoctor.render import json as as_json

JUDGED_ONE_IN = 8
"""Of so many inputs one is judged and written as text, JSON and Markdown: that takes 20 times as long as reading it."""
SLOW_ONE_IN = 64
"""Likewise drawn as HTML, whose figures take a tenth of a second; another one is compared as a fleet and exported."""
_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def answer(recording: Recording, data: bytes, *, every: bool = False) -> None:
    """Judge a recording and write every report; which inputs get the slow ones hangs on their bytes alone."""
    chance = zlib.crc32(data)
    if not any(source.at for source in recording.sources) or not (every or chance % JUDGED_ONE_IN < 2):
        return
    if every or not chance % JUDGED_ONE_IN:
        reports(diagnose(recording), slow=every or not chance % SLOW_ONE_IN)
    if every or chance % SLOW_ONE_IN == 1:
        fleet(recording)
        # The export is for machines: it may hold what a label held, but has to be writable.
        "".join(export_text(recording)).encode("utf-8", "surrogatepass")


def reports(found: Diagnosis, *, slow: bool) -> None:
    """Write the reports of an answer; Leak where one of them would steer who shows it."""
    text = io.StringIO()
    terminal.render(found, Console(file=text, width=100, highlight=False, markup=False, emoji=False))
    plain(text.getvalue(), "terminal")
    plain(markdown.render(found), "markdown")
    told = as_json.render(found)
    plain(told, "JSON")
    json.loads(told, parse_constant=_no_number)
    if slow:
        plain(html.render(found), "HTML")


def plain(text: str, where: str) -> None:
    """Raise Leak where a text holds a control character, one that turns direction, or half a pair."""
    found = _STEERS.search(text)
    if found:
        raise Leak(f"{found[0]!r} in {where}")


def _no_number(text: str) -> float:
    raise Leak(f"{text} in JSON")
