"""The child of a probe: its answers, its limit, and that nothing outlives anybody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from kvdoctor.errors import Absent, KvdoctorError, Unavailable
from kvdoctor.probes import child, inside
from kvdoctor.probes.child import Stopped, run_child

ROOT = str(Path(__file__).resolve().parents[2])
LIMIT = 60.0
FAKE = """
import os, sys, time
from dataclasses import dataclass
from kvdoctor.errors import Absent, KvdoctorError, Unavailable

@dataclass(frozen=True)
class Options:
    what: str = "answer"
    numbers: tuple = ()

def run(options, tell):
    tell("starting", 0.0)
    print("a library prints")
    if options.what == "refuse":
        raise Unavailable("no", "do")
    if options.what == "fail":
        raise KvdoctorError("broke", "fix")
    if options.what == "crash":
        raise ValueError("a bug")
    if options.what == "memory":
        raise OSError(12, "Cannot allocate memory")
    if options.what == "threads":
        raise RuntimeError("can't start new thread")
    if options.what == "loader":
        raise ImportError("libtorch_cpu.so: failed to map segment from shared object")
    if options.what == "absent":
        raise Absent("no card", "elsewhere")
    if options.what == "hang":
        import threading
        threading.Thread(target=threading.Barrier(2).wait).start()
        raise RuntimeError("a bug beside a thread that waits")
    if options.what == "vanish":
        os._exit(7)
    if options.what == "wait":
        tell(str(os.getpid()), 0.5)
        time.sleep(600)
    mine = open("/proc/self/oom_score_adj").read().strip()
    return {"numbers": list(options.numbers), "nice": os.nice(0), "oom": mine, "modules": sorted(sys.modules),
            "path": sys.path, "kind": type(options.numbers).__name__}
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A kvdoctor package with the real child and a probe of the test's own."""
    folder = tmp_path / "kvdoctor"
    (folder / "probes").mkdir(parents=True)
    for name in ("errors.py", "probes/child.py", "probes/inside.py", "probes/shortage.py"):
        (folder / name).write_text(Path(ROOT, "kvdoctor", name).read_text())
    (folder / "__init__.py").write_text("")
    (folder / "probes" / "__init__.py").write_text(
        "from types import SimpleNamespace\nPROBES = {'fake': SimpleNamespace(module='kvdoctor.probes.fake')}\n"
    )
    (folder / "probes" / "fake.py").write_text(FAKE)
    monkeypatch.setattr(child, "package_folder", lambda: str(folder))
    return folder


def alive(pid):
    """Whether a process runs: a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid):
    """Wait until a process is gone; False where it stays."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        if not alive(pid):
            return True
        time.sleep(0.02)
    return False


def test_it_answers_and_tells_what_it_does(package):
    told = []
    found = run_child("fake", {"numbers": [1, 2]}, limit_s=LIMIT, tell=lambda *line: told.append(line))
    assert (found["numbers"], found["kind"]) == ([1, 2], "tuple")
    assert told == [("starting", 0.0)]


def test_it_is_nice_and_the_first_to_be_killed_for_memory(package):
    found = run_child("fake", {}, limit_s=LIMIT)
    assert found["nice"] >= inside.NICE
    assert found["oom"] == "1000"


def test_it_sees_our_package_and_nothing_else_of_ours(package):
    found = run_child("fake", {}, limit_s=LIMIT)
    assert str(package.parent) not in found["path"]
    assert "" not in found["path"]
    assert not {"typer", "psutil", "rich"} & set(found["modules"])


def test_it_leaves_no_bytecode_in_the_package(package):
    run_child("fake", {}, limit_s=LIMIT)
    assert not list(package.rglob("*.pyc"))


@pytest.mark.parametrize(
    ("what", "kind", "text"),
    [
        ("refuse", Unavailable, "no"),
        ("fail", KvdoctorError, "broke"),
        ("memory", Unavailable, "the fake probe could not get the memory or the threads"),
        ("threads", Unavailable, "the fake probe could not get the memory or the threads"),
        ("loader", Unavailable, "the fake probe could not get the memory or the threads"),
        ("absent", Absent, "no card"),
        ("hang", KvdoctorError, "RuntimeError: a bug beside a thread that waits"),
        ("crash", KvdoctorError, "ended without an answer: ValueError: a bug"),
        ("vanish", KvdoctorError, "ended without an answer: a library prints"),
    ],
)
def test_every_end_is_a_clear_line(package, what, kind, text):
    with pytest.raises(kind) as caught:
        run_child("fake", {"what": what}, limit_s=LIMIT)
    assert text in str(caught.value)


def pid_of(told):
    return int(next(doing for doing, share in told if share == 0.5))


def test_out_of_time_it_is_ended(package):
    told = []
    with pytest.raises(KvdoctorError, match="did not end within"):
        run_child("fake", {"what": "wait"}, limit_s=2.0, tell=lambda *line: told.append(line))
    assert all(gone(int(doing)) for doing, share in told if share == 0.5)


def test_a_reason_to_stop_ends_it(package):
    told = []

    def stop():
        return "the service suffers" if any(share == 0.5 for _, share in told) else ""

    with pytest.raises(Stopped, match="the service suffers"):
        run_child("fake", {"what": "wait"}, limit_s=LIMIT, tell=lambda *line: told.append(line), stop=stop)
    assert gone(pid_of(told))


def test_a_kill_of_the_child_is_a_clear_line(package):
    def kill(doing, share):
        if share == 0.5:
            os.kill(int(doing), signal.SIGKILL)

    with pytest.raises(KvdoctorError, match="was killed from outside"):
        run_child("fake", {"what": "wait"}, limit_s=LIMIT, tell=kill)


def test_a_kill_of_the_parent_ends_the_child(package):
    code = f"""
        import sys
        sys.path.insert(0, {ROOT!r})
        from kvdoctor.probes import child
        child.package_folder = lambda: {str(package)!r}
        child.run_child("fake", {{"what": "wait"}}, limit_s=100, tell=lambda d, s: print(d, flush=True))
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "starting\n"
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(pid)


@pytest.mark.parametrize("says", ["hello", "[1]", '{"a": 1}', '{"share": 1}'])
def test_a_program_that_answers_otherwise_is_no_python(tmp_path, says):
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho '{says}'; sleep 1\n")
    program.chmod(0o755)
    with pytest.raises(KvdoctorError, match="is no Python that runs a probe"):
        run_child("hbm", {}, limit_s=LIMIT, python=str(program))


def test_a_program_that_is_no_python_is_named():
    with pytest.raises(KvdoctorError, match="/nowhere/python cannot be started"):
        run_child("hbm", {}, limit_s=LIMIT, python="/nowhere/python")
