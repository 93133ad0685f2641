"""`kvdoctor probe nvme` as a user runs it: what it answers, what it refuses, and that no file stays, killed or not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from program import Program

ROW_KEYS = {"op", "block_bytes", "bytes_per_s", "latency_seconds", "repeats", "conditions"}


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path)


def said(ran):
    """What was printed, with its lines joined."""
    return " ".join(ran.out.split())


def test_a_disk_is_measured_and_nothing_stays(program, tmp_path):
    ran = program.run("probe", "nvme", "--path", ".", "--size", "64MiB", "--block", "64KiB", "--json")
    assert ran.code == 0, ran.err
    assert ran.err.startswith("nvme: up to ")
    (found,) = [json.loads(line) for line in ran.out.splitlines()]
    assert (found["schema_version"], found["probe"]) == (1, "nvme")
    assert all(set(row) >= ROW_KEYS for row in found["rows"])
    assert {row["block_bytes"] for row in found["rows"]} == {65536, 2**20}
    assert found["footprint"]["disk_bytes"] == 64 * 2**20
    assert {p.name for p in tmp_path.iterdir()} <= {"home", "state"}


def test_a_refusal_is_a_line_with_its_cure_and_exit_code_1(program):
    ran = program.run("probe", "nvme", "--path", "/nowhere")
    assert ran.code == 1
    assert ran.out.splitlines() == [
        "nvme refused: /nowhere is not a folder",
        "  -> --path of a folder on the disk in question",
    ]


def test_a_folder_where_nothing_can_be_made_is_a_clear_line(program):
    ran = program.run("probe", "nvme", "--path", "/proc", "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["refused"]["reason"]


def children(process):
    """The pids of a process's children, once it has some."""
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if found:
            return [int(pid) for pid in found]
        time.sleep(0.01)
    return []


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_gone(pid):
    end = time.monotonic() + 60
    while runs(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not runs(pid)


def test_a_kill_of_the_child_is_a_line_and_leaves_no_file(program, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    running = program.start("probe", "nvme", "--path", str(disk))
    (pid,) = children(running)
    os.kill(pid, signal.SIGKILL)
    ran = program.end(running)
    assert ran.code == 1
    assert "nvme failed: the nvme probe was killed from outside" in ran.out
    assert list(disk.iterdir()) == []


def test_a_kill_of_the_parent_leaves_no_process_and_no_file(program, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    running = program.start("probe", "nvme", "--path", str(disk))
    (pid,) = children(running)
    running.kill()
    running.communicate()
    assert wait_gone(pid)
    assert list(disk.iterdir()) == []


def small_disk(folder, megabytes, options=""):
    """A file system of a few megabytes at a folder; skipped where we may not mount one."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m{options}", "tmpfs", str(folder)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system takes root's rights")
    return folder


@pytest.fixture
def mounted(tmp_path):
    """Mounts that are gone afterwards."""
    folders = []

    def make(megabytes, options=""):
        folders.append(small_disk(tmp_path / f"disk{len(folders)}", megabytes, options))
        return folders[-1]

    yield make
    for folder in folders:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize(
    ("size", "used", "options", "reason"),
    [
        (100, 95, "", "is 95% full"),
        (100, 10, "", "MiB free, and a probe of 256 MiB wants 2,560 MiB"),
        (100, 0, ",ro", "is mounted read-only"),
    ],
    ids=["full", "too small", "read-only"],
)
def test_a_disk_that_is_not_fit_for_it_is_a_line_and_stays_as_it_was(
    program, mounted, size, used, options, reason
):
    disk = mounted(size, options)
    if used:
        (disk / "theirs").write_bytes(bytes(used * 2**20))
    ran = program.run("probe", "nvme", "--path", str(disk))
    assert ran.code == 1
    assert "nvme refused: " in said(ran)
    assert reason in said(ran)
    assert [p.name for p in disk.iterdir()] == (["theirs"] if used else [])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_a_line(program, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    ran = program.run("probe", "nvme", "--path", str(closed))
    assert ran.code == 1
    assert "Permission denied -> --path of a folder that you may write" in said(ran)
