"""The wire of the network probe: who may talk, what is asked, and bytes counted where they arrive."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.probes.shortage import PeerShort

GREETING = "kvdoctor-probe-1"
MAX_LINE = 4096
BUFFER = 2**20
WAIT_S = 10.0
"""Seconds that either side waits for the other."""
LONGEST_S = 20.0
"""Seconds of one transfer that a server takes part in at most."""
SEGMENT = 64 * 2**10
"""Bytes that TCP offloading hands over at once at most: to wake a receiver for less costs a tenth on loopback."""
FAST = 16 * SEGMENT
"""Bytes in the warm-up from which that wait is no longer felt."""
SHORT = "short"
"""The key of a line in the place of any other, bulk data included: the peer has no memory or no thread for it."""
DECLINED = b'{"short"'
LARGEST = 64 * 2**20
"""Bytes of the largest message that a server takes."""


class Line:
    """A connection with text lines before and after its bulk data."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        connection.settimeout(WAIT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def say(self, message: dict[str, Any]) -> None:
        """Send one JSON line."""
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        """Receive one JSON line, byte by byte, so that no bulk data is taken with it."""
        found = bytearray()
        while not found.endswith(b"\n"):
            piece = self.socket.recv(1)
            if not piece or len(found) > MAX_LINE:
                raise KvdoctorError(
                    "the other side ended the conversation", "is it kvdoctor probe network --serve?"
                )
            found += piece
        try:
            message = json.loads(found)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise KvdoctorError(
                "the other side is no probe of kvdoctor", "start one: kvdoctor probe network --serve"
            )
        if SHORT in message:
            raise PeerShort
        return message

    def close(self) -> None:
        """End the connection."""
        self.socket.close()


def proof(token: str, nonce: str) -> str:
    """Return what shows that we know the token without sending it: HMAC-SHA256 of the nonce."""
    return hmac.new(token.encode(), nonce.encode(), hashlib.sha256).hexdigest()


def admit(line: Line, token: str) -> bool:
    """Ask a client for its proof; say whether it may go on."""
    nonce = os.urandom(16).hex()
    line.say({"hello": GREETING, "nonce": nonce})
    given = line.hear().get("proof")
    welcome = isinstance(given, str) and hmac.compare_digest(given, proof(token, nonce))
    line.say({"welcome": welcome})
    return welcome


def join(host: str, port: int, token: str) -> Line:
    """Connect to a server; KvdoctorError where there is none, or where it does not know our token."""
    try:
        line = Line(socket.create_connection((host, port), timeout=WAIT_S))
    except OSError as error:
        raise KvdoctorError(
            f"{host}:{port} does not answer: {error.strerror or error}",
            f"start one there: kvdoctor probe network --serve --bind {host} --port {port}",
        ) from error
    try:
        _introduce(line, f"{host}:{port}", token)
    except (KvdoctorError, Unavailable, OSError):
        line.close()
        raise
    return line


def _introduce(line: Line, where: str, token: str) -> None:
    """Prove that we know the token."""
    hello = line.hear()
    if hello.get("hello") != GREETING:
        raise KvdoctorError(
            f"{where} speaks another version of this protocol", "the same kvdoctor on both sides"
        )
    line.say({"proof": proof(token, str(hello.get("nonce", "")))})
    if not line.hear().get("welcome"):
        raise KvdoctorError(
            f"{where} does not take our token", "set KVDOCTOR_TOKEN to what the server was started with"
        )


@contextmanager
def limited_by_kernel(connection: socket.socket) -> Iterator[None]:
    """Keep the time limit in the kernel: with Python's own, every send and receive costs a poll(2) more.

    On loopback of 3.5 GB/s those polls were a tenth of the rate. TimeoutError where the other side stays silent.
    """
    kept, limit = connection.gettimeout(), struct.pack("@ll", int(WAIT_S), 0)
    connection.setblocking(True)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    try:
        yield
    except BlockingIOError as error:
        raise TimeoutError(f"silent for {WAIT_S:.0f} s") from error
    finally:
        connection.settimeout(kept)


def send_for(line: Line, message: int, seconds: float) -> int:
    """Send whole messages for some seconds, then close our direction; return the bytes."""
    data = memoryview(os.urandom(message))
    stop, total = time.monotonic() + min(seconds, LONGEST_S), 0
    with limited_by_kernel(line.socket):
        while time.monotonic() < stop:
            line.socket.sendall(data)
            total += message
    line.socket.shutdown(socket.SHUT_WR)
    return total


def receive(line: Line, warm_s: float) -> dict[str, float]:
    """Receive until the other side closes its direction; return bytes, and the rate after the warm-up.

    The rate is payload over the time between the end of the warm-up and the last byte, on the receiver's clock.
    """
    buffer = bytearray(BUFFER)
    with limited_by_kernel(line.socket):
        total, marked = line.socket.recv_into(buffer), 0
        begin = last = mark = time.perf_counter()
        while got := line.socket.recv_into(buffer):
            total += got
            last = time.perf_counter()
            if not marked and last - begin >= warm_s:
                marked, mark = total, last
                if total >= FAST:
                    line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, SEGMENT)
    if total < MAX_LINE and buffer.startswith(DECLINED):
        raise PeerShort
    span = last - mark
    return {"bytes": float(total), "rate": (total - marked) / span if span > 0 and marked else 0.0}


def take(line: Line, size: int, buffer: memoryview) -> None:
    """Receive exactly `size` bytes."""
    got = 0
    while got < size:
        piece = line.socket.recv_into(buffer[got:size])
        if not piece:
            raise KvdoctorError(
                "the connection ended in the middle of a message", "is the other side still there?"
            )
        got += piece
