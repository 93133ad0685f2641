"""A client that takes its time does not keep a place from others: neither while it talks nor while it works."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from kvdoctor.probes import serve as serving
from kvdoctor.probes import stream
from kvdoctor.probes.serve import Place, listen, serve

LIMIT_S = 0.5
"""Seconds that are allowed here."""
PATIENCE_S = 8.0
"""Below every limit of the wire itself: who is ended within it was ended by this one."""


@pytest.fixture
def port(monkeypatch):
    """A server with places for one client, and little time for it."""
    monkeypatch.setattr(serving, "TALK_S", LIMIT_S)
    monkeypatch.setattr(serving, "WORK_S", LIMIT_S)
    monkeypatch.setattr(serving, "MOST_STREAMS", 1)
    place, over = Place(seconds=60.0), threading.Event()
    server = listen(place)
    thread = threading.Thread(target=serve, args=(server, place, over.is_set))
    thread.start()
    yield server.getsockname()[1]
    over.set()
    thread.join()


def dripped(connection: socket.socket, byte: bytes) -> float:
    """Send one byte after the other; return the seconds until the other side has had enough."""
    begin = time.monotonic()
    while time.monotonic() - begin < PATIENCE_S:
        try:
            connection.sendall(byte)
        except OSError:
            break
        time.sleep(0.05)
    return time.monotonic() - begin


def let_in(port: int) -> stream.Line:
    """Join as soon as there is a place; fail where there is none in time."""
    begin = time.monotonic()
    while time.monotonic() - begin < PATIENCE_S:
        try:
            return stream.join("127.0.0.1", port, "")
        except (stream.KvdoctorError, OSError):
            time.sleep(0.05)
    raise AssertionError("the place was never free again")


def answered(port: int) -> bytes:
    """What an honest client gets."""
    line = let_in(port)
    line.say({"do": "answer", "message": 1})
    line.socket.sendall(b"x")
    got = line.socket.recv(1)
    line.close()
    return got


def test_a_proof_that_drips_is_ended_and_its_place_is_free_again(port):
    with socket.create_connection(("127.0.0.1", port)) as slow:
        assert LIMIT_S <= dripped(slow, b" ") < PATIENCE_S
        assert answered(port) == b"\x01"


def test_a_wish_that_drips_after_the_proof_is_ended_too(port):
    line = let_in(port)
    assert dripped(line.socket, b" ") < PATIENCE_S
    assert answered(port) == b"\x01"
    line.close()


@pytest.mark.parametrize(
    "wish", [{"do": "take", "warm": 0.0}, {"do": "answer", "message": 2**20}], ids=["take", "answer"]
)
def test_bulk_data_that_drips_is_ended(port, wish):
    line = let_in(port)
    line.say(wish)
    assert LIMIT_S / 2 <= dripped(line.socket, b"x") < PATIENCE_S
    assert answered(port) == b"\x01"
    line.close()


def test_who_takes_its_bytes_one_at_a_time_is_ended(port):
    line = let_in(port)
    line.say({"do": "give", "message": 2**22, "seconds": 20.0})
    begin, last = time.monotonic(), b"x"
    while last and time.monotonic() - begin < LIMIT_S:
        last = line.socket.recv(1)
        time.sleep(0.05)
    assert answered(port) == b"\x01"
    line.close()
