"""A remote pool: blocks held by another process, reached over TCP."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys

from kvdoctor.errors import KvdoctorError
from kvdoctor.reference.stores import Key

# operation, length of the key, length of the payload
HEADER = struct.Struct("!cHQ")
PUT, GET, DROP = b"P", b"G", b"D"
_START_S = 20.0


def receive_into(link: socket.socket, view: memoryview) -> None:
    """Fill `view` from the socket. Raises ConnectionError when the other side has gone."""
    while view:
        count = link.recv_into(view)
        if count == 0:
            raise ConnectionError("the peer closed the connection")
        view = view[count:]


def receive(link: socket.socket, count: int) -> bytearray:
    """`count` bytes from the socket."""
    found = bytearray(count)
    receive_into(link, memoryview(found))
    return found


class RemoteStore:
    """A client of one peer; one request at a time on one connection."""

    def __init__(self, host: str, port: int) -> None:
        self.name = "remote"
        try:
            self._link = socket.create_connection((host, port), timeout=_START_S)
        except OSError as error:
            raise KvdoctorError(
                f"no KV peer answers at {host}:{port}: {error}",
                "start one: python -m kvdoctor.reference.peer",
            ) from error
        self._link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def write(self, key: Key, data: memoryview) -> bool:
        """Send a block and wait until the peer has it."""
        self._link.sendall(HEADER.pack(PUT, len(key), len(data)) + key)
        self._link.sendall(data)
        receive(self._link, HEADER.size)
        return True

    def read(self, key: Key, into: memoryview) -> bool:
        """Ask for a block."""
        self._link.sendall(HEADER.pack(GET, len(key), 0) + key)
        _, _, size = HEADER.unpack(receive(self._link, HEADER.size))
        if size != len(into):
            receive(self._link, size)
            return False
        receive_into(self._link, into)
        return True

    def drop(self, key: Key) -> None:
        """Let the peer forget a block."""
        self._link.sendall(HEADER.pack(DROP, len(key), 0) + key)
        receive(self._link, HEADER.size)

    def close(self) -> None:
        """Close the connection."""
        self._link.close()


class PeerProcess:
    """A peer of our own on loopback; it ends when its standard input closes, so never outlives us."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kvdoctor.reference.peer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        line = self._process.stdout.readline() if self._process.stdout else b""
        if not line.strip().isdigit():
            self.close()
            raise KvdoctorError("the KV peer did not start", "try: python -m kvdoctor.reference.peer")
        self.host = "127.0.0.1"
        self.port = int(line)
        self.pid = self._process.pid

    def close(self) -> None:
        """Let it end, and wait for it."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()
        self._process.wait(timeout=_START_S)
