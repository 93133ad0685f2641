"""Loops of somebody's own: what speaks for one, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fakeproc import SELF, FakeProc

from kvdoctor.probes.child import BOOT
from kvdoctor.target.family import Card
from kvdoctor.target.gpu import Device, Devices
from kvdoctor.target.loops import Loop, loops
from kvdoctor.target.patience import Patience
from kvdoctor.target.process import Proc
from kvdoctor.target.scan import scan


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def busy(fake: FakeProc, *pids: int, ticks: int = 25) -> Callable[[float], None]:
    """Let processes use CPU while we wait: 25 ticks in a quarter of a second are one core."""

    def sleep(seconds: float) -> None:
        for pid in pids:
            fake.stat(pid, pid, cpu=100 + ticks)

    return sleep


def found(fake: FakeProc, sleep: Callable[[float], None], seen: Devices | None = None) -> tuple[Loop, ...]:
    proc, patience = Proc(fake.root), Patience()
    return loops(proc, scan(proc, patience, own_pid=SELF), seen or Devices(), patience, taken=(), sleep=sleep)


def torch(fake: FakeProc, tmp_path: Path, pid: int) -> None:
    """Give a process a Python that has torch."""
    root = tmp_path / f"root{pid}"
    (root / "opt/venv/lib/python3.12/site-packages/torch-2.13.0+cpu.dist-info").mkdir(parents=True)
    fake.sees(pid, root)


def test_a_torch_thread_in_a_busy_process_is_sure(fake: FakeProc) -> None:
    fake.process(10, ["python3", "loop.py"], threads=("python3", "pt_autograd_0"))
    (loop,) = found(fake, busy(fake, 10))
    assert (loop.pid, loop.is_sure) == (10, True)
    assert loop.sign == "a thread called pt_autograd_0, and it uses 1.0 cores"


def test_an_idle_one_is_not_listed(fake: FakeProc) -> None:
    fake.process(10, ["python3", "loop.py"], threads=("python3", "pt_autograd_0"))
    assert found(fake, busy(fake)) == ()
    assert found(fake, busy(fake, 10, ticks=4)) == ()


def test_torch_in_its_python_is_a_mere_hint(fake: FakeProc, tmp_path: Path) -> None:
    fake.process(10, ["/opt/venv/bin/python3", "loop.py"])
    torch(fake, tmp_path, 10)
    (loop,) = found(fake, busy(fake, 10))
    assert not loop.is_sure
    assert "torch 2.13.0+cpu" in loop.sign


def test_a_busy_python_without_torch_is_nobody(fake: FakeProc, tmp_path: Path) -> None:
    fake.process(10, ["/opt/venv/bin/python3", "loop.py"])
    fake.sees(10, tmp_path)
    fake.process(11, ["gcc", "x.c"], comm="cc1")
    assert found(fake, busy(fake, 10, 11)) == ()


def test_a_compute_context_is_sure_even_when_idle(fake: FakeProc) -> None:
    fake.process(10, ["python3", "loop.py"])
    fake.opens(10, "/dev/nvidia-uvm")
    (loop,) = found(fake, busy(fake))
    assert loop.is_sure


def test_a_monitor_that_only_watches_a_gpu_is_nobody(fake: FakeProc) -> None:
    fake.process(10, ["python3", "/v/bin/nvitop"])
    for target in ("/dev/nvidiactl", "/dev/nvidia0"):
        fake.opens(10, target)
    assert found(fake, busy(fake)) == ()


def test_nvmls_pid_counts_only_with_a_device_open(fake: FakeProc) -> None:
    fake.process(10, ["python3", "a.py"])
    fake.process(11, ["python3", "b.py"])
    fake.opens(11, "/dev/nvidia0")
    seen = Devices((Device(Card(0), 0, frozenset((10, 11))),), is_readable=True)
    assert [loop.pid for loop in found(fake, busy(fake), seen)] == [11]


def test_ranks_are_found_under_their_launcher(fake: FakeProc) -> None:
    fake.process(10, ["python3", "/v/bin/torchrun", "loop.py"])
    for rank in range(2):
        fake.process(20 + rank, ["python3", "loop.py"], ppid=10, threads=("pt_nccl_watchdg",))
    fake_busy = busy(fake, 20, 21)
    assert [loop.pid for loop in found(fake, fake_busy)] == [10]


def test_a_busy_child_of_a_loop_is_part_of_it(fake: FakeProc) -> None:
    fake.process(10, ["python3", "loop.py"], threads=("pt_a",))
    fake.process(11, ["python3", "loop.py"], ppid=10, threads=("pt_b",))

    def sleep(seconds: float) -> None:
        fake.stat(10, 10, cpu=125)
        fake.stat(11, 11, ppid=10, cpu=125)

    assert [loop.pid for loop in found(fake, sleep)] == [10]


KVDOCTOR = (
    ["python3", "/v/bin/kvdoctor", "diagnose"],
    ["/v/bin/kvdoctor", "record"],
    ["python3", "-m", "kvdoctor.lab.load", "--url", "http://127.0.0.1:8000"],
    ["python3", "-B", "-c", BOOT, "/v/lib/kvdoctor"],
)


@pytest.mark.parametrize("argv", KVDOCTOR)
def test_this_program_and_what_it_starts_are_nobody(fake: FakeProc, argv: list[str]) -> None:
    fake.process(10, argv, threads=("pt_a",))
    fake.process(11, ["python3", "helper.py"], ppid=10, threads=("pt_a",))
    fake.process(12, ["python3", "loop.py", "kvdoctor"], threads=("pt_a",))

    def sleep(seconds: float) -> None:
        fake.stat(10, 10, cpu=125)
        fake.stat(11, 11, ppid=10, cpu=125)
        fake.stat(12, 12, cpu=125)

    assert [loop.pid for loop in found(fake, sleep)] == [12]


@pytest.mark.parametrize(
    ("argv", "threads", "environ", "serving"),
    [
        (["python3", "serve.py"], ("pt_a",), {}, "it listens at port 9000"),
        (["python3", "-m", "uvicorn", "app:app"], ("pt_a",), {}, "it was started by uvicorn"),
        (["python3", "train.py"], ("pt_autograd_0",), {}, ""),
        (["python3", "train.py"], ("pt_a",), {"WORLD_SIZE": "2"}, ""),
        (["python3", "-m", "ipykernel_launcher", "-f", "k.json"], ("pt_a",), {}, ""),
        (["python3", "/v/bin/torchrun", "train.py"], ("pt_a",), {}, ""),
    ],
)
def test_a_socket_of_training_or_of_a_notebook_is_no_sign_of_serving(
    fake: FakeProc, argv: list[str], threads: tuple[str, ...], environ: dict[str, str], serving: str
) -> None:
    fake.process(10, argv, threads=threads, environ=environ)
    fake.listens(10, "127.0.0.1", 9000, inode=5)
    (loop,) = found(fake, busy(fake, 10))
    assert loop.serving == serving


def test_without_a_socket_nothing_shows_that_a_process_serves(fake: FakeProc) -> None:
    fake.process(10, ["python3", "loop.py"], threads=("pt_a",))
    fake.listens(10, "127.0.0.1", 9000, inode=5, held=False)
    (loop,) = found(fake, busy(fake, 10))
    assert (loop.is_sure, loop.serving) == (True, "")


def test_a_worker_below_a_server_serves(fake: FakeProc) -> None:
    fake.process(9, ["python3", "serve.py"])
    fake.listens(9, "127.0.0.1", 9000, inode=5)
    fake.process(10, ["python3", "worker.py"], ppid=9, threads=("pt_a",))

    def sleep(seconds: float) -> None:
        fake.stat(10, 10, ppid=9, cpu=125)

    (loop,) = found(fake, sleep)
    assert loop.serving == "the Python above it: it listens at port 9000"


def test_a_pid_reused_while_we_wait_is_nobody(fake: FakeProc) -> None:
    fake.process(10, ["python3", "loop.py"], threads=("pt_a",))
    assert found(fake, lambda seconds: fake.stat(10, 10, cpu=125, start=999_999)) == ()
