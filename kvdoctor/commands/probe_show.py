"""Where the results of probes go: text, JSON lines, a page; and the exit code."""

from __future__ import annotations

import json as json_format
import os
import sys
from collections.abc import Sequence
from typing import Any

from kvdoctor.errors import KvdoctorError

FAILED = 1
BEGINS = {"json": '{"schema_version"', "html": "<!doctype html>"}
"""How an earlier result of ours begins: it may be written over, and nothing else may."""


def check(json: str | None, html: str | None) -> None:
    """Look at the files before anything is measured; KvdoctorError for one that could not be written then."""
    for name, where in (("json", json), ("html", html)):
        if where is None or (name == "json" and where == "-"):
            continue
        _check_old(where, BEGINS[name])
        place = where if os.path.exists(where) else os.path.dirname(os.path.abspath(where))
        if not where or os.path.isdir(where) or not os.access(place, os.W_OK):
            raise KvdoctorError(f"{where} cannot be written", f"--{name} FILE in a folder of yours")


def show(results: Sequence[dict[str, Any]], json: str | None, html: str | None) -> int:
    """Print lines of JSON or text, write the files; return the exit code: 1 when nothing was measured."""
    from kvdoctor.render.probe_text import render

    lines = "".join(json_format.dumps(result) + "\n" for result in results)
    sys.stdout.write(lines if json == "-" else render(results))
    sys.stdout.flush()
    if json is not None and json != "-":
        _write(lines, json, "json")
    if html is not None:
        from kvdoctor.render.probe_html import render as render_html

        _write(render_html(results), html, "html")
    return 0 if any("rows" in result for result in results) else FAILED


def _write(text: str, where: str, name: str) -> None:
    """Write to a new file, or over one that begins as ours do."""
    _check_old(where, BEGINS[name])
    try:
        with open(where, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise KvdoctorError(
            f"{where} cannot be written: {error.strerror}", "choose another folder"
        ) from error


def _check_old(where: str, begin: str) -> None:
    """Raise KvdoctorError for a file that holds something else. What is no file, such as a pipe, is not read."""
    if not os.path.isfile(where):
        return
    try:
        with open(where, encoding="utf-8", errors="replace") as old:
            start = old.read(len(begin))
    except OSError:
        return  # writing will say why it cannot be
    if start not in ("", begin):
        raise KvdoctorError(f"{where} exists and holds no result of a probe", "choose another name")
