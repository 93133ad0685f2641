"""Which Python a probe runs under, over a /proc that the test writes."""

from __future__ import annotations

import os
import sys

import pytest

from kvdoctor.commands import interpreter
from kvdoctor.commands.interpreter import python_for, python_of
from kvdoctor.errors import Absent, KvdoctorError, Unavailable


@pytest.fixture
def proc(tmp_path):
    """Process 7, of our user, started by a name in a virtual environment."""
    real, venv = tmp_path / "usr/python3", tmp_path / "venv/bin/python"
    real.parent.mkdir(parents=True)
    venv.parent.mkdir(parents=True)
    real.write_text("")
    venv.symlink_to(real)
    for pid, namespace in (("7", "mnt:[1]"), ("self", "mnt:[1]"), ("8", "mnt:[2]")):
        folder = tmp_path / "proc" / pid
        (folder / "ns").mkdir(parents=True)
        (folder / "ns/mnt").symlink_to(namespace)
        (folder / "exe").symlink_to(real)
        (folder / "cmdline").write_bytes(os.fsencode(venv) + b"\0serve\0")
        (folder / "environ").write_bytes(b"A=1\0")
    return tmp_path


def test_the_virtual_environment_of_the_process_is_found_by_the_name_it_was_started_by(proc):
    assert python_of(7, str(proc / "proc")) == str(proc / "venv/bin/python")


def test_or_by_its_environment_where_it_has_renamed_itself(proc):
    (proc / "proc/7/cmdline").write_bytes(b"VLLM::EngineCore\0")
    (proc / "proc/7/environ").write_bytes(b"VIRTUAL_ENV=" + os.fsencode(proc / "venv") + b"\0")
    assert python_of(7, str(proc / "proc")) == str(proc / "venv/bin/python")


def test_or_it_is_the_program_itself(proc):
    (proc / "proc/7/cmdline").write_bytes(b"VLLM::EngineCore\0")
    assert python_of(7, str(proc / "proc")) == str(proc / "usr/python3")


def test_another_users_python_is_never_run(proc, monkeypatch):
    monkeypatch.setattr(interpreter.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(Unavailable, match="another user's"):
        python_of(7, str(proc / "proc"))


def test_a_container_has_files_of_its_own(proc):
    with pytest.raises(Unavailable, match="in a container") as refused:
        python_of(8, str(proc / "proc"))
    assert "nsenter -t 8 -m" in refused.value.cure


def test_a_process_that_is_gone_is_a_clear_line(proc):
    with pytest.raises(Unavailable, match="process 99 cannot be read"):
        python_of(99, str(proc / "proc"))


def test_what_needs_no_torch_runs_under_ours(monkeypatch):
    monkeypatch.setattr(interpreter, "has_torch", lambda python: False)
    assert python_for("no", given=None, pid=None) == sys.executable
    assert python_for("used", given=None, pid=None) == sys.executable


def test_no_torch_anywhere_is_a_clear_line(monkeypatch):
    monkeypatch.setattr(interpreter, "has_torch", lambda python: False)
    with pytest.raises(Unavailable, match="this Python has no torch") as refused:
        python_for("required", given=None, pid=None)
    assert "kvdoctor[torch]" in refused.value.cure


def test_torch_that_only_our_own_path_leads_to_is_not_counted_on(tmp_path, monkeypatch):
    """A probe's child gets no PYTHONPATH, so what is found through it would be missing there."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("")
    python = tmp_path / "plain"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert not interpreter.has_torch(str(python))
    monkeypatch.setattr(interpreter, "has_torch", lambda python: False)
    with pytest.raises(Absent, match="PYTHONPATH aside"):
        python_for("required", given=None, pid=None)


def test_the_targets_own_python_is_next(monkeypatch):
    monkeypatch.setattr(interpreter, "has_torch", lambda python: python == "/its/python")
    monkeypatch.setattr(interpreter, "python_of", lambda pid: "/its/python")
    assert python_for("required", given=None, pid=7) == "/its/python"


def test_why_the_targets_python_could_not_be_taken_is_said(monkeypatch):
    def closed(pid):
        raise Unavailable("process 7 is another user's, whose Python is not run")

    monkeypatch.setattr(interpreter, "has_torch", lambda python: False)
    monkeypatch.setattr(interpreter, "python_of", closed)
    with pytest.raises(Unavailable, match="another user's"):
        python_for("required", given=None, pid=7)


def test_a_python_that_is_named_goes_before_all(tmp_path, monkeypatch):
    monkeypatch.setattr(interpreter, "has_torch", lambda python: python != sys.executable)
    mine = tmp_path / "python"
    mine.write_text("")
    with pytest.raises(KvdoctorError, match="no program that we may run"):
        python_for("no", given=str(mine), pid=None)
    mine.chmod(0o700)
    assert python_for("required", given=str(mine), pid=None) == str(mine)


def test_a_python_that_is_named_and_has_no_torch_is_refused_where_that_is_needed(monkeypatch):
    monkeypatch.setattr(interpreter, "has_torch", lambda python: False)
    assert python_for("used", given=sys.executable, pid=None) == sys.executable
    with pytest.raises(Unavailable, match="has no torch"):
        python_for("required", given=sys.executable, pid=None)


def test_a_program_that_is_no_python_has_no_torch():
    assert not interpreter.has_torch("/bin/false")
    assert not interpreter.has_torch("/nowhere/python")
