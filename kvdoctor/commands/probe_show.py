"""Where the results of probes go: text, JSON lines, a page; and the exit code."""

from __future__ import annotations

import json as json_format
import os
import sys
from collections.abc import Sequence
from typing import Any

from kvdoctor.errors import KvdoctorError

FAILED = 1


def show(results: Sequence[dict[str, Any]], json: str | None, html: str | None) -> int:
    """Print lines of JSON or text, write the files; return the exit code: 1 when nothing was measured."""
    from kvdoctor.render.probe_text import render

    lines = "".join(json_format.dumps(result) + "\n" for result in results)
    if json is not None and json != "-":
        _write(lines, json, '{"schema_version"')
    if html is not None:
        from kvdoctor.render.probe_html import render as render_html

        _write(render_html(results), html, "<!doctype html>")
    sys.stdout.write(lines if json == "-" else render(results))
    return 0 if any("rows" in result for result in results) else FAILED


def _write(text: str, where: str, begin: str) -> None:
    """Write to a new file, or over one that begins as ours do."""
    try:
        if os.path.exists(where):
            with open(where, encoding="utf-8", errors="replace") as old:
                if old.read(len(begin)) not in ("", begin):
                    raise KvdoctorError(
                        f"{where} exists and holds no result of a probe", "choose another name"
                    )
        with open(where, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise KvdoctorError(
            f"{where} cannot be written: {error.strerror}", "choose another folder"
        ) from error
