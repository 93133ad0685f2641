"""What we may do, and the line that lets us, in every situation that decides it."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakeproc import FakeProc, vllm

from kvdoctor.model import Gap
from kvdoctor.target.describe import Host, describe
from kvdoctor.target.gpu import Devices
from kvdoctor.target.kin import family_at
from kvdoctor.target.patience import Patience
from kvdoctor.target.permission import (
    CAP_SYS_PTRACE,
    Held,
    Situation,
    files,
    kernel_log,
    monitor,
    nvml,
    perf,
    profiling,
    situation,
    stacks,
    stacks_of_own,
)
from kvdoctor.target.process import Proc
from kvdoctor.target.scan import scan

PTRACE = 1 << CAP_SYS_PTRACE


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def at(
    fake: FakeProc, *, uid: int = 1000, caps: int = 0, scope: str | None = "0", theirs: int = 1000
) -> Situation:
    """We are `uid` with `caps`; a server of user `theirs` runs."""
    import shutil

    shutil.rmtree(fake.root / "self")
    fake.process("self", ["kvdoctor"], pid=999_999, uid=uid, caps=caps)
    if scope is None:
        (fake.root / "sys/kernel/yama/ptrace_scope").unlink()
    else:
        fake.setting("kernel/yama/ptrace_scope", scope)
    vllm(fake, 100, "m", uid=theirs)
    if theirs != uid and not caps:
        for pid in range(100, 105):
            fake.closes(pid)
    proc, patience = Proc(fake.root), Patience()
    kin = family_at(scan(proc, patience, own_pid=0), 100)
    assert kin is not None
    return situation(proc, describe(Host(proc, patience, Devices(), uid), kin).family)


@pytest.mark.parametrize(
    ("uid", "caps", "scope", "theirs", "held", "cure"),
    [
        (1000, 0, None, 1000, Held.YES, ""),
        (1000, 0, "0", 1000, Held.YES, ""),
        (1000, 0, "1", 1000, Held.NO, "sudo "),
        (1000, 0, "2", 1000, Held.NO, "sudo "),
        (1000, 0, "3", 1000, Held.NO, "reboot"),
        (1000, PTRACE, "1", 1000, Held.YES, ""),
        (0, PTRACE, "2", 1000, Held.YES, ""),
        (0, PTRACE, "3", 1000, Held.NO, "reboot"),
        (0, 0, "1", 0, Held.NO, "--cap-add SYS_PTRACE"),
        (0, 0, "2", 0, Held.NO, "--cap-add SYS_PTRACE"),
        (1000, 0, "0", 0, Held.NO, "sudo "),
        (1000, 0, "1", 2000, Held.NO, "sudo "),
    ],
)
def test_stacks(
    fake: FakeProc,
    monkeypatch: pytest.MonkeyPatch,
    uid: int,
    caps: int,
    scope: str | None,
    theirs: int,
    held: Held,
    cure: str,
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: uid)
    found = stacks(at(fake, uid=uid, caps=caps, scope=scope, theirs=theirs))
    assert found.held is held
    assert cure in found.cure
    assert bool(found.cure) == (held is Held.NO)


def test_files_of_another_user_need_root(fake: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    found = files(at(fake, theirs=0))
    assert (found.held, found.why) == (Held.NO, "5 of 5 processes are closed to user 1000")
    assert found.cure.startswith("sudo ")
    assert found.cure.endswith(" diagnose --pid 100")


def test_files_of_our_own_user_are_open(fake: FakeProc) -> None:
    assert files(at(fake)).held is Held.YES


def test_inside_a_container_the_cure_is_the_containers(fake: FakeProc) -> None:
    found = at(fake, uid=0, theirs=33)
    (fake.root / "self" / "ns" / "pid").unlink()
    (fake.root / "self" / "ns" / "pid").symlink_to("pid:[4026532000]")
    assert "--cap-add SYS_PTRACE" in files(found).cure


@pytest.mark.parametrize(("scope", "held"), [("0", Held.YES), ("1", Held.NO), ("3", Held.NO)])
def test_without_a_process_the_setting_speaks(fake: FakeProc, scope: str, held: Held) -> None:
    fake.setting("kernel/yama/ptrace_scope", scope)
    assert stacks_of_own(situation(Proc(fake.root))).held is held


@pytest.mark.parametrize(
    ("level", "held"), [("-1", Held.YES), ("1", Held.YES), ("2", Held.NO), ("x", Held.UNKNOWN)]
)
def test_perf_events(fake: FakeProc, level: str, held: Held) -> None:
    fake.setting("kernel/perf_event_paranoid", level)
    assert perf(situation(Proc(fake.root))).held is held


@pytest.mark.parametrize(("value", "held"), [("0", Held.YES), ("1", Held.NO)])
def test_the_kernels_log(fake: FakeProc, value: str, held: Held) -> None:
    fake.setting("kernel/dmesg_restrict", value)
    assert kernel_log(situation(Proc(fake.root))).held is held


@pytest.mark.parametrize(
    ("text", "held"),
    [(None, Held.UNKNOWN), ("RmProfilingAdminOnly: 1\n", Held.NO), ("RmProfilingAdminOnly: 0\n", Held.YES)],
)
def test_profiling_counters(fake: FakeProc, text: str | None, held: Held) -> None:
    if text is not None:
        (fake.root / "driver/nvidia").mkdir(parents=True)
        (fake.root / "driver/nvidia/params").write_text("ModifyDeviceFiles: 1\n" + text)
    found = profiling(situation(Proc(fake.root)))
    assert found.held is held
    assert ("NVreg_RestrictProfilingToAdminUsers=0" in found.cure) == (held is Held.NO)


def test_nvml_that_does_not_start_says_why(fake: FakeProc) -> None:
    now = situation(Proc(fake.root))
    found = nvml(now, Devices(gaps=(Gap("NVML", "no driver", "install it"),)))
    assert (found.held, found.why, found.cure) == (Held.NO, "no driver", "install it")
    assert nvml(now, Devices(is_readable=True)).held is Held.YES


def test_dcgm_is_looked_for_in_the_list_of_processes_only() -> None:
    assert monitor(("bash", "nv-hostengine")).held is Held.YES
    assert monitor(("bash",)).held is Held.NO
