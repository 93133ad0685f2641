"""Stacks: folded without folders or lines, counted over the members, and refused with the right cure."""

from __future__ import annotations

import json
import sys

import pytest
from hosts import ENGINE, FIXTURES, values, write

from kvdoctor.collectors import pyspy
from kvdoctor.collectors.stacks import ALWAYS, BUDGET, GIVE_UP, MAX_STACKS, Stacks, folded
from kvdoctor.errors import Refused, Unavailable
from kvdoctor.target.family import Member

LOADED = (FIXTURES / "stacks" / "vllm_engine_core_loaded.json").read_bytes()


def members(number: int) -> tuple[Member, ...]:
    return tuple(Member(100 + i, 1, 0, "worker", 1, "", 100 + i) for i in range(number))


def test_a_captured_dump_folds_into_modules_without_folders():
    stacks = dict((thread, frames) for thread, _, frames in folded(LOADED, ENGINE))
    assert stacks["main"].endswith("vllm.distributed.utils:sched_yield")
    assert "vllm.v1.engine.core:EngineCoreProc.run_busy_loop" in stacks["main"].split(";")
    assert "/" not in "".join(stacks.values())


@pytest.mark.parametrize(
    ("path", "short", "module"),
    [
        ("/home/ann/secret-project/serve.py", "serve.py", "serve"),
        ("/home/ann/secret-project/serve.py", "/home/ann/secret-project/serve.py", "serve"),
        ("/opt/v/lib/python3.12/site-packages/vllm/v1/core/__init__.py", "", "vllm.v1.core"),
        ("/usr/lib/python3.13t/threading.py", "threading.py", "threading"),
        ("<string>", "<string>", "<string>"),
    ],
)
def test_no_folder_of_the_machine_is_kept(path, short, module):
    dump = [{"thread_name": "t", "frames": [{"name": "f", "filename": path, "short_filename": short}]}]
    assert folded(json.dumps(dump).encode(), ENGINE)[0][2] == f"{module}:f"


def test_the_main_thread_is_known_by_its_number_too():
    dump = [{"thread_name": "x", "os_thread_id": ENGINE.pid, "frames": []}]
    assert folded(json.dumps(dump).encode(), ENGINE)[0][0] == "main"


@pytest.mark.parametrize("torn", [b"", b"[{", b"not json", b"[" * 5000])
def test_a_torn_dump_is_unavailable(torn):
    with pytest.raises(Unavailable):
        folded(torn, ENGINE)


def test_samples_add_up_over_the_readings():
    place = Stacks((ENGINE,), dump=lambda pid: LOADED)
    for _ in range(8):
        text = place.read().text
    mains = [
        v for k, v in values(text).items() if k.startswith("host_stack_samples") and 'thread="main"' in k
    ]
    assert mains == [8.0]


def test_a_reading_ends_when_its_budget_is_spent_and_others_take_turns():
    now = [0.0]
    seen: list[int] = []

    def dump(pid: int) -> bytes:
        seen.append(pid)
        now[0] += BUDGET / 6
        return LOADED

    place = Stacks(members(20), dump=dump, monotonic=lambda: now[0])
    for _ in range(8):
        place.read()
    assert len(seen) <= 8 * 7
    assert all(seen.count(100 + i) == 8 for i in range(ALWAYS))
    assert len(set(seen)) > ALWAYS


