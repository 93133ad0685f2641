"""`kvdoctor probe` as a user runs it: cost first, one JSON line a probe, refusals with their cure, exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from program import PROGRAM, Program

from kvdoctor.commands import fartier, probe, probing
from kvdoctor.commands.probe_line import OPTIONS, Line
from kvdoctor.commands.probing import Asked
from kvdoctor.errors import Misuse
from kvdoctor.render.probe_text import render

ROW_KEYS = {"op", "block_bytes", "bytes_per_s", "latency_seconds", "repeats", "conditions"}


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path)


def said(ran):
    """What was printed, with its lines joined."""
    return " ".join(ran.out.split())


def test_without_a_probe_the_cost_of_each_is_listed_and_nothing_is_measured(program):
    ran = program.run("probe")
    assert ran.code == 0
    for name in ("hbm", "pcie", "nvme", "network", "request"):
        assert re.search(rf"^{name}: up to ", ran.out, flags=re.MULTILINE)
    assert "Nothing was measured" in ran.out


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


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="a GPU is here")
def test_without_a_gpu_pcie_is_refused_in_a_sentence(program):
    ran = program.run("probe", "pcie", "--json")
    assert ran.code == 1
    reason = json.loads(ran.out)["refused"]["reason"]
    assert "no GPU" in reason or "no torch" in reason


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["hbn"], "there is no probe 'hbn'"),
        (["request"], "request sends a real prompt to a service"),
        (["network", "--peer", "host"], "--peer host is no HOST:PORT"),
        (["network", "--peer", "127.0.0.1:99999"], "--peer 127.0.0.1:99999 is no HOST:PORT"),
        (["network", "--serve", "--port", "70000"], "there is no port 70000"),
        (["network", "--serve", "--seconds", "inf"], "--seconds inf is not above 0"),
        (["network", "--streams", "0"], "--streams 0 is not between 1 and 64"),
        (["hbm", "--seconds", "nan"], "--seconds nan is not above 0"),
        (["nvme", "--block", "0"], "--block is above 0"),
        (["nvme", "--block", "10GiB"], "64 MiB at most"),
        (["hbm", "--serve"], "--serve is the network probe's"),
    ],
)
def test_what_cannot_be_meant_is_exit_code_2(program, words, text):
    ran = program.run("probe", *words)
    assert ran.code == 2
    assert text in ran.err


def test_a_python_that_is_none_is_a_clear_line(program):
    ran = program.run("probe", "hbm", "--python", "/nowhere/python")
    assert ran.code == 1
    assert "hbm failed: /nowhere/python is no program that we may run" in ran.out


def test_out_of_time_is_a_clear_line(program):
    ran = program.run("probe", "network", "--seconds", "0.5")
    assert ran.code == 1
    assert "network failed: the probe did not end within" in ran.out


def test_a_file_of_somebody_else_is_not_written_over(program, tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    ran = program.run("probe", "nvme", "--path", "/nowhere", "--json", "mine.txt")
    assert ran.code == 1
    assert (tmp_path / "mine.txt").read_text() == "precious"


def test_a_file_that_cannot_be_written_is_said_before_anything_is_measured(program):
    ran = program.run("probe", "hbm", "--html", "/nowhere/page.html")
    assert ran.code == 1
    assert "/nowhere/page.html cannot be written" in ran.err
    assert "loads" not in ran.err


def test_a_disk_that_is_full_in_the_end_keeps_no_result_back(program):
    ran = program.run("probe", "nvme", "--path", "/nowhere", "--json", "/dev/full")
    assert ran.code == 1
    assert "nvme refused: /nowhere is not a folder" in ran.out
    assert "/dev/full cannot be written: No space left" in ran.err


def test_both_ends_by_hand(program):
    peer = program.start("probe", "network", "--serve", "--seconds", "50", stderr=subprocess.PIPE)
    assert peer.stderr is not None
    address = re.search(rb"this machine only at (\S+) for", peer.stderr.readline())
    assert address
    ran = program.run("probe", "network", "--peer", address[1].decode(), "--streams", "2", "--json")
    peer.send_signal(signal.SIGINT)
    peer.communicate(timeout=60)
    assert ran.code == 0, ran.out
    assert json.loads(ran.out)["device"] == address[1].decode()


def test_others_are_not_served_without_a_token(program):
    ran = program.run("probe", "network", "--serve", "--bind", "0.0.0.0")
    assert ran.code == 1
    assert "no token keeps them out" in ran.err


def test_all_is_everything_but_what_is_asked_for_by_name():
    names = probe._names(["all"])
    assert {"hbm", "pcie", "nvme", "network"} <= set(names)
    assert "request" not in names
    assert probe._names(["nvme", "all", "nvme"])[0] == "nvme"


def test_a_probe_that_does_not_exist_is_named_with_those_that_do():
    with pytest.raises(Misuse) as caught:
        probe._names(["disk"])
    assert "nvme" in caught.value.hint


class Stops:
    """Speaks against a probe from the n-th time on that it is asked."""

    def __init__(self, after):
        self.left = after

    def __call__(self):
        self.left -= 1
        return "the service's mean ITL rose from 40.0 ms to 70.0 ms" if self.left < 0 else ""


@pytest.mark.parametrize(
    ("asked", "how", "text"),
    [
        (
            Asked("nvme", {"path": "/tmp"}, stop=Stops(0)),
            "refused",
            "nvme refused: before it started, the service's mean ITL rose from 40.0 ms to 70.0 ms",
        ),
        (
            Asked("nvme", {"path": "/tmp"}, stop=Stops(1)),
            "ended",
            "nvme ended while it ran: the service's mean ITL rose from 40.0 ms to 70.0 ms",
        ),
        (Asked("pcie", python="/bin/false"), "not available", "pcie not available: /bin/false has no torch"),
    ],
)
def test_what_never_began_was_ended_or_is_not_there_is_told_apart(asked, how, text):
    result = probing.run_one(asked)
    assert result["refused"]["how"] == how
    assert " ".join(render([result]).split()).startswith(text)


@pytest.mark.parametrize("name", ["hbm", "pcie", "nvme", "decode", "network"])
@pytest.mark.parametrize(("url", "shared"), [("http://127.0.0.1:9", True), (None, False)])
def test_beside_a_service_every_probe_keeps_to_bursts(name, url, shared):
    assert OPTIONS[name](Line(url=url))["shared"] is shared


NVME = {
    "probe": "nvme",
    "conditions": {"file_system": "ext4"},
    "rows": [
        {
            "op": "random read",
            "block_bytes": 2**20,
            "queue_depth": 1,
            "bytes_per_s": 1.31072e9,
            "latency_seconds": {"p50": 1e-3, "p99": 1e-2},
        }
    ],
}


def test_the_table_sets_each_fetch_against_computing_it():
    """Llama-3.1-8B stores 131,072 bytes a token: 1,024 of them at 1.31 GB/s take 102.4 ms, and one to begin."""
    found = fartier.table([NVME], "Llama-3.1-8B", "H100", 1)
    assert found["conditions"]["kv_bytes_per_token"] == 131072
    rows = {row["tokens"]: row for row in found["rows"]}
    assert sorted(rows) == [1024, 8192, 32768, 131072]
    assert rows[1024]["fetch_seconds"] == pytest.approx(0.1034)
    assert 0.01 < rows[1024]["recompute_seconds"] < 0.1
    assert rows[1024]["break_even_tokens"] is None or rows[1024]["break_even_tokens"] > 1024


def test_without_a_card_only_the_fetch_is_known():
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("the card of this machine is known")
    row = fartier.table([NVME], "Llama-3.1-8B", None, 1)["rows"][0]
    assert row["recompute_seconds"] is None
    assert row["fetch_seconds"] == pytest.approx(0.1034)


def test_without_a_tier_there_is_no_table():
    found = fartier.table([{"probe": "nvme", "refused": {}}], "Llama-3.1-8B", "H100", 1)
    assert found["refused"]["reason"] == "no tier was measured"


# -- what kills it, and what is not there --------------------------------------------------------------------------


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


@pytest.fixture
def plain(tmp_path):
    """A Python that has no torch, wherever ours comes from."""
    script = tmp_path / "plain-python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    script.chmod(0o755)
    return str(script)


def test_a_python_without_torch_is_named_and_memory_is_measured_without(program, plain):
    ran = program.run("probe", "decode", "--python", plain)
    assert ran.code == 1
    assert f"decode not available: {plain} has no torch" in said(ran)
    ran = program.run("probe", "hbm", "--device", "cpu", "--python", plain, "--json")
    assert ran.code == 0, ran.out
    assert json.loads(ran.out)["measures"] == "system memory"


def test_too_little_memory_is_a_line_and_exit_code_1(program):
    ran = program.run("probe", "hbm", "--device", "cpu", "--size", "64TiB")
    assert ran.code == 1
    assert re.search(r"hbm refused: the memory probe needs .* are free -> ", said(ran))


def test_a_device_that_is_none_is_exit_code_2(program):
    ran = program.run("probe", "hbm", "--device", "gpu0")
    assert ran.code == 2
    assert "--device gpu0 is no device" in ran.err


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


MEMORY = Path("/sys/fs/cgroup/memory")


@pytest.fixture
def tight():
    """A memory cgroup of 600 MiB beneath our own (v1); skipped where we may not make one."""
    own = next(
        (
            line.split(":", 2)[2]
            for line in Path("/proc/self/cgroup").read_text().splitlines()
            if ":memory:" in line
        ),
        None,
    )
    if own is None or not os.access(f"{MEMORY}{own}", os.W_OK):
        pytest.skip("making a memory cgroup takes its v1 hierarchy and root's rights")
    folder = Path(f"{MEMORY}{own}") / f"kvdoctor-test-{os.getpid()}"
    folder.mkdir()
    (folder / "memory.limit_in_bytes").write_text(str(600 * 2**20))
    yield folder
    end = time.monotonic() + 30
    while (folder / "cgroup.procs").read_text() and time.monotonic() < end:
        time.sleep(0.02)
    folder.rmdir()


def test_a_cgroup_without_headroom_is_a_line(program, tight):
    code = (
        "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid())); os.execv(sys.argv[2], sys.argv[2:])"
    )
    words = [
        sys.executable,
        "-c",
        code,
        str(tight / "cgroup.procs"),
        *PROGRAM,
        "probe",
        "hbm",
        "--device",
        "cpu",
    ]
    ran = subprocess.run(
        words,
        capture_output=True,
        text=True,
        env=program.environment,
        cwd=program.folder,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1
    told = " ".join(ran.stdout.split())
    assert re.search(r"hbm refused: .* this cgroup has 5\d\d MiB left to its limit -> run the probe", told)
