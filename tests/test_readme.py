"""The README holds what it promises: its two commands, every command of the program, and files that exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from kvdoctor.cli import app
from kvdoctor.lab import stage

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = sorted(typer.main.get_command(app).commands)


def block(name: str) -> str:
    """The code block that follows a marker."""
    found = re.search(rf"<!-- {name} -->\n```\n(.*?)\n```", README, flags=re.DOTALL)
    assert found, f"README has no {name}"
    return found[1]


def test_the_readme_has_one_line_for_the_main_job_and_one_for_the_tests():
    assert "\n" not in block("main command")
    assert "\n" not in block("test command")


@pytest.mark.skipif(bool(stage.missing()), reason=f"not installed: {', '.join(stage.missing())}")
def test_the_main_command_ends_in_a_demo_that_names_its_fault():
    words = block("main command").split("kvdoctor ")[-1].split()
    for _ in range(2):  # other work on the machine can spoil one run
        done = subprocess.run(
            [sys.executable, "-m", "kvdoctor", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if "NOT named" not in done.stdout:
            break
    assert done.returncode == 0, done.stderr
    assert "offload / slow_tier" in done.stdout.splitlines()[0]
    assert "-> offload / slow_tier, named" in done.stdout


def test_the_sample_that_the_readme_reports_is_there():
    (sample,) = re.findall(r"kvdoctor report (sample_reports\S+)", README)
    done = subprocess.run(
        [sys.executable, "-m", "kvdoctor", "report", sample],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "capacity / preemption" in done.stdout.splitlines()[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_readme_and_its_help_ends_with_an_example(name):
    assert f"kvdoctor {name}" in README
    done = subprocess.run(
        [sys.executable, "-m", "kvdoctor.cli", name, "--help"], capture_output=True, text=True, check=True
    )
    assert f"kvdoctor {name}" in done.stdout.split("Usage:")[1].split("\n", 1)[1]


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#:]+)\)", README))
def test_every_link_of_the_readme_leads_to_a_file(link):
    assert (ROOT / link).exists()
