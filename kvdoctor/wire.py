"""One kept-alive HTTP connection on which every answer has a deadline and a size limit."""

from __future__ import annotations

import http.client
import socket
import threading
import time
import zlib
from dataclasses import dataclass
from types import TracebackType

from kvdoctor.address import Address
from kvdoctor.errors import Unavailable
from kvdoctor.wire_failure import explained

PIECE = 64 * 2**10


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said."""

    status: int
    kind: str
    """Media type, in lower case, without parameters."""
    location: str
    body: bytes
    cut: bool
    """True when the server broke off before the length that it had announced."""


class _Response(http.client.HTTPResponse):
    """Takes no chunk of negative length: http.client reads such a one without end."""

    def _safe_read(self, amt: int) -> bytes:
        if amt < 0:
            raise http.client.IncompleteRead(b"")
        return super()._safe_read(amt)  # type: ignore[misc,no-any-return]


class _Connection(http.client.HTTPConnection):
    response_class = _Response
    auto_open = 0


class _Watch:
    """Shuts a socket down when time is up, which ends any call that waits on it."""

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        self.expired = False
        self._sock = sock
        self._timer = threading.Timer(max(0.0, seconds), self._expire)
        self._timer.daemon = True

    def _expire(self) -> None:
        self.expired = True
        shut(self._sock)

    def __enter__(self) -> _Watch:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()


class Wire:
    """Sends GET requests to one server, one after the other. Follows no redirect, knows no proxy."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._connection: http.client.HTTPConnection | None = None
        self._ended = False

    def get(self, target: str, headers: dict[str, str], *, deadline_s: float, limit: int) -> Answer:
        """Return the answer to one GET; Unavailable when there is none in time or it is over `limit` bytes.

        A kept-alive connection that the server has closed meanwhile is opened anew once.
        """
        end = time.monotonic() + deadline_s
        kept = self._connection is not None and self._connection.sock is not None
        try:
            try:
                return self._exchange(target, headers, end, limit)
            except ConnectionError:
                if not kept or self._ended:
                    raise
                return self._exchange(target, headers, end, limit)
        except (OSError, http.client.HTTPException) as error:
            raise explained(error, self.address, deadline_s) from None

    def close(self) -> None:
        """Close the connection for good; ends a request that another thread waits for."""
        self._ended = True
        self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            if connection.sock is not None:
                shut(connection.sock)
            connection.close()

    def _exchange(self, target: str, headers: dict[str, str], end: float, limit: int) -> Answer:
        connection = self._connection
        if connection is None or connection.sock is None:
            connection = self._connection = self._connect(end)
        with _Watch(connection.sock, end - time.monotonic()) as watch:
            try:
                connection.request("GET", target, headers=headers)
                with connection.getresponse() as response:
                    answer = _answer(response, limit)
            except (OSError, http.client.HTTPException, Unavailable):
                self._drop()
                if watch.expired:
                    raise TimeoutError("deadline") from None
                raise
        if watch.expired:  # the socket was shut, which may look like an end
            self._drop()
            raise TimeoutError("deadline")
        return answer

    def _connect(self, end: float) -> http.client.HTTPConnection:
        connection = _Connection(self.address.host, self.address.port)
        connection.default_port = 443 if self.address.scheme == "https" else 80
        sock = _dial(self.address, end)
        if self.address.scheme == "https":
            sock = _secured(sock, self.address.host, end)
        connection.sock = sock
        return connection


def shut(sock: socket.socket) -> None:
    """End both directions of a socket under the feet of whoever waits on it."""
    try:
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # past SSLSocket's own, which is not made for threads
    except OSError:
        return  # closed already


def _dial(address: Address, end: float) -> socket.socket:
    """Connect to the first address of the host that accepts."""
    failure: OSError = TimeoutError("deadline")
    for family, kind, protocol, _, place in _resolve(address, end):
        remaining = end - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("deadline")
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(remaining)
            sock.connect(place)
            sock.settimeout(None)  # from here on a watch sees to the deadline
        except OSError as error:
            sock.close()
            failure = error
        else:
            return sock
    raise failure


_Place = tuple[socket.AddressFamily, socket.SocketKind, int, str, "tuple[object, ...]"]


def _resolve(address: Address, end: float) -> list[_Place]:
    """Look a name up, in a thread of its own: the system's resolver knows no deadline."""
    found: list[_Place] = []
    failed: list[OSError] = []

    def look_up() -> None:
        try:
            found.extend(socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM))
        except UnicodeError:
            failed.append(socket.gaierror(socket.EAI_NONAME, "no such name"))
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(max(0.0, end - time.monotonic()))
    if failed:
        raise failed[0]
    if not found:
        raise TimeoutError("name")
    return found


def _secured(sock: socket.socket, host: str, end: float) -> socket.socket:
    import ssl

    with _Watch(sock, end - time.monotonic()) as watch:
        try:
            return ssl.create_default_context().wrap_socket(sock, server_hostname=host)
        except OSError:
            sock.close()
            if watch.expired:
                raise TimeoutError("deadline") from None
            raise


def _answer(response: http.client.HTTPResponse, limit: int) -> Answer:
    expected = response.length
    pieces: list[bytes] = []
    size, cut = 0, False
    try:
        while piece := response.read(PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                raise _too_long(limit)
    except http.client.IncompleteRead as error:
        inner = error.__cause__ or error.__context__  # has what came of the last chunk
        rest = inner.partial if isinstance(inner, http.client.IncompleteRead) else b""
        pieces.extend((error.partial, rest))
        cut = True
    body = b"".join(pieces)
    cut = cut or (expected is not None and len(body) < expected)
    if response.getheader("Content-Encoding", "").strip().lower() in ("gzip", "x-gzip"):
        body, cut = _unzipped(body, limit, cut)
    kind = response.getheader("Content-Type", "").partition(";")[0].strip().lower()
    return Answer(response.status, kind, response.getheader("Location", ""), body, cut)


def _unzipped(body: bytes, limit: int, cut: bool) -> tuple[bytes, bool]:
    stream = zlib.decompressobj(wbits=31)
    try:
        plain = stream.decompress(body, limit + 1)
    except zlib.error:
        raise Unavailable(
            "its answer says that it is gzip and is not", "look at the page with curl"
        ) from None
    if len(plain) > limit:
        raise _too_long(limit)
    return plain, cut or not stream.eof


def _too_long(limit: int) -> Unavailable:
    return Unavailable(f"it answers with more than {limit >> 20} MiB", "is this a metrics page?")
