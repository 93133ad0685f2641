"""Peers on loopback: who is let in, what is counted, and that servers end by themselves."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.probes import gloo, manners, network, network_peer, network_tempo, store, stream
from kvdoctor.probes.network import Options
from kvdoctor.probes.network_tempo import SHARED_BYTES, Tempo, shared_tempo
from kvdoctor.probes.serve import Place, is_loopback, listen, serve
from kvdoctor.probes.timing import ACTIVE_S, IDLE_FACTOR, Pace

KIB = 2**10
TOKEN = "a long token"


@pytest.fixture
def peer():
    """A server that needs a token; yields its port."""
    place, over = Place(token=TOKEN, seconds=60.0), threading.Event()
    server = listen(place)
    thread = threading.Thread(target=serve, args=(server, place, over.is_set))
    thread.start()
    yield server.getsockname()[1]
    over.set()
    thread.join()


def test_what_is_sent_is_counted_where_it_arrives(peer):
    line = stream.join("127.0.0.1", peer, TOKEN)
    line.say({"do": "take", "message": KIB, "warm": 0.0})
    sent = stream.send_for(line, KIB, 0.05)
    found = line.hear()
    line.close()
    assert found["bytes"] == sent > 0


def test_the_peer_gives_bytes_too(peer):
    line = stream.join("127.0.0.1", peer, TOKEN)
    line.say({"do": "give", "message": KIB, "seconds": 0.05})
    found = stream.receive(line, 0.01)
    line.close()
    assert found["bytes"] > 0
    assert found["bytes"] % KIB == 0


def test_each_message_is_answered_with_one_byte(peer):
    line = stream.join("127.0.0.1", peer, TOKEN)
    line.say({"do": "answer", "message": 5})
    line.socket.sendall(b"12345" * 2)
    got = b""
    while len(got) < 2:
        got += line.socket.recv(2)
    line.close()
    assert got == b"\x01\x01"


def test_a_wrong_token_is_not_let_in(peer):
    with pytest.raises(KvdoctorError, match="does not take our token"):
        stream.join("127.0.0.1", peer, "another token")


def test_the_token_is_never_sent(peer):
    proof = stream.proof(TOKEN, "abc")
    assert TOKEN not in proof
    assert proof != stream.proof(TOKEN, "abd")


@pytest.mark.parametrize(
    "nonsense",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 8192, b'{"proof": 5}\n', b"[]\n", b"[" * 4000 + b"\n", b""],
)
def test_whoever_talks_nonsense_harms_nobody_else(peer, nonsense):
    with socket.create_connection(("127.0.0.1", peer)) as rude:
        rude.sendall(nonsense)
    line = stream.join("127.0.0.1", peer, TOKEN)
    line.say({"do": "answer", "message": 1})
    line.socket.sendall(b"x")
    assert line.socket.recv(1) == b"\x01"
    line.close()


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "192.0.2.7", "host.example"])
def test_others_are_served_only_behind_a_token(bind):
    assert not is_loopback(bind)
    with pytest.raises(KvdoctorError, match="no token keeps them out"):
        listen(Place(bind=bind))


@pytest.mark.parametrize("bind", ["127.0.0.1", "::1", "localhost", "127.9.9.9"])
def test_loopback_is_loopback(bind):
    assert is_loopback(bind)


def test_a_server_ends_by_itself():
    place = Place(seconds=0.0)
    assert serve(listen(place), place) == 0


def test_a_server_without_a_file_for_one_more_connection_goes_on():
    place, failures = Place(seconds=0.5), [OSError(24, "Too many open files"), TimeoutError()]

    class Full:
        settimeout = close = staticmethod(lambda *_: None)

        def accept(self):
            time.sleep(0.01)
            raise failures.pop(0) if failures else TimeoutError

    assert serve(Full(), place) == 0
    assert not failures


@pytest.mark.parametrize(
    "do", [lambda line: stream.receive(line, 0.0), lambda line: stream.send_for(line, KIB, 9.0)]
)
def test_a_peer_that_falls_silent_is_given_up_after_the_limit(monkeypatch, do):
    monkeypatch.setattr(stream, "WAIT_S", 1.0)
    here, there = socket.socketpair()
    with here, there:
        here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KIB)
        line = stream.Line.__new__(stream.Line)
        line.socket = here
        begin = time.monotonic()
        with pytest.raises(TimeoutError, match="silent for 1 s"):
            do(line)
        assert 0.9 < time.monotonic() - begin < 5.0
        assert here.gettimeout() is None


def test_a_port_that_is_taken_is_a_clear_line(peer):
    with pytest.raises(KvdoctorError, match=f"127.0.0.1:{peer} cannot be had: Address already in use"):
        listen(Place(port=peer))


def test_nobody_there_is_a_clear_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(KvdoctorError, match="does not answer") as refused:
            stream.join("127.0.0.1", port, "")
    assert "--serve" in refused.value.hint


def test_the_whole_probe_over_a_peer_of_its_own(monkeypatch):
    monkeypatch.setattr(network, "WARM_S", 0.01)
    monkeypatch.setattr(network, "PING_S", 0.01)
    monkeypatch.setattr(network, "REPEATS", 1)
    monkeypatch.setattr(gloo, "rows", lambda local: [])
    found = network.run(Options(messages=(64 * KIB,), streams=2, seconds=0.2), lambda doing, share: None)
    assert found["conditions"]["loopback"]
    assert "no network" in found["measures"]
    assert [(row["op"], row["direction"]) for row in found["rows"]] == [
        *[("message", "to peer")] * 3,
        *[("transfer", "to peer"), ("transfer", "from peer")] * 2,
    ]
    assert all(row["bytes_per_s"] > 0 for row in found["rows"])
    assert [gap["source"] for gap in found["gaps"]] == ["Mooncake"]


SHARED = Options(streams=2, shared=True)


def test_beside_a_service_it_sends_bursts_and_rests_ten_times_as_long(monkeypatch):
    slept = []
    monkeypatch.setattr(network_tempo, "Pace", lambda **more: Pace(sleep=slept.append, **more))
    found = network.run(SHARED, lambda doing, share: None)
    about = found["conditions"]
    assert about["shared_with_others"]
    assert sum(slept) == pytest.approx(IDLE_FACTOR * about["active_seconds"])
    assert 0 < about["moved_bytes"] <= SHARED_BYTES
    assert max(row["block_bytes"] for row in found["rows"]) == 2**20
    assert "lower bound" in about["says"]
    assert {"gloo", "Mooncake"} <= {gap["source"] for gap in found["gaps"]}


@pytest.mark.parametrize(
    ("seconds", "payload", "over"),
    [
        (ACTIVE_S - 0.1, 0, False),
        (ACTIVE_S, 0, True),
        (0.0, SHARED_BYTES // 2, False),
        (0.0, SHARED_BYTES // 2 + 1, True),
    ],
)
def test_nothing_more_is_sent_when_a_second_or_the_bytes_are_used_up(seconds, payload, over):
    tempo = shared_tempo(float("inf"))
    tempo.pace.sleep = lambda seconds: None
    tempo.rest(seconds, payload)
    assert tempo.used_up is over


def hear_of_a_killed_peer():
    """Start a peer here, kill it, and wait for its answer."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = set(children.read_text().split())
    with network_peer.peer("", 0) as (_, port), closing(stream.join("127.0.0.1", port, "")) as line:
        (child,) = set(children.read_text().split()) - before
        os.kill(int(child), signal.SIGKILL)
        os.waitid(os.P_PID, int(child), os.WEXITED | os.WNOWAIT)
        line.hear()


