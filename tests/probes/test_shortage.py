"""Memory or threads that run out, on either side: told as such, and never as an end of the conversation."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import closing

import pytest
from program import PROGRAM, Program

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.probes import child, gloo, network, network_peer, serve, stream
from kvdoctor.probes.network import Options
from kvdoctor.probes.serve import Place
from kvdoctor.probes.shortage import PeerShort, is_short, says_short

TOLD = "could not get the memory or the threads that it needs"


@pytest.mark.parametrize(
    ("error", "short"),
    [
        (MemoryError(), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (RuntimeError("can't start new thread"), True),
        (RuntimeError("[enforce fail] . DefaultCPUAllocator: can't allocate memory"), True),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), True),
        (OSError(errno.EPIPE, "Broken pipe"), False),
        (RuntimeError("a bug"), False),
    ],
)
def test_what_is_a_shortage_and_what_is_not(error, short):
    assert is_short(error) is short


@pytest.mark.parametrize(
    "words",
    [
        "Traceback\n  ...\nMemoryError",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "libgomp: Thread creation failed: Resource temporarily unavailable",
        "OpenBLAS blas_thread_init: pthread_create failed for thread 1 of 2",
    ],
)
def test_a_process_that_died_of_it_says_so(words):
    assert says_short(words)
    with tempfile.TemporaryFile() as errors:
        errors.write(words.encode() + b"\nand a line more")
        found = child._died("hbm", 1, errors)
    assert str(found) == f"the hbm probe {TOLD}"
    assert isinstance(found, Unavailable)
    assert "ulimit -v" in found.cure


def test_other_last_words_stay_what_they_are():
    with tempfile.TemporaryFile() as errors:
        errors.write(b"ValueError: a bug")
        found = child._died("hbm", 1, errors)
    assert str(found) == "the hbm probe ended without an answer: ValueError: a bug"


@pytest.fixture
def port():
    place, over = Place(seconds=60.0), threading.Event()
    server = serve.listen(place)
    thread = threading.Thread(target=serve.serve, args=(server, place, over.is_set))
    thread.start()
    yield server.getsockname()[1]
    over.set()
    thread.join()


def fails(error):
    def call(*_):
        raise error

    return call


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")])
@pytest.mark.parametrize("does", ["send_for", "receive", "_answer"])
def test_a_peer_that_runs_out_of_it_says_so_in_the_place_of_bulk_data(port, monkeypatch, does, error):
    monkeypatch.setattr(serve, does, fails(error))
    options = Options("127.0.0.1", port, messages=(1024,), seconds=0.05, others=False)
    client = network._Client("127.0.0.1", port, options, lambda doing, share: None)
    calls = {
        "_answer": lambda: client._ping(64),
        "receive": lambda: client._transfer(1024, 1, "to peer"),
        "send_for": lambda: client._transfer(1024, 1, "from peer"),
    }
    with pytest.raises(PeerShort, match=TOLD):
        calls[does]()


class NoThread(threading.Thread):
    """A thread that cannot be had while `short` is set."""

    short = False

    def start(self):
        if self.short:
            raise RuntimeError("can't start new thread")
        super().start()


def test_a_peer_without_a_thread_says_so_and_serves_the_next(port, monkeypatch):
    monkeypatch.setattr(serve.threading, "Thread", NoThread)
    monkeypatch.setattr(NoThread, "short", True)
    with pytest.raises(PeerShort):
        stream.join("127.0.0.1", port, "")
    monkeypatch.setattr(NoThread, "short", False)
    with closing(stream.join("127.0.0.1", port, "")) as line:
        line.say({"do": "give", "message": 1024, "seconds": 0.01})
        assert stream.receive(line, 0.0)["bytes"] > 0


def test_the_peer_is_named_by_its_address_or_as_one_of_this_machine(monkeypatch):
    monkeypatch.setattr(network._Client, "result", fails(PeerShort()))
    for options, who in (
        (Options("127.0.0.1", 9), "the peer at 127.0.0.1:9"),
        (Options(), "the peer on this machine"),
    ):
        with pytest.raises(Unavailable, match=f"^{who} {TOLD}"):
            network.run(options, lambda doing, share: None)


def hear_of_its_end(talk):
    """Take the peer's address, if it gives one, and tell that the conversation ended."""
    next(talk)
    talk.throw(KvdoctorError("the other side ended the conversation"))


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        ("raise MemoryError", Unavailable, f"the peer on this machine {TOLD}"),
        ("raise ValueError", KvdoctorError, "ended in the middle, with exit code 1"),
        ("print(9, flush=True); import os; os.close(1); raise MemoryError", Unavailable, TOLD),
    ],
)
def test_a_peer_here_that_dies_of_it_is_told_apart(code, kind, text):
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        )
        talk = network_peer._talking(process, errors)
        with pytest.raises(kind, match=text):
            hear_of_its_end(talk)


def test_glooes_other_process_is_named_where_it_ran_out():
    assert gloo._failed(RuntimeError("Connection closed by peer"), "MemoryError").reason.startswith(
        "gloo's other"
    )
    assert gloo._failed(RuntimeError("can't allocate memory"), "").reason == f"gloo {TOLD}"
    assert gloo._failed(RuntimeError("no route\nand more"), "").reason == "gloo failed: no route"


def test_a_first_line_of_bulk_data_is_no_refusal():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(stream.DECLINED + bytes(stream.MAX_LINE))
        theirs.shutdown(socket.SHUT_WR)
        line = object.__new__(stream.Line)  # a pair has no TCP option to set
        line.socket = ours
        assert stream.receive(line, 0.0)["bytes"] == len(stream.DECLINED) + stream.MAX_LINE


def test_too_little_address_space_is_never_an_end_of_the_conversation(tmp_path):
    """How much is too little differs by machine: either it measures, or it says what ran out."""
    program = Program(tmp_path)
    ran = subprocess.run(
        ["bash", "-c", 'ulimit -v 400000; exec "$@"', "bash", *PROGRAM, "probe", "network"],
        capture_output=True,
        text=True,
        env=program.environment,
        cwd=program.folder,
        timeout=120,
        check=False,
    )
    said = " ".join(ran.stdout.split())
    assert "the other side ended" not in said
    assert ran.returncode == 0 or f"{TOLD} -> more of it: ulimit -v" in said
