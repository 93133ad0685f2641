"""The first run on a card as a program: each step alone, what was seen kept, nothing left running."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import gpu_first_run
from benchmarks.gpu_steps import STEPS, Step
from kvdoctor.probes import cuda

ROOT = Path(__file__).resolve().parents[2]


def test_without_a_card_it_says_so_in_a_line(tmp_path):
    if cuda.missing() is None:
        pytest.skip("a GPU is here")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu_first_run", "--out", str(tmp_path / "out")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (gpu_first_run.NO_CARD, "")
    assert done.stdout.startswith("nothing was run: ")
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["missing"]


SLEEPER = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("before it hung", child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def step(monkeypatch):
    """Let a step be this program."""

    def make(code):
        monkeypatch.setitem(STEPS, 99, Step("a test", "nothing", 5, dict, dict))
        real = subprocess.Popen

        def popen(argv, **options):
            return real([sys.executable, "-c", code], **options)

        monkeypatch.setattr(gpu_first_run.subprocess, "Popen", popen)

    return make


def test_a_step_that_hangs_is_ended_with_its_children_and_its_words_stay(step, tmp_path):
    step(SLEEPER)
    line = gpu_first_run.run_step(99, tmp_path, 3.0)
    assert line["failed"] == "no end within 3 s"
    said = (tmp_path / "step-99.log").read_text()
    assert said.startswith("before it hung")
    end = time.monotonic() + 30
    while Path(f"/proc/{said.split()[-1]}/exe").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path(f"/proc/{said.split()[-1]}/exe").exists()


def test_a_step_that_fails_has_its_last_line_in_the_summary(step, tmp_path):
    step("raise SystemExit('no such counter')")
    assert gpu_first_run.run_step(99, tmp_path, 30.0)["failed"] == "no such counter"


def test_what_was_seen_is_kept_where_judging_it_fails(monkeypatch, tmp_path):
    def judge(seen):
        raise KeyError("10")

    monkeypatch.setitem(STEPS, 99, Step("a test", "nothing", 5, lambda: {"rate": 5}, judge))
    with pytest.raises(KeyError):
        gpu_first_run.be_step(99, tmp_path)
    assert json.loads((tmp_path / "step-99.json").read_text()) == {"seen": {"rate": 5}}


def test_a_step_that_agrees_is_in_the_summary(monkeypatch, tmp_path):
    monkeypatch.setitem(
        STEPS, 99, Step("a test", "nothing", 5, lambda: {"rate": 5}, lambda seen: {"agrees": True})
    )
    gpu_first_run.be_step(99, tmp_path)
    found = json.loads((tmp_path / "step-99.json").read_text())
    assert found == {"seen": {"rate": 5}, "verdict": {"agrees": True}}
