"""What the command line does without until it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

LATE = (
    "kvdoctor.model",
    "kvdoctor.metrics",
    "rich",
    "matplotlib",
    "jinja2",
    "torch",
    "pynvml",
    "psutil",
    "ssl",
)


@pytest.mark.parametrize("module", LATE)
def test_the_command_line_starts_without(module):
    code = f"import sys, kvdoctor.cli; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
