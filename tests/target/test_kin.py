"""From any process of an engine to all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakeproc import SELF, FakeProc, vllm

from kvdoctor.target.kin import Kin, families, family_at, title
from kvdoctor.target.patience import Patience
from kvdoctor.target.process import KERNEL_THREAD, Proc
from kvdoctor.target.scan import Scan, scan


def seen(fake: FakeProc) -> Scan:
    return scan(Proc(fake.root), Patience(), own_pid=SELF)


def roles(kin: Kin) -> list[tuple[int, str, str]]:
    return [(process.pid, match.role, match.rank) for process, match in kin.members]


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def test_a_server_its_core_its_workers_and_its_helper_are_one_family(fake: FakeProc) -> None:
    vllm(fake, 100, "m")
    (kin,) = families(seen(fake))
    assert (kin.engine, kin.root.pid) == ("vllm", 100)
    assert roles(kin) == [
        (100, "api_server", ""),
        (101, "engine_core", ""),
        (102, "worker", "TP0"),
        (103, "worker", "TP1"),
        (104, "helper", ""),
    ]


@pytest.mark.parametrize("pid", [100, 101, 102, 103, 104])
def test_every_member_leads_to_the_whole(fake: FakeProc, pid: int) -> None:
    vllm(fake, 100, "m")
    kin = family_at(seen(fake), pid)
    assert kin is not None
    assert kin.root.pid == 100
    assert len(kin.members) == 5


def test_two_servers_of_one_shell_are_two_families(fake: FakeProc) -> None:
    fake.process(50, ["bash", "run.sh"], comm="bash")
    vllm(fake, 100, "m", ppid=50)
    vllm(fake, 200, "n", ppid=50)
    assert [(kin.root.pid, len(kin.members)) for kin in families(seen(fake))] == [(100, 5), (200, 5)]


def test_a_store_under_the_server_is_a_family_of_its_own(fake: FakeProc) -> None:
    vllm(fake, 100, "m")
    fake.process(150, ["mooncake_client", "--port", "1"], ppid=100, comm="mooncake_client")
    assert [(kin.engine, kin.root.pid) for kin in families(seen(fake))] == [("vllm", 100), ("mooncake", 150)]


def test_an_engine_inside_a_program_of_the_users_own(fake: FakeProc) -> None:
    fake.process(90, ["python3", "serve_my_model.py", "--port", "9"])
    fake.process(91, ["VLLM::EngineCore"], ppid=90, comm="VLLM::EngineCor")
    (kin,) = families(seen(fake))
    assert roles(kin) == [(90, "program", ""), (91, "engine_core", "")]


def test_a_core_that_was_left_behind_is_its_own_root(fake: FakeProc) -> None:
    fake.process(1, ["/sbin/init"], ppid=0, comm="systemd")
    fake.process(91, ["VLLM::EngineCore"], ppid=1, comm="VLLM::EngineCor")
    (kin,) = families(seen(fake))
    assert roles(kin) == [(91, "engine_core", "")]


def test_a_forked_copy_without_a_title_is_a_worker(fake: FakeProc) -> None:
    argv = ["python3", "/v/bin/vllm", "serve", "m"]
    fake.process(100, argv, comm="vllm")
    fake.process(101, argv, ppid=100, comm="vllm")
    (kin,) = families(seen(fake))
    assert roles(kin) == [(100, "api_server", ""), (101, "worker", "")]


def test_tgi_is_launcher_router_and_shards(fake: FakeProc) -> None:
    fake.process(10, ["text-generation-launcher", "--model-id", "m"], comm="text-generation")
    fake.process(11, ["python", "/v/bin/text-generation-server", "serve", "m"], ppid=10)
    fake.process(12, ["text-generation-router", "--port", "80"], ppid=10, comm="text-generation")
    (kin,) = families(seen(fake))
    assert roles(kin) == [(10, "launcher", ""), (11, "worker", ""), (12, "router", "")]


def test_a_hundred_ranks_are_one_family(fake: FakeProc) -> None:
    fake.process(100, ["python3", "/v/bin/vllm", "serve", "m"], comm="vllm")
    for rank in range(100):
        fake.process(1000 + rank, [f"VLLM::Worker_TP{rank}"], ppid=100, comm="VLLM::Worker_TP")
    (kin,) = families(seen(fake))
    assert len(kin.members) == 101
    assert roles(kin)[-1] == (1099, "worker", "TP99")


def test_parents_in_a_ring_end(fake: FakeProc) -> None:
    fake.process(100, ["python3", "/v/bin/vllm", "serve", "m"], ppid=101, comm="vllm")
    fake.process(101, ["VLLM::EngineCore"], ppid=100, comm="VLLM::EngineCor")
    assert {pid for kin in families(seen(fake)) for pid, _, _ in roles(kin)} == {100, 101}


def test_any_process_can_be_named(fake: FakeProc) -> None:
    fake.process(70, ["python3", "loop.py"])
    fake.process(71, ["python3", "loop.py"], ppid=70)
    kin = family_at(seen(fake), 70)
    assert kin is not None
    assert (kin.engine, roles(kin)) == ("process", [(70, "loop", ""), (71, "worker", "")])
    assert family_at(seen(fake), 7777) is None


def test_kernel_threads_zombies_and_we_are_left_out(fake: FakeProc) -> None:
    fake.process(2, [], flags=KERNEL_THREAD, comm="kthreadd")
    fake.process(80, ["x"], state="Z")
    fake.process(81, ["x"])
    fake.process(SELF, ["kvdoctor"], pid=SELF)
    assert set(seen(fake).processes) == {81}


def test_a_process_that_vanishes_between_two_reads_is_left_out(fake: FakeProc) -> None:
    vllm(fake, 100, "m")

    class Vanishing(Proc):
        def argv(self, pid: int | str) -> tuple[str, ...]:
            found = super().argv(pid)
            if pid == 102:
                (self.root / "102" / "stat").unlink()
            return found

    found = scan(Vanishing(fake.root), Patience(), own_pid=SELF)
    assert set(found.processes) == {100, 101, 103, 104}


def test_a_pid_that_is_reused_between_two_reads_is_left_out(fake: FakeProc) -> None:
    vllm(fake, 100, "m")

    class Reused(Proc):
        def argv(self, pid: int | str) -> tuple[str, ...]:
            if pid == 103:
                fake.stat(103, 103, start=999_999)
            return super().argv(pid)

    found = scan(Reused(fake.root), Patience(), own_pid=SELF)
    assert 103 not in found.processes


def test_a_command_line_that_hangs_is_a_gap(fake: FakeProc) -> None:
    import threading

    gate = threading.Event()
    vllm(fake, 100, "m")

    class Hanging(Proc):
        def argv(self, pid: int | str) -> tuple[str, ...]:
            if pid == 101:
                gate.wait()
            return super().argv(pid)

    found = scan(Hanging(fake.root), Patience(each_s=0.05), own_pid=SELF)
    gate.set()
    assert 101 not in found.processes
    assert "101" in found.gaps[0].reason


def test_time_that_runs_out_is_a_gap(fake: FakeProc) -> None:
    vllm(fake, 100, "m")
    found = scan(Proc(fake.root), Patience(), own_pid=SELF, deadline_s=-1.0)
    assert not found.processes
    assert "5 processes were not looked at" in found.gaps[0].reason


def test_a_title_cannot_steer_a_terminal_and_tells_no_secret(fake: FakeProc) -> None:
    evil = ["python3", "/v/bin/vllm", "serve", "\x1b[2J\x1b]0;owned\x07m", "--api-key", "sk-1", "a\nb\u202e"]
    fake.process(100, evil, comm="vllm")
    shown = title(seen(fake).processes[100])
    assert shown == "python3 /v/bin/vllm serve m --api-key *** ***"
