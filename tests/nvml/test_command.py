"""The real command, attached to a process, with the mock where the loader finds the driver's library."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from loads import endpoint
from nvml import scenes
from nvml.mock import SCENARIO, installed
from program import Program

SECONDS, APART = 12.0, 0.1
WATCHED = "3"
LOAD = {
    "prompt": 1990, "outputs": 21, "first_tokens": 3000, "running": 40, "usage": 0.05, "itl_mean": 0.008,
    "ttft_mean": 0.03, "prefill_mean": 0.02, "e2e_mean": 0.19, "seconds": SECONDS, "readings": 121,
}  # fmt: skip


def texts():
    """The pages of the one engine, a tenth of a second apart."""
    page = endpoint(**LOAD)
    columns = [(c, ",".join(f'{k}="{v}"' for k, v in c.labels)) for c in page.columns]
    return [
        "".join(f"{c.name}{{{labels}}} {c.known(reading)}\n" for c, labels in columns)
        for reading in range(page.readings)
    ]


@contextmanager
def serving(folder: Path, pages: Path):
    """A process that looks like `vllm serve`; yields its pid."""
    script = folder / "vllm"
    shutil.copy(Path(__file__).with_name("served.py"), script)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, str(script), "serve", "m", "--port", str(port), str(pages)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.kill()


@contextmanager
def diagnosing(library, folder: Path, pages: Path, scene):
    """A run of the command over one engine and its cards; yields the program and the run."""
    folder.mkdir()
    with serving(folder, pages) as pid:
        lines = (*scenes.healthy(2), *scene, f"* processes 0 {pid}:{90 * scenes.GIB}")
        (folder / "scene").write_text("\n".join(lines))
        program = Program(
            folder,
            LD_LIBRARY_PATH=str(installed(library, folder / "lib")),
            **{SCENARIO: str(folder / "scene")},
        )
        words = ("diagnose", "--pid", str(pid), "--seconds", WATCHED, "--slo", "itl=4ms", "--json")
        yield program, program.start(*words)


@pytest.fixture(scope="module")
def runs(library, tmp_path_factory):
    """Both diagnoses, made side by side."""
    root = tmp_path_factory.mktemp("runs")
    pages = root / "pages"
    pages.write_text(json.dumps(texts()))
    with (
        diagnosing(library, root / "hbm", pages, scenes.BANDWIDTH_BOUND) as (first, one),
        diagnosing(library, root / "host", pages, scenes.HOST_BOUND) as (second, two),
    ):
        found = [program.end(run) for program, run in ((first, one), (second, two))]
    assert [run.code for run in found] == [0, 0], found
    return [json.loads(run.out) for run in found]


def test_the_command_separates_bandwidth_from_host_by_gpm_alone(runs):
    hbm, host = runs
    assert (hbm["primary"], host["primary"]) == ("bandwidth", "host")
    assert hbm["targets"][0]["engine"] == host["targets"][0]["engine"] == "vllm"
    assert hbm["targets"][0]["gpus"] == ["NVIDIA H200", "NVIDIA H200"]
    for metric in ("ttft", "itl"):
        assert hbm["ledger"][metric]["seconds"] == pytest.approx(host["ledger"][metric]["seconds"], rel=0.01)


def test_the_report_says_who_counted(runs):
    sources = {e["source"] for run in runs for f in run["findings"] for e in f["evidence"]}
    assert "GPM counters" in sources
