"""Where a metrics page is; and which sockets are never tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakeproc import FakeProc

from kvdoctor.target.address import Page
from kvdoctor.target.describe import Host, describe
from kvdoctor.target.gpu import Devices
from kvdoctor.target.kin import family_at
from kvdoctor.target.patience import Patience
from kvdoctor.target.process import Proc
from kvdoctor.target.scan import scan


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def page(fake: FakeProc, pid: int = 100) -> Page:
    proc, patience = Proc(fake.root), Patience()
    kin = family_at(scan(proc, patience, own_pid=0), pid)
    assert kin is not None
    return describe(Host(proc, patience, Devices(), 1000), kin).page


def serve(fake: FakeProc, line: str, **more: object) -> None:
    fake.process(100, line.split(), comm="engine", **more)  # type: ignore[arg-type]


VLLM = "python3 /v/bin/vllm serve m"


@pytest.mark.parametrize(
    ("line", "host", "port", "url"),
    [
        (f"{VLLM} --port 8123", "0.0.0.0", 8123, "http://127.0.0.1:8123/metrics"),
        (VLLM, "0.0.0.0", 8000, "http://127.0.0.1:8000/metrics"),
        (f"{VLLM} --host 10.0.0.5", "10.0.0.5", 8000, "http://10.0.0.5:8000/metrics"),
        (f"{VLLM} --host localhost", "::1", 8000, "http://[::1]:8000/metrics"),
        (f"{VLLM} --host ::", "::", 8000, "http://[::1]:8000/metrics"),
        (f"{VLLM} --host ::", "::ffff:127.0.0.1", 8000, "http://127.0.0.1:8000/metrics"),
        (f"{VLLM} --root-path /llm", "0.0.0.0", 8000, "http://127.0.0.1:8000/metrics"),
        (f"{VLLM} --ssl-keyfile k --ssl-certfile c", "0.0.0.0", 8000, "https://127.0.0.1:8000/metrics"),
        (
            f"{VLLM} --ssl-keyfile k --ssl-certfile c --host llm.local",
            "10.0.0.5",
            8000,
            "https://llm.local:8000/metrics",
        ),
        (f"{VLLM} --ssl-keyfile k", "0.0.0.0", 8000, "http://127.0.0.1:8000/metrics"),
        (
            "python -m sglang.launch_server --enable-metrics --model-path m",
            "127.0.0.1",
            30000,
            "http://127.0.0.1:30000/metrics",
        ),
        ("trtllm-serve m", "127.0.0.1", 8000, "http://127.0.0.1:8000/prometheus/metrics"),
        ("python /v/bin/lmdeploy serve api_server m", "0.0.0.0", 23333, "http://127.0.0.1:23333/metrics"),
        ("mooncake_master --metrics_port=9103", "0.0.0.0", 9103, "http://127.0.0.1:9103/metrics"),
    ],
)
def test_flags_and_the_socket_give_the_address(
    fake: FakeProc, line: str, host: str, port: int, url: str
) -> None:
    serve(fake, line)
    fake.listens(100, host, port, inode=5001)
    found = page(fake)
    assert (found.url, found.readable, found.gaps) == (url, True, ())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (VLLM, "does not listen on port 8000, its engine's default port"),
        (f"{VLLM} --port 8123", "does not listen on port 8123, the port it was given"),
        (f"{VLLM} --disable-log-stats", "--disable-log-stats: no metrics"),
        (f"{VLLM} --uds /run/v.sock", "Unix socket /run/v.sock"),
        ("python -m sglang.launch_server --model-path m", "without --enable-metrics"),
        ("llama-server -m x.gguf", "without --metrics"),
        ("llama-server -m x.gguf --metrics --host /run/l.sock", "Unix socket /run/l.sock"),
        ("python /v/bin/transformers serve", "no metrics page"),
        ("python -m dynamo.vllm --model m", "no port to serve metrics on"),
    ],
)
def test_where_there_is_no_page_the_gap_says_why(fake: FakeProc, line: str, reason: str) -> None:
    serve(fake, line)
    fake.listens(100, "0.0.0.0", 55555, inode=5001)  # a ZMQ port, say
    found = page(fake)
    assert found.url is None
    assert not found.readable
    assert reason in found.gaps[0].reason


def test_a_port_that_somebody_else_listens_on_is_not_tried(fake: FakeProc) -> None:
    serve(fake, VLLM)
    fake.process(300, ["nginx"], comm="nginx")
    fake.listens(300, "0.0.0.0", 8000, inode=5001, also=(100, "self"))
    assert page(fake).url is None


def test_the_socket_may_be_a_child_servers(fake: FakeProc) -> None:
    serve(fake, f"{VLLM} --api-server-count 2")
    fake.process(101, ["VLLM::APIServer_0"], ppid=100)
    fake.listens(101, "0.0.0.0", 8000, inode=5001)
    assert page(fake).url == "http://127.0.0.1:8000/metrics"


def test_a_workers_socket_on_that_port_is_no_page(fake: FakeProc) -> None:
    serve(fake, VLLM)
    fake.process(101, ["VLLM::Worker_TP0"], ppid=100)
    fake.listens(101, "0.0.0.0", 8000, inode=5001, also=(100,))
    assert page(fake).url is None


def test_vllm_port_is_not_the_servers_port(fake: FakeProc) -> None:
    serve(fake, VLLM, environ={"VLLM_PORT": "9999"})
    fake.listens(100, "0.0.0.0", 9999, inode=5001)
    assert page(fake).url is None


def test_variables_set_ports_where_the_engine_reads_them(fake: FakeProc) -> None:
    serve(fake, "text-generation-launcher --model-id m", environ={"PORT": "80"})
    fake.process(101, ["text-generation-router"], ppid=100)
    fake.listens(101, "0.0.0.0", 80, inode=5001)
    assert page(fake).url == "http://127.0.0.1:80/metrics"


def test_a_dynamo_worker_has_its_own_port(fake: FakeProc) -> None:
    serve(fake, "python -m dynamo.vllm --model m", environ={"DYN_SYSTEM_PORT": "8081"})
    fake.listens(100, "0.0.0.0", 8081, inode=5001)
    assert page(fake).url == "http://127.0.0.1:8081/metrics"


def test_a_page_that_forgets_when_read_is_only_read_when_told(fake: FakeProc) -> None:
    serve(fake, "llama-server -m x.gguf --metrics --api-prefix /x")
    fake.listens(100, "127.0.0.1", 8080, inode=5001)
    found = page(fake)
    assert (found.url, found.readable) == ("http://127.0.0.1:8080/x/metrics", False)
    assert found.gaps[0].cure.endswith("diagnose --pid 100 --url http://127.0.0.1:8080/x/metrics")


def test_another_network_namespace_needs_entering(fake: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    serve(fake, VLLM, namespaces={"net": 7, "pid": 8})
    fake.listens(100, "0.0.0.0", 8000, inode=5001)
    found = page(fake)
    assert (found.url, found.readable) == ("http://127.0.0.1:8000/metrics", False)
    assert found.gaps[0].cure.startswith("nsenter --target 100 --net ")
    assert found.gaps[0].cure.endswith(" diagnose --pid 100")


def test_below_a_user_namespace_of_our_own_no_root_is_needed(fake: FakeProc) -> None:
    serve(fake, VLLM, namespaces={"net": 7, "user": 8})
    fake.listens(100, "0.0.0.0", 8000, inode=5001)
    cure = page(fake).gaps[0].cure
    assert cure.startswith("nsenter --target 100 --user --preserve-credentials --net ")


@pytest.fixture
def others(fake: FakeProc) -> FakeProc:
    """A server of another user, whose files and namespaces are closed to us."""
    serve(fake, f"{VLLM} --port 8123", uid=0)
    fake.listens(100, "127.0.0.1", 8123, inode=5001, uid=0, also=("self",))
    fake.closes(100)
    return fake


def test_another_users_server_is_read_where_tables_agree_with_its_flags(others: FakeProc) -> None:
    found = page(others)
    assert (found.url, found.readable) == ("http://127.0.0.1:8123/metrics", True)


def test_another_users_namespace_shows_in_the_tables(others: FakeProc) -> None:
    (others.root / "self" / "net" / "tcp").write_text("head\n")
    others.listens(100, "10.0.0.5", 1, inode=6001, held=False)
    (others.root / "self" / "net" / "tcp").unlink()
    others.process(400, ["sshd"])
    others.listens(400, "0.0.0.0", 22, inode=7001, also=("self",))
    found = page(others)
    assert (found.url, found.readable) == ("http://127.0.0.1:8123/metrics", False)
    assert "network namespace" in found.gaps[0].reason


def test_another_users_default_port_cannot_be_checked_and_is_not_tried(fake: FakeProc) -> None:
    serve(fake, VLLM, uid=0)
    fake.listens(100, "127.0.0.1", 8000, inode=5001, uid=0, also=("self",))
    fake.closes(100)
    found = page(fake)
    assert found.url is None
    assert found.gaps[0].cure.endswith("diagnose --pid 100")


def test_a_port_that_another_user_holds_is_not_tried(fake: FakeProc) -> None:
    serve(fake, f"{VLLM} --port 8123", uid=0)
    fake.listens(100, "127.0.0.1", 8123, inode=5001, uid=555, also=("self",))
    fake.closes(100)
    assert page(fake).url is None


def test_a_program_of_the_users_own_is_not_guessed_at(fake: FakeProc) -> None:
    serve(fake, "python3 mine.py --port 8123")
    fake.process(101, ["VLLM::EngineCore"], ppid=100)
    fake.listens(100, "0.0.0.0", 8123, inode=5001)
    found = page(fake)
    assert found.url is None
    assert "program of the user's own" in found.gaps[0].reason