def test_stacks_beyond_the_limit_are_counted_together():
    number = iter(range(10**6))

    def dump(pid: int) -> bytes:
        names = [f"f{next(number)}" for _ in range(MAX_STACKS // 4)]
        return json.dumps(
            [{"thread_name": n, "frames": [{"name": n, "filename": "x.py"}]} for n in names]
        ).encode()

    place = Stacks((ENGINE,), dump=dump)
    for _ in range(6):
        text = place.read().text
    found = values(text)
    kept = [key for key in found if key.startswith("host_stack_samples")]
    assert len(kept) <= MAX_STACKS + 1
    assert any('frames="(more)"' in key for key in kept)


def test_one_member_that_refuses_is_a_gap_and_is_not_asked_again():
    other = members(1)[0]
    asked: list[int] = []

    def dump(pid: int) -> bytes:
        asked.append(pid)
        if pid == other.pid:
            raise Refused("its stacks may not be read", "sudo")
        return LOADED

    place = Stacks((ENGINE, other), dump=dump)
    for _ in range(4):
        text = place.read().text
    assert asked.count(other.pid) == 1
    assert any(key.startswith("host_gap") and "may not be read" in key for key in values(text))


def test_when_no_dump_ever_works_the_place_refuses_with_the_cure():
    def dump(pid: int) -> bytes:
        raise Unavailable("it did not answer in time", "later")

    place = Stacks((ENGINE,), dump=dump)
    for _ in range(GIVE_UP - 1):
        with pytest.raises(Unavailable) as passing:
            place.read()
        assert not isinstance(passing.value, Refused)
    with pytest.raises(Refused):
        place.read()


# -- py-spy itself -----------------------------------------------------------------------------------------

# what py-spy 0.4.3 wrote, cut before its stack traces
DENIED = (
    "Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'\n"
)
_GOT = "Error: Failed to get process executable name. Check that the process is running.\n\nCaused by:\n"
NO_CAPABILITY = _GOT + "    0: Permission denied (os error 13)\n"
NOT_PYTHON = "Error: Failed to find python version from target process\n"
GONE = _GOT + "    0: No such file or directory (os error 2)\n"


@pytest.mark.parametrize(
    ("text", "reason", "lasting"),
    [
        (DENIED, "may not be read", True),
        (NO_CAPABILITY, "may not be read", True),
        (NOT_PYTHON, "no Python process", True),
        (GONE, "has ended", True),
        ("Error: something new\n", "something new", False),
    ],
)
def test_each_failure_has_its_reason(text, reason, lasting):
    failure = pyspy.failure(text, 7, proc="/nonexistent")
    assert reason in failure.reason
    assert isinstance(failure, Refused) is lasting
    assert failure.cure


@pytest.mark.parametrize(
    ("euid", "caps", "owner", "scope", "cure"),
    [
        (0, "0000000000000000", 0, 0, "cap-add SYS_PTRACE"),
        (0, "000001ffffffffff", 0, 3, "until the host boots"),
        (1000, "0000000000000000", 0, 0, "another user"),
        (1000, "0000000000000000", 1000, 1, "ptrace_scope is 1: run kvdoctor with sudo, or sysctl"),
        (1000, "0000000000000000", 1000, 2, "ptrace_scope is 2: run kvdoctor with sudo"),
        (1000, "0000000000000000", 1000, 3, "until the host boots"),
    ],
)
def test_each_missing_permission_has_its_cure(tmp_path, monkeypatch, euid, caps, owner, scope, cure):
    write(
        tmp_path,
        {
            "self/status": f"Name:\tx\nCapEff:\t{caps}\n",
            "7/status": f"Name:\tx\nUid:\t{owner}\t{owner}\t{owner}\t{owner}\n",
            "sys/kernel/yama/ptrace_scope": f"{scope}\n",
        },
    )
    monkeypatch.setattr(pyspy.os, "geteuid", lambda: euid)
    assert cure in pyspy.permission_cure(7, proc=str(tmp_path))


def test_py_spy_is_never_run_without_nonblocking(monkeypatch):
    seen: list[list[str]] = []
    monkeypatch.setattr(pyspy, "binary", lambda: "py-spy")
    monkeypatch.setattr(pyspy, "run", lambda argv, **limits: seen.append(argv) or (0, b"[]", b""))
    pyspy.dump(7)
    assert seen == [["py-spy", "dump", "--nonblocking", "--json", "--pid", "7"]]


def test_without_py_spy_the_cure_is_to_install_it(monkeypatch):
    monkeypatch.setattr(pyspy, "binary", lambda: None)
    with pytest.raises(Refused) as refused:
        pyspy.dump(7)
    assert refused.value.cure == "pip install py-spy"


@pytest.mark.parametrize("program", ["import time; time.sleep(60)", "while True: print('x' * 4096)"])
def test_a_program_that_exceeds_its_limits_is_ended(program):
    with pytest.raises(Unavailable):
        pyspy.run([sys.executable, "-S", "-c", program], time_limit=0.5, size_limit=2**20)
