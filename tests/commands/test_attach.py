"""`kvdoctor diagnose` without an argument, and with --pid."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from fakeproc import FakeProc, vllm

from kvdoctor.commands import attach as attaching
from kvdoctor.commands import live
from kvdoctor.commands.attach import attach, merged, record_process
from kvdoctor.commands.judging import diagnose
from kvdoctor.errors import KvdoctorError
from kvdoctor.secrets import API_KEY
from kvdoctor.target import look as looking
from kvdoctor.target.gpu import Devices
from kvdoctor.target.look import Look
from kvdoctor.target.process import Proc


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProc:
    monkeypatch.setattr(looking, "devices", lambda patience: Devices())
    monkeypatch.setattr("kvdoctor.target.loops.SAMPLE", 0.0001)
    return FakeProc(tmp_path)


def look(fake: FakeProc) -> Look:
    return looking.look(Proc(fake.root))


def server(fake: FakeProc, pid: int = 100, port: int = 8000) -> None:
    vllm(fake, pid, "m", "-tp", "2", "--port", str(port))
    fake.listens(pid, "0.0.0.0", port, inode=pid)


def test_the_only_engine_is_taken(fake: FakeProc) -> None:
    server(fake)
    found = attach(None, (), {}, seen=look(fake))
    assert (found.urls, found.family.root) == (("http://127.0.0.1:8000/metrics",), 100)
    assert (found.facts["pid"], found.facts["tp"]) == ("100", "2")


def test_a_store_beside_it_asks_nothing(fake: FakeProc) -> None:
    server(fake)
    fake.process(300, ["mooncake_master"], comm="mooncake_master")
    assert attach(None, (), {}, seen=look(fake)).family.root == 100


def test_two_engines_are_a_question(fake: FakeProc, capsys: pytest.CaptureFixture[str]) -> None:
    server(fake)
    server(fake, 200, 8001)
    with pytest.raises(typer.Exit) as found:
        attach(None, (), {}, seen=look(fake))
    assert found.value.exit_code == 2
    asked = capsys.readouterr().err
    assert "2 inference processes run here. Which one?" in asked
    assert "--pid 100: vLLM, m, http://127.0.0.1:8000/metrics" in asked
    assert "--pid 200: vLLM, m, http://127.0.0.1:8001/metrics" in asked


@pytest.mark.parametrize("pid", [200, 201, 204])
def test_any_member_of_one_of_two_is_enough(fake: FakeProc, pid: int) -> None:
    server(fake)
    server(fake, 200, 8001)
    assert attach(pid, (), {}, seen=look(fake)).urls == ("http://127.0.0.1:8001/metrics",)


def test_nothing_to_attach_to_is_said(fake: FakeProc) -> None:
    with pytest.raises(KvdoctorError, match="no inference process is visible here") as found:
        attach(None, (), {}, seen=look(fake))
    assert "--url" in found.value.hint


def test_stores_alone_are_no_engine(fake: FakeProc) -> None:
    fake.process(300, ["mooncake_master"], comm="mooncake_master")
    with pytest.raises(KvdoctorError, match="only KV stores"):
        attach(None, (), {}, seen=look(fake))


def test_a_pid_that_is_nobody_is_said(fake: FakeProc) -> None:
    with pytest.raises(KvdoctorError, match="there is no process 4711"):
        attach(4711, (), {}, seen=look(fake))


def test_a_process_that_computes_without_a_sign_of_serving_is_never_chosen(fake: FakeProc) -> None:
    fake.process(500, ["python3", "train.py"])
    fake.opens(500, "/dev/nvidia-uvm")
    with pytest.raises(KvdoctorError, match=r"500.*nothing shows that it serves requests") as caught:
        attach(None, (), {}, seen=look(fake))
    assert caught.value.hint == "if it is one: --pid 500"
    assert attach(500, (), {}, seen=look(fake)).family.root == 500


def test_a_kvdoctor_that_computes_is_no_target_either(fake: FakeProc) -> None:
    fake.process(500, ["python3", "/v/bin/kvdoctor", "probe", "decode"])
    fake.opens(500, "/dev/nvidia-uvm")
    fake.listens(500, "127.0.0.1", 9000, inode=5)
    with pytest.raises(KvdoctorError, match="no inference process is visible here"):
        attach(None, (), {}, seen=look(fake))


def test_a_process_that_computes_and_listens_is_taken_where_no_engine_is(fake: FakeProc) -> None:
    fake.process(400, ["python3", "train.py"])
    fake.opens(400, "/dev/nvidia-uvm")
    fake.process(500, ["python3", "serve.py"])
    fake.opens(500, "/dev/nvidia-uvm")
    fake.listens(500, "0.0.0.0", 9000, inode=5)
    found = attach(None, (), {}, seen=look(fake))
    assert (found.family.root, found.family.engine, found.urls) == (500, "torch", ())
    assert [gap.source for gap in found.gaps] == ["metrics"]


def test_what_the_user_tells_goes_first() -> None:
    found = {"tp": "2", "model": "a", "model_config": "{}", "model_side": "{}", "pid": "1"}
    assert merged(found, {"tp": "4"}) == {**found, "tp": "4"}
    told = {"model": "b", "model_config": '{"x":1}'}
    assert merged(found, told) == {"tp": "2", "pid": "1", **told}


def test_a_url_of_the_users_goes_before_the_one_that_was_found(fake: FakeProc) -> None:
    vllm(fake, 100, "m", namespaces={"net": 7})
    fake.listens(100, "0.0.0.0", 8000, inode=1)
    assert attach(100, (), {}, seen=look(fake)).gaps[0].source == "metrics"
    given = attach(100, ("http://pod:8000",), {}, seen=look(fake))
    assert given.urls == ("http://pod:8000",)
    assert "metrics" not in [gap.source for gap in given.gaps]


def test_a_key_goes_to_no_address_that_was_found() -> None:
    with pytest.raises(KvdoctorError, match="a key goes only to an address that you give"):
        record_process(1, (), seconds=1, interval_s=1, told={}, save=None, api_key="sk")


@pytest.mark.parametrize(("urls", "given"), [((), False), (("http://h:1",), True)])
def test_a_key_of_the_environment_goes_only_to_urls_that_were_given(
    fake: FakeProc, monkeypatch: pytest.MonkeyPatch, urls: tuple[str, ...], given: bool
) -> None:
    server(fake)
    seen, keys = look(fake), []
    monkeypatch.setenv(API_KEY, "sk-env")
    monkeypatch.setattr(looking, "look", lambda: seen)

    class Stop(Exception):
        pass

    def endpoint(url: str, *, api_key: str | None) -> None:
        keys.append(api_key)
        raise Stop

    monkeypatch.setattr(live, "Endpoint", endpoint)
    with pytest.raises(Stop):
        record_process(100, urls, seconds=1, interval_s=1, told={}, save=None, api_key=None)
    assert keys == ["sk-env" if given else None]


def test_a_file_stands_alone() -> None:
    with pytest.raises(typer.BadParameter, match="FILE stands alone"):
        diagnose(files=["x.kvrec"], pid=7)


SERVER = """
import http.server, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(b"vllm:num_requests_running 1\\n")
    def log_message(self, *args):
        pass
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Page)
print("ready", flush=True)
server.serve_forever()
"""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """A real process whose command line is vLLM's; its pid and its port."""
    script = tmp_path / "vllm"
    script.write_text(SERVER)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [sys.executable, str(script), "serve", "some/model", "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid, port
        process.kill()


@pytest.mark.skipif(not os.path.exists("/proc/self/net/tcp"), reason="needs Linux's /proc")
def test_a_real_process_is_found_and_described(running: tuple[int, int]) -> None:
    pid, port = running
    found = attaching.attach(pid, (), {})
    assert found.urls == (f"http://127.0.0.1:{port}/metrics",)
    assert found.facts["model"] == "some/model"
    assert time.clock_gettime(time.CLOCK_BOOTTIME) > found.family.members[0].start_ticks / os.sysconf(
        "SC_CLK_TCK"
    )


def test_what_stands_above_an_engine_is_none(fake: FakeProc) -> None:
    fake.process(1, ["/sbin/init"], ppid=0, comm="init")
    server(fake)
    with pytest.raises(
        KvdoctorError, match="process 1 is no inference engine; vllm runs below it, as pid 100"
    ) as e:
        attach(1, (), {}, seen=look(fake))
    assert "kvdoctor diagnose --pid 100" in e.value.hint
    assert attach(100, (), {}, seen=look(fake)).family.root == 100
