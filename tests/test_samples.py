"""Every sample is diagnosed again, and its reports must come out byte for byte.

pytest tests/test_samples.py --update     writes them anew; read the diff
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from kvdoctor.diagnose import diagnose
from kvdoctor.readers import read
from kvdoctor.render import html, markdown, terminal
from kvdoctor.render import json as as_json

SAMPLES = sorted((Path(__file__).parents[1] / "sample_reports").glob("*/recording.kvrec"))


def _terminal(diagnosis) -> str:
    stream = io.StringIO()
    terminal.render(diagnosis, Console(file=stream, width=80, highlight=False, markup=False, emoji=False))
    return stream.getvalue()


def _without_figures(page: str) -> str:
    """The figures are drawn by a library whose releases place things differently."""
    return re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)


FORMATS = {
    "report.txt": _terminal,
    "report.json": as_json.render,
    "report.md": markdown.render,
    "report.html": html.render,
}


def test_there_are_samples_and_one_of_them_is_healthy():
    names = {path.parent.name for path in SAMPLES}
    assert "healthy" in names
    assert len(names) >= 6


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.parent.name)
def test_a_sample_gives_the_same_reports_again(path, request):
    diagnosis = diagnose(read([str(path)]))
    for name, render in FORMATS.items():
        kept, made = path.with_name(name), render(diagnosis)
        if request.config.getoption("--update"):
            kept.write_text(made, encoding="utf-8")
        strip = _without_figures if name.endswith("html") else str
        assert strip(made) == strip(kept.read_text(encoding="utf-8")), f"{kept} differs"


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.parent.name)
def test_a_sample_is_named_after_its_answer_and_says_how_it_was_made(path):
    found = diagnose(read([str(path)]))
    name = path.parent.name.removeprefix("lab-").replace("-", "_")
    assert name.startswith(found.primary_name)
    assert found.subclass is None or found.subclass in name
    assert "what was run" in path.with_name("README.md").read_text().lower()
