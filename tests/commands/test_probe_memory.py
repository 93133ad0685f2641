"""`kvdoctor probe` where torch, memory or a device is not there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from program import PROGRAM, Program


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path)


def said(ran):
    """What was printed, with its lines joined."""
    return " ".join(ran.out.split())


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
