"""A real HTTP server on the loopback that misbehaves in the way it is told to."""

from __future__ import annotations

import gzip
import http.server
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PAGE = b"""\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 1024.0
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.7e+09
"""
LIMIT = 20.0
"""Seconds after which a behaviour that waits gives up, should nobody release it."""


_BOMB = gzip.compress(b"a_metric 1\n" * 2**18, 1)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.requests.append((self.path, dict(self.headers)))
        self.server.behaviour(self)

    def log_message(self, *_: object) -> None:
        return

    def answer(self, body: bytes, *, status: int = 200, kind: str = "text/plain", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def pause(self, seconds: float) -> bool:
        """Wait; False when the test is over."""
        return not self.server.released.wait(seconds)


Behaviour = Callable[[Handler], None]


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviour = behaviour
        self.scheme = "http"
        self.released = threading.Event()
        self.requests: list[tuple[str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        return  # the client went away, as it should


@contextmanager
def serving(behaviour: Behaviour, *, certificate: Path | None = None) -> Iterator[Server]:
    server = Server(behaviour)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.scheme = "https"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def dead_url() -> str:
    """Return a URL on which nothing listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{sock.getsockname()[1]}"


def good(handler: Handler) -> None:
    handler.answer(PAGE)


def page(text: bytes, **options: str) -> Behaviour:
    return lambda handler: handler.answer(text, **options)  # type: ignore[arg-type]


def status(code: int, body: bytes = b"no", **headers: str) -> Behaviour:
    return lambda handler: handler.answer(body, status=code, **headers)  # type: ignore[arg-type]


def hanging(handler: Handler) -> None:
    """Accept the request and say nothing."""
    handler.pause(LIMIT)


def trickling_head(handler: Handler) -> None:
    """Send one byte of the head at a time, each well within any timeout of a single read."""
    _trickle(handler, b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 4000)


def trickling_body(handler: Handler) -> None:
    """Promise a long page and send one byte of it at a time."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    _trickle(handler, PAGE * 20)


def _trickle(handler: Handler, data: bytes) -> None:
    with suppress(OSError):
        for i in range(len(data)):
            handler.wfile.write(data[i : i + 1])
            if not handler.pause(0.01):
                return


def endless(handler: Handler) -> None:
    """Send well-formed lines without end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    with suppress(OSError):
        while not handler.server.released.is_set():
            handler.wfile.write(b"a_metric 1\n" * 10_000)


def endless_chunk(handler: Handler) -> None:
    """Announce a chunk of -1 bytes, which some clients take for all there is, and send without end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n")
    with suppress(OSError):
        while not handler.server.released.is_set():
            handler.wfile.write(b"a_metric 1\n" * 10_000)


def zipped(handler: Handler) -> None:
    handler.answer(gzip.compress(PAGE), Content_Encoding="gzip")


def zip_bomb(handler: Handler) -> None:
    handler.answer(_BOMB, Content_Encoding="gzip")


def false_zip(handler: Handler) -> None:
    handler.answer(PAGE, Content_Encoding="gzip")


def cut(handler: Handler) -> None:
    """Break off in the middle of a line, before the length announced."""
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(PAGE)}\r\n\r\n".encode()
    handler.wfile.write(head + PAGE[: len(PAGE) - 20])
    handler.close_connection = True


def cut_chunks(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    handler.wfile.write(f"{len(PAGE):x}\r\n".encode() + PAGE[:120])
    handler.close_connection = True


def drop(handler: Handler) -> None:
    """Close the connection without an answer."""
    handler.close_connection = True


def no_http(handler: Handler) -> None:
    handler.wfile.write(b"\x00\x01I speak something else\r\n\r\n")
    handler.close_connection = True


def once_per_connection(handler: Handler) -> None:
    """Answer, keep the connection open in words, and close it in deed."""
    handler.answer(PAGE)
    handler.close_connection = True


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Behave in one way after the other, one a metrics page, the last one ever after; other paths are 404."""
    left = list(behaviours)

    def behave(handler: Handler) -> None:
        if not handler.path.endswith("/metrics"):
            handler.answer(b"no", status=404)
            return
        (left.pop(0) if len(left) > 1 else left[0])(handler)

    return behave


def engine(version: str = "0.32.0", model: str = "m") -> Behaviour:
    """Behave as vLLM does: a metrics page, a version, a list of models."""

    def behave(handler: Handler) -> None:
        bodies = {
            "/metrics": PAGE,
            "/version": b'{"version": "%s", "secret": "x"}' % version.encode(),
            "/v1/models": b'{"object": "list", "data": [{"id": "%s", "max_model_len": 4096, "root": "/m", '
            b'"permission": [{"id": "p"}]}]}' % model.encode(),
        }
        body = bodies.get(handler.path)
        handler.answer(body or b"no", status=200 if body else 404)

    return behave
