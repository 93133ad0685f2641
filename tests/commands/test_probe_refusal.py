"""What forbids a probe beside a service, over a /proc that the test writes, and beside a real process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvdoctor.collectors.chosen import Service
from kvdoctor.commands import probing
from kvdoctor.commands.probe_refusal import forbidden
from kvdoctor.commands.probing import Asked
from kvdoctor.errors import Unavailable

SERVICE = frozenset({70, 71})


class Proc:
    """A /proc with a service of two processes."""

    def __init__(self, root):
        self.root = root
        self.add(70, "vllm", parent=60)
        self.add(71, "python", parent=70)

    def add(self, pid, name, *words, parent=1, tracer=0, environ=b""):
        folder = self.root / str(pid)
        (folder / "task" / str(pid)).mkdir(parents=True)
        (folder / "stat").write_text(f"{pid} ({name}) S {parent} 0 0\n")
        (folder / "cmdline").write_bytes("\0".join([name, *words, ""]).encode())
        (folder / "task" / str(pid) / "status").write_text(f"Name:\t{name}\nTracerPid:\t{tracer}\nUid:\t0\n")
        (folder / "environ").write_bytes(environ)

    def ask(self, *, card=False, pids=SERVICE, name="hbm"):
        forbidden(name, "/nowhere", pids, card=card, proc=str(self.root))


@pytest.fixture
def proc(tmp_path):
    return Proc(tmp_path)


def test_a_service_that_nobody_profiles_is_no_reason(proc):
    proc.add(80, "python", "--port", "70")
    proc.add(81, "dcgmi", "dmon", "-e", "203", parent=1)
    assert proc.ask(card=True) is None


def test_a_thread_that_is_traced_is_named_with_its_tracer(proc):
    proc.add(90, "py-spy", "record")
    (proc.root / "71/task/75").mkdir()
    (proc.root / "71/task/75/status").write_text("Name:\tx\nTracerPid:\t90\n")
    with pytest.raises(Unavailable) as refused:
        proc.ask()
    assert refused.value.reason == "process 71 is traced by py-spy (pid 90), which holds it up"
    assert refused.value.cure == "end it first, or --force"


def test_a_tracer_out_of_sight_is_a_reason_too(proc):
    (proc.root / "70/task/70/status").write_text("TracerPid:\t90\n")
    with pytest.raises(Unavailable, match="traced by a process of another namespace"):
        proc.ask()


@pytest.mark.parametrize(
    ("pid", "name", "words", "card", "reason"),
    [
        (90, "py-spy", ("record", "--pid", "71"), False, r"py-spy \(pid 90\) profiles the service"),
        (90, "perf", ("record", "-p71"), False, r"perf \(pid 90\) profiles the service"),
        (60, "nsys", ("profile", "vllm"), False, r"nsys \(pid 60\) profiles the service"),
        (90, "ncu", ("other",), True, r"ncu \(pid 90\) profiles a card of this machine"),
        (90, "dcgmi", ("dmon", "-e", "1002,1003"), True, "reads profiling counters"),
        (90, "nvidia-cuda-mps", ("-d",), True, "an MPS daemon runs"),
    ],
)
def test_programs_that_profile_are_named(proc, pid, name, words, card, reason):
    proc.add(pid, name, *words)
    with pytest.raises(Unavailable, match=reason):
        proc.ask(card=card)


@pytest.mark.parametrize(
    ("name", "words"),
    [("py-spy", ("record", "--pid", "710")), ("ncu", ("other",)), ("nvidia-cuda-mps", ("-d",))],
)
def test_what_profiles_others_is_none_of_a_probe_without_a_card(proc, name, words):
    proc.add(90, name, *words)
    assert proc.ask(card=False) is None


def test_a_service_started_under_nsight_is_seen_by_its_environment(proc):
    (proc.root / "71/environ").write_bytes(b"A=1\0CUDA_INJECTION64_PATH=/opt/lib.so\0")
    with pytest.raises(Unavailable, match="process 71 was started under a profiler of CUDA"):
        proc.ask()


def test_without_a_service_only_the_card_is_asked_about(proc):
    proc.add(90, "ncu", "other")
    proc.ask(pids=frozenset())
    with pytest.raises(Unavailable, match="profiles a card"):
        proc.ask(pids=frozenset(), card=True)


# -- a real tracer -------------------------------------------------------------------------------------------------


@pytest.fixture
def traced():
    """A process that strace is attached to; skipped where there is none, or where it may not trace."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    tracer = subprocess.Popen(["strace", "-q", "-o", "/dev/null", "-p", str(process.pid)])
    end = time.monotonic() + 20
    status = Path(f"/proc/{process.pid}/status")
    while "TracerPid:\t0" in status.read_text() and tracer.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    yield process.pid if tracer.poll() is None else None
    for each in (tracer, process):
        each.kill()
        each.wait()


def asked(pid, folder, *, force):
    service = Service((), frozenset({pid}))
    options = {"path": str(folder), "shared": True, "size": 0}
    return Asked("nvme", options, pid=pid, service=service, force=force)


def test_a_traced_service_is_not_probed_beside_unless_that_is_forced(traced, tmp_path, monkeypatch):
    if traced is None:
        pytest.skip("tracing is not allowed here")
    monkeypatch.setattr(probing, "_child", lambda *given: {"rows": []})
    found = probing.run_one(asked(traced, tmp_path, force=False))
    assert f"process {traced} is traced by strace" in found["refused"]["reason"]
    assert found["refused"]["how"] == "refused"
    assert "rows" in probing.run_one(asked(traced, tmp_path, force=True))


def test_our_own_process_is_no_reason(tmp_path):
    tracer = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("TracerPid")
    )
    if tracer.split()[1] != "0":
        pytest.skip("these tests run under a debugger")
    assert forbidden("hbm", str(tmp_path), frozenset({os.getpid()}), card=False) is None