def test_a_peer_here_that_dies_is_named_and_not_blamed_on_the_other_side():
    with pytest.raises(KvdoctorError, match="the peer on this machine ended in the middle") as died:
        hear_of_a_killed_peer()
    assert "ulimit" in died.value.hint


def test_too_little_memory_is_refused_before_a_peer_is_started(monkeypatch):
    monkeypatch.setattr(manners, "available_memory", lambda root="/": 0)
    with pytest.raises(Unavailable, match="the network probe needs"):
        network.run(Options(), lambda doing, share: None)


def test_what_was_left_out_is_listed(monkeypatch):
    monkeypatch.setattr(Tempo, "used_up", property(lambda self: True))
    found = network.run(SHARED, lambda doing, share: None)
    assert found["rows"] == []
    assert found["gaps"][0]["source"] == "messages of 64 bytes"
    assert "used up" in found["gaps"][0]["reason"]


def test_its_cost_beside_a_service_is_stated():
    cost = network.footprint(SHARED)
    assert cost.moved_bytes == SHARED_BYTES
    assert cost.seconds < network.footprint(Options(streams=2)).seconds


def test_gloo_is_for_this_machine_only():
    with pytest.raises(Unavailable, match="opens ports of its own"):
        gloo.rows(False)


def test_torch_that_cannot_be_loaded_loses_nothing_that_was_measured(monkeypatch):
    monkeypatch.setattr(gloo.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "torch.distributed", None)
    with pytest.raises(Unavailable, match="torch cannot be loaded"):
        gloo.rows(True)


def test_gloo_sends_tensors_where_torch_is_there():
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    code = (
        "import sys; sys.path[:0] = [sys.argv[1]]\n"
        "from kvdoctor.probes import gloo\n"
        "print([r.block_bytes for r in gloo.rows(True)])"
    )
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code, root], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.strip() == f"[{2**20}, {16 * 2**20}]", done.stderr


class FakeStore:
    """Keeps objects; `spoils` changes what comes back."""

    def __init__(self, spoils=False):
        self.kept, self.spoils = {}, spoils

    def write(self, key, data):
        self.kept[key] = bytes(data)
        return True

    def read(self, key, into):
        into[:] = self.kept[key]
        if self.spoils:
            into[0] ^= 1
        return True

    def drop(self, key):
        del self.kept[key]


def test_objects_are_put_got_compared_and_removed():
    fake = FakeStore()
    rows = store._objects(fake.write, fake.read, fake.drop, KIB)
    assert [(row.op, row.block_bytes, len(row.repeats)) for row in rows] == [
        ("store put", KIB, store.OBJECTS),
        ("store get", KIB, store.OBJECTS),
    ]
    assert fake.kept == {}


def test_an_object_that_comes_back_changed_is_seen_and_all_are_removed():
    fake = FakeStore(spoils=True)
    with pytest.raises(KvdoctorError, match="came back changed"):
        store._objects(fake.write, fake.read, fake.drop, KIB)
    assert fake.kept == {}
