"""What killed runs left is cleared, and nothing else ever is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvdoctor.lab import leftovers, quota
from kvdoctor.lab.parent import PARENT, followed

ROOT = Path(__file__).parents[2]
DIES = """
import os, pathlib, sys
from kvdoctor.lab.leftovers import run_folder
with run_folder() as folder:
    (folder / "server.log").write_text("x")
    (folder / "model").mkdir()
    sys.stdout.write(str(folder))
    sys.stdout.flush()
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A temporary folder of its own, for us and for those we start."""
    monkeypatch.setattr(leftovers.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def dead() -> Path:
    """The folder of a run that was killed."""
    done = subprocess.run([sys.executable, "-c", DIES], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return Path(done.stdout)


def test_a_folder_is_gone_with_its_run(temporary):
    with leftovers.run_folder() as folder:
        assert [each.name for each in folder.iterdir()] == [leftovers.OWNER]
    assert list(temporary.iterdir()) == []


def test_a_dead_runs_folder_is_cleared_and_a_living_ones_is_not(temporary):
    left = dead()
    assert left.is_dir()
    with leftovers.run_folder() as living:
        leftovers.sweep()
        assert list(temporary.iterdir()) == [living]
        assert (living / leftovers.OWNER).exists()


def others(temporary: Path) -> None:
    """Things that look like a run's and are not a dead run's of ours."""
    (temporary / "elsewhere").mkdir()
    (temporary / "elsewhere" / leftovers.OWNER).touch()
    (temporary / "kvlab-link").symlink_to(temporary / "elsewhere")
    (temporary / "kvlab-file").write_text("kept")
    (temporary / "kvlab-unmarked").mkdir()
    (temporary / "kvlab-marked-by-a-link").mkdir()
    (temporary / "kvlab-marked-by-a-link" / leftovers.OWNER).symlink_to(
        temporary / "elsewhere" / leftovers.OWNER
    )
    (temporary / "mykvlab-1").mkdir()
    (temporary / "mykvlab-1" / leftovers.OWNER).touch()


def test_nothing_that_is_not_a_marked_folder_of_a_run_is_touched(temporary):
    others(temporary)
    before = sorted(temporary.rglob("*"))
    leftovers.sweep()
    assert sorted(temporary.rglob("*")) == before


def test_another_users_dead_run_is_left_alone(temporary, monkeypatch):
    left, uid = dead(), os.geteuid()
    monkeypatch.setattr(leftovers.os, "geteuid", lambda: uid + 1)
    leftovers.sweep()
    assert left.is_dir()


def test_where_no_lock_can_be_set_nobody_takes_the_run_for_dead(temporary, monkeypatch):
    def refused(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    with monkeypatch.context() as patched:
        patched.setattr(leftovers.fcntl, "flock", refused)
        run = leftovers.run_folder()
        folder = run.__enter__()
    leftovers.sweep()
    assert folder.is_dir()
    run.__exit__(None, None, None)
    assert not folder.exists()


@pytest.mark.parametrize(
    "path",
    ["/sys/fs/cgroup", "/sys/fs/cgroup/system.slice", "/tmp/kvlab-1", "/sys/fs/cgroup/../../kvlab-1", ""],
)
def test_a_note_that_names_no_cgroup_of_a_run_removes_none(temporary, monkeypatch, path):
    monkeypatch.setattr(quota, "leave_and_remove", lambda cgroup: pytest.fail(f"{cgroup} was to be removed"))
    left = dead()
    (left / leftovers.CGROUP).write_text(path)
    leftovers.sweep()
    assert not left.exists()


@pytest.mark.parametrize(
    "note", [b"\xff\xfe", b"/sys/fs/cgroup/kvlab-\0", None], ids=["no text", "a zero", "a folder"]
)
def test_a_note_that_no_run_wrote_stops_no_sweep(temporary, note):
    left = dead()
    if note is None:
        (left / leftovers.CGROUP).mkdir()
    else:
        (left / leftovers.CGROUP).write_bytes(note)
    leftovers.sweep()
    assert not left.exists()


def test_a_cgroup_that_is_still_in_use_is_kept_with_its_note(temporary, monkeypatch):
    left, cgroup = dead(), temporary / "fs" / "kvlab-7"
    cgroup.mkdir(parents=True)
    monkeypatch.setattr(quota, "ROOT", temporary / "fs")
    monkeypatch.setattr(quota, "_GONE_S", 0.1)
    (cgroup / "cgroup.procs").write_text("1\n")  # as a folder that is not empty it can't be removed either
    (left / leftovers.CGROUP).write_text(str(cgroup))
    leftovers.sweep()
    assert cgroup.is_dir()
    assert left.is_dir()
    (cgroup / "cgroup.procs").unlink()
    leftovers.sweep()
    assert not cgroup.exists()
    assert not left.exists()


@pytest.mark.skipif(not quota.available(), reason="no CPU quota can be set here")
def test_whoever_clears_a_cgroup_leaves_it_first(temporary):
    code = (
        "import os, pathlib\n"
        "from kvdoctor.lab import quota\n"
        "folder = quota._parent() / f'kvlab-test-{os.getpid()}'\n"
        "folder.mkdir()\n"
        "quota.move(folder, os.getpid())\n"
        "print(quota.leave_and_remove(folder), folder.exists())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["True", "False"]


FOLLOWS = """
import os, signal, sys, time
from kvdoctor.lab.parent import follow
follow(os.environ)
sys.stdout.write(f"{os.getpid()}\\n")
sys.stdout.flush()
time.sleep(60)
"""
STARTS = """
import os, subprocess, sys
from kvdoctor.lab.parent import followed
subprocess.run([sys.executable, "-c", sys.argv[1]], env=followed(os.environ))
"""


def test_a_run_ends_with_the_run_that_started_it():
    outer = subprocess.Popen(
        [sys.executable, "-c", STARTS, FOLLOWS], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    with outer:
        assert outer.stdout is not None
        inner = int(outer.stdout.readline())
        outer.kill()
        assert outer.stdout.read() == ""  # at its end: nobody holds the pipe any longer
    end = time.monotonic() + 10
    while Path(f"/proc/{inner}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{inner}").exists()


def test_the_environment_names_who_is_followed():
    assert followed({"A": "b"}) == {"A": "b", PARENT: str(os.getpid())}
