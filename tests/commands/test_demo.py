"""`kvdoctor demo` as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from diagnosis_capacity import CAPACITY

from kvdoctor.commands.demo import _show
from kvdoctor.commands.demo_all import run
from kvdoctor.commands.output import Output
from kvdoctor.errors import KvdoctorError
from kvdoctor.lab import quota, stage
from kvdoctor.lab.faults import NAMES
from kvdoctor.render import json as as_json

ROOT = Path(__file__).parents[2]
DEMO = [sys.executable, "-m", "kvdoctor.cli", "demo"]
installed = pytest.mark.skipif(bool(stage.missing()), reason=f"not installed: {', '.join(stage.missing())}")


def demo(*words, **options):
    return subprocess.run([*DEMO, *words], capture_output=True, text=True, check=False, cwd=ROOT, **options)


def leftovers(folder):
    """Files of a run, and processes that still work for it."""
    found = list(folder.iterdir())
    for process in Path("/proc").iterdir():
        try:
            environ = (process / "environ").read_bytes() if process.name.isdigit() else b""
        except OSError:
            continue
        if f"TMPDIR={folder}".encode() in environ.split(b"\0"):
            found.append(process)
    return found


def test_the_faults_are_listed_without_the_extra():
    done = demo("--fault", "list")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(NAMES)


def test_without_the_extra_one_sentence_names_what_is_missing_and_the_line_that_installs_it(
    monkeypatch, capsys
):
    from kvdoctor import cli

    monkeypatch.setattr(stage, "missing", lambda: ("torch", "uvicorn"))
    monkeypatch.setattr(sys, "argv", ["kvdoctor", "demo"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 1
    told = capsys.readouterr().err
    assert "torch, uvicorn" in told
    assert "pip install 'kvdoctor[demo]'" in told


@installed
def test_a_recording_is_not_written_over_and_nothing_is_started_for_it(tmp_path):
    (tmp_path / "old.kvrec").write_text("precious")
    ran = demo("--save", str(tmp_path / "old.kvrec"))
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"kvdoctor: {tmp_path}/old.kvrec exists already")
    assert (tmp_path / "old.kvrec").read_text() == "precious"


TOLD = {
    "faults": [{"name": "capacity", "what": "w", "primary": "capacity", "subclass": None, "named": True}],
    "named": True,
    "seed": 1,
    "magnitudes": {},
    "clients": {"ttft_seconds": None, "itl_seconds": None},
}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("option", ["json", "html"])
def test_a_report_that_cannot_be_written_keeps_neither_diagnosis_nor_truth_back(option, capsys):
    contract = json.loads(as_json.render(CAPACITY))
    with pytest.raises(KvdoctorError, match="/dev/full cannot be written"):
        _show(CAPACITY, contract, TOLD, Output(**{option: "/dev/full"}))
    said = capsys.readouterr().out
    assert said.startswith("Bound by capacity")
    assert "The truth" in said


def test_json_on_standard_output_is_alone_there_beside_a_page_in_a_file(tmp_path, capsys):
    contract = json.loads(as_json.render(CAPACITY))
    _show(CAPACITY, contract, TOLD, Output(json="-", html=str(tmp_path / "r.html")))
    assert json.loads(capsys.readouterr().out)["truth"] == TOLD
    assert (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")


@installed
def test_a_full_device_keeps_no_recording_and_nothing_is_started_for_it():
    ran = demo("--save", "/dev/full")
    assert ran.returncode == 1
    assert ran.stderr.startswith("kvdoctor: /dev/full exists already")


@installed
@pytest.mark.parametrize("names", ["nonsense", "none,host"])
def test_an_unknown_fault_is_refused_before_anything_starts(names):
    done = demo("--fault", names)
    assert (done.returncode, done.stdout) == (1, "")
    assert "try:" in done.stderr


@installed
def test_a_run_names_its_fault_agrees_with_its_clients_and_leaves_nothing(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = demo("--fault", "host", "--seconds", "10", "--seed", "4", "--json", env=environment)
    assert done.returncode == 0, done.stderr
    contract = json.loads(done.stdout)
    assert (contract["primary"], contract["subclass"]) == ("host", "scheduler")
    assert contract["truth"]["named"] is True
    assert contract["truth"]["faults"][0]["name"] == "host"
    assert contract["truth"]["magnitudes"]["ranking_s"] > 0
    assert contract["truth"]["clients"]["errors"] == 0
    assert contract["targets"][0]["engine"] == "kvlab"
    assert leftovers(tmp_path) == []


@installed
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_leaves_nothing(tmp_path, number):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [*DEMO, "--fault", "network", "--seed", "1"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        for line in process.stderr:
            if line.startswith("the load warms up"):
                break
        time.sleep(1)
        process.send_signal(number)
        process.stderr.read()
        assert process.wait(60) in (130, 128 + number)
    assert leftovers(tmp_path) == []


def killed(folder, *words, stage="the load warms up"):
    """Kill a run at a stage; return the cgroup that it had made, if any."""
    process = subprocess.Popen(
        [*DEMO, *words, "--seed", "1"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        for line in process.stderr:
            if line.startswith(stage):
                break
        time.sleep(1)
        notes = [note.read_text() for note in folder.glob("kvlab-*/cgroup")]
        process.kill()
    return Path(notes[0]) if notes else None


def wait_nothing_left(folder):
    end = time.monotonic() + 40
    while leftovers(folder) and time.monotonic() < end:
        time.sleep(0.2)
    assert leftovers(folder) == []


@installed
def test_a_run_that_is_killed_leaves_no_process_and_they_clear_its_folder(tmp_path):
    killed(tmp_path, "--fault", "network")
    wait_nothing_left(tmp_path)


@installed
@pytest.mark.skipif(not quota.available(), reason="no CPU quota can be set here")
def test_a_run_that_is_killed_leaves_no_cgroup(tmp_path):
    cgroup = killed(tmp_path, "--fault", "cpu-throttled")
    assert cgroup is not None
    wait_nothing_left(tmp_path)
    assert not cgroup.exists()


@installed
def test_what_a_run_left_that_was_killed_before_its_server_started_is_cleared_by_the_next(tmp_path):
    killed(tmp_path, "--fault", "network", stage="measuring")
    wait_ended(tmp_path)
    left = [entry for entry in tmp_path.iterdir() if entry.name.startswith("kvlab-")]
    assert len(left) == 1
    killed(tmp_path, "--fault", "network", stage="starting")
    wait_nothing_left(tmp_path)


def wait_ended(folder):
    end = time.monotonic() + 40
    while any(str(each).startswith("/proc") for each in leftovers(folder)) and time.monotonic() < end:
        time.sleep(0.2)


@installed
@pytest.mark.lab
@pytest.mark.parametrize("name", NAMES)
def test_every_fault_is_named(name):
    if name == "cpu-throttled" and not quota.available():
        pytest.skip("no CPU quota can be set here")
    contract = run(name, 20.0, 41)
    if not contract["truth"]["named"]:
        # Other work on the machine can spoil one run; two in a row are the diagnosis.
        contract = run(name, 20.0, 42)
    assert contract["truth"]["named"], (contract["summary"], contract["truth"])
