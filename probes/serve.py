"""The peer of the network probe: takes and gives bytes, on loopback unless told, for a limited time."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.probes.shortage import is_short
from kvdoctor.probes.stream import LARGEST, LONGEST_S, SHORT, WAIT_S, Line, admit, receive, send_for, take

MOST_STREAMS = 64
POLL_S = 0.2
DROP = 4096
TALK_S = 2 * WAIT_S
"""Seconds in which a client has proved itself and said what it wants: two lines, each waited for so long."""
WORK_S = LONGEST_S + WAIT_S
"""Seconds that what it wants may take."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server listens, whom it serves, and for how many seconds."""

    bind: str = "127.0.0.1"
    port: int = 0
    token: str = ""
    seconds: float = 600.0
    once: bool = False
    """End when the first client that was let in has left."""


def is_loopback(host: str) -> bool:
    """Say whether an address is this machine's own; names count only as `localhost`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(place: Place) -> socket.socket:
    """Open the port. KvdoctorError for an address that others reach without a token, or that cannot be had."""
    if not is_loopback(place.bind) and len(place.token) < 8:
        raise KvdoctorError(
            f"{place.bind} is reached by others, and no token keeps them out",
            "KVDOCTOR_TOKEN with 8 characters or more",
        )
    family = socket.AF_INET6 if ":" in place.bind else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind((place.bind, place.port))
    except OSError as error:
        server.close()
        raise KvdoctorError(
            f"{place.bind}:{place.port} cannot be had: {error.strerror}", "--port of another"
        ) from error
    server.listen(MOST_STREAMS)
    return server


def serve(server: socket.socket, place: Place, ended: Callable[[], bool] = lambda: False) -> int:
    """Serve until the time is over; return how many connections were let in."""
    stop, crew = time.monotonic() + place.seconds, _Crew(place.token)
    server.settimeout(POLL_S)
    while time.monotonic() < stop and not ended():
        if place.once and crew.served and not crew.busy:
            break
        try:
            connection, _ = server.accept()
        except TimeoutError:
            continue
        except OSError:  # no file left for it, or it has gone: others may still come
            time.sleep(POLL_S)
            continue
        if crew.busy >= MOST_STREAMS:
            connection.close()
            continue
        _begin(crew, Line(connection))
    server.close()
    return crew.served


def _begin(crew: _Crew, line: Line) -> None:
    """Serve one connection in a thread of its own; say so to the client where none is to be had."""
    try:
        threading.Thread(target=crew.serve, args=(line,), daemon=True).start()
    except (MemoryError, RuntimeError) as error:
        _decline(line, error)
        line.close()


def _decline(line: Line, error: Exception) -> None:
    """Tell a client that memory or threads are short here; any other error is one of ours."""
    if not is_short(error):
        raise error
    with suppress(OSError, MemoryError):
        line.say({SHORT: True})


def _drain(line: Line) -> None:
    """Take what a client still sends and drop it: a connection closed before that is reset, and our line is lost."""
    stop = time.monotonic() + LONGEST_S
    with suppress(OSError, MemoryError):
        line.socket.shutdown(socket.SHUT_WR)
        while time.monotonic() < stop and line.socket.recv(DROP):
            pass


class _Crew:
    """The connections that are open."""

    def __init__(self, token: str) -> None:
        self._token, self._lock = token, threading.Lock()
        self.served = self.busy = 0

    def serve(self, line: Line) -> None:
        """Let one client in and do what it asks; whatever it does wrong ends its connection only."""
        with self._lock:
            self.busy += 1
        try:
            with _limited(line.socket, TALK_S):
                asked = self._asked(line)
            if asked is not None:
                with _limited(line.socket, WORK_S):
                    _obey(line, asked)
        except (MemoryError, RuntimeError) as error:
            _decline(line, error)
            _drain(line)
        except (OSError, KvdoctorError, Unavailable, ValueError, TypeError, KeyError, OverflowError):
            pass  # a client that leaves or talks nonsense is no failure of the server
        finally:
            line.close()
            with self._lock:
                self.busy -= 1

    def _asked(self, line: Line) -> dict[str, Any] | None:
        """Return what a client wants once it is let in; None where it is not."""
        if not admit(line, self._token):
            return None
        self.served += 1
        return line.hear()


@contextmanager
def _limited(connection: socket.socket, seconds: float) -> Iterator[None]:
    """End a connection after so long, however its client talks: one byte at a time would always come in time."""
    timer = threading.Timer(seconds, _shut, (connection,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # never after the connection is closed: its number may be another's by then


def _shut(connection: socket.socket) -> None:
    """End both directions, which wakes whoever waits in them."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _obey(line: Line, asked: dict[str, Any]) -> None:
    """Do one thing: take bytes, give bytes, or answer messages."""
    message = max(1, min(int(asked.get("message", 1)), LARGEST))
    if asked["do"] == "take":
        line.say(dict(receive(line, float(asked["warm"]))))
    elif asked["do"] == "give":
        send_for(line, message, float(asked["seconds"]))
    elif asked["do"] == "answer":
        _answer(line, message)


def _answer(line: Line, message: int) -> None:
    """Return one byte for each whole message, until the client leaves."""
    buffer, stop = memoryview(bytearray(message)), time.monotonic() + WORK_S
    while time.monotonic() < stop:
        take(line, message, buffer)
        line.socket.sendall(b"\x01")
