"""The table of renderers, and what loading one brings along."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from kvdoctor.render import RENDERERS

HEAVY = ("rich", "jinja2", "matplotlib", "numpy")


@pytest.mark.parametrize("name", RENDERERS)
def test_every_renderer_of_the_table_exists(name: str) -> None:
    assert callable(importlib.import_module(RENDERERS[name]).render)


@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("kvdoctor.render", set()),
        ("kvdoctor.render.json", set()),
        ("kvdoctor.render.markdown", set()),
        ("kvdoctor.render.html", set()),
        ("kvdoctor.render.terminal", {"rich"}),
        ("kvdoctor.render.diff", {"rich"}),
    ],
)
def test_loading_a_renderer_brings_no_library_it_does_not_need_yet(module: str, allowed: set[str]) -> None:
    code = f"import sys, {module}; print(*(m for m in {HEAVY!r} if m in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert set(ran.stdout.split()) == allowed
