"""`kvdoctor targets`: what is shown, in 80 columns, whatever the processes call themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakeproc import FakeProc, vllm

from kvdoctor.commands import targets as command
from kvdoctor.commands.listing import WIDTH, duration, permission_lines, short_line, target_lines
from kvdoctor.target import look as looking
from kvdoctor.target.gpu import Devices
from kvdoctor.target.look import Look
from kvdoctor.target.permission import Held, Permission
from kvdoctor.target.process import Proc


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProc:
    monkeypatch.setattr(looking, "devices", lambda patience: Devices())
    return FakeProc(tmp_path)


def look(fake: FakeProc) -> Look:
    return looking.look(Proc(fake.root))


def shown(fake: FakeProc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    seen = look(fake)
    monkeypatch.setattr(looking, "look", lambda: seen)
    command.targets()
    return capsys.readouterr().out


def test_a_server_and_the_permissions_stand_in_80_columns(
    fake: FakeProc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    vllm(fake, 100, "org/model", "-tp", "2", "--max-num-seqs", "64", "--served-model-name", "chat")
    fake.listens(100, "0.0.0.0", 8000, inode=1)
    text = shown(fake, monkeypatch, capsys)
    assert text.startswith("pid 100 vLLM up 1 h 23 min\n")
    assert "org/model as chat" in text
    assert "TP 2; 5 processes: API server, engine core, 2 x worker, helper" in text
    assert "http://127.0.0.1:8000/metrics" in text
    assert "stacks (py-spy)   yes" in text
    assert "sudo sysctl kernel.perf_event_paranoid=1" in text
    assert [line for line in text.splitlines() if len(line) > WIDTH and "->" not in line] == []


def test_a_command_to_paste_is_one_line(fake: FakeProc) -> None:
    vllm(fake, 100, "m", namespaces={"net": 7})
    fake.listens(100, "0.0.0.0", 8000, inode=1)
    (target,) = look(fake).all()
    lines = [line for line in target_lines(target) if "nsenter" in line]
    assert len(lines) == 1
    assert lines[0].endswith("diagnose --pid 100")


def test_escape_sequences_in_a_title_have_no_effect(fake: FakeProc) -> None:
    vllm(fake, 100, "\x1b]0;owned\x07\x1b[31mred\u202e\r\n", "--served-model-name", "[bold]x[/bold]\x9b2J")
    (target,) = look(fake).all()
    text = "\n".join((*target_lines(target), short_line(target)))
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "[bold]x[/bold]" in text


def test_a_hundred_ranks_are_one_line(fake: FakeProc) -> None:
    fake.process(100, ["python3", "/v/bin/vllm", "serve", "m"], comm="vllm")
    for rank in range(100):
        fake.process(1000 + rank, [f"VLLM::Worker_TP{rank}"], ppid=100)
    (target,) = look(fake).all()
    assert "101 processes: API server, 100 x worker" in "\n".join(target_lines(target))


def test_a_torch_process_is_labelled_by_whether_it_serves(
    fake: FakeProc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for pid in (500, 600):
        fake.process(pid, ["python3", "program.py"])
        fake.opens(pid, "/dev/nvidia-uvm")
    fake.listens(600, "0.0.0.0", 9000, inode=5)
    text = " ".join(shown(fake, monkeypatch, capsys).split())
    assert text.startswith("pid 600 torch process up 1 h 23 min ranks")
    assert "compute context on a GPU; it listens at port 9000" in text
    assert "pid 500 torch process up 1 h 23 min no sign of serving" in text
    assert "compute context on a GPU; nothing shows that it serves requests" in text


def test_nothing_here_says_so(
    fake: FakeProc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(fake, monkeypatch, capsys)
    assert text.startswith("No inference process is visible here.\n  -> kvdoctor diagnose --url")


@pytest.mark.parametrize(
    ("pod", "line"), [("", "docker run --rm -it --pid=host"), ("10.0.0.1", "kubectl debug -it the-pod ")]
)
def test_nothing_inside_a_container_names_the_way_out(
    monkeypatch: pytest.MonkeyPatch, pod: str, line: str
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", pod)
    monkeypatch.setattr("socket.gethostname", lambda: "the-pod")
    assert line in "\n".join(command.nothing(True))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3600, "1 h 0 min"), (86400 * 3 + 7200, "3 d 2 h")],
)
def test_uptimes(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_permission_that_is_missing_has_its_line_below() -> None:
    rows = (Permission("a", Held.YES, "fine"), Permission("b", Held.NO, "closed", "sudo open"))
    lines = list(permission_lines(rows))
    assert lines[0].split() == ["a", "yes", "fine"]
    assert lines[-1].strip() == "-> sudo open"
