"""Record metrics pages where nothing can be installed: copy this one file, run it with any Python from 3.8 on.

python3 record.py --url http://127.0.0.1:8000/metrics --seconds 60
Each endpoint's pages go to a file of their own, <out>-<n>.prom.gz, readable by its owner alone. Take the files
elsewhere and run `kvdoctor diagnose` on all of them. It reads the pages that it is given and nothing else.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import os
import signal
import socket
import sys
import threading
import time
from urllib.parse import SplitResult, urlsplit

DEADLINE = 5.0
"""Seconds for one whole reading."""
MAX_PAGE = 16 * 2**20
MAX_FILE = 256 * 2**20
MAX_SECONDS = 6 * 3600
SHARE = 0.25
"""Of its time that a server may spend on answering us; one that needs more is read less often."""
MIN_INTERVAL = 0.2
PIECE = 2**16


class Failed(Exception):
    """A reading that failed. `final` says that the endpoint is not to be asked again."""

    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.final = reason, final


class Endpoint:
    """One metrics page. No redirect is followed, no proxy is asked; the key goes to this URL alone."""

    def __init__(self, url: str, key: str | None) -> None:
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
        except ValueError:
            raise SystemExit("record: what was given with --url is no URL") from None
        self.name = _shown(parts)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SystemExit(f"record: {self.name} is no URL of a metrics page (http://host:port/metrics)")
        if parts.username:
            raise SystemExit("record: no credentials in URLs; --api-key-env NAME sends a bearer token")
        path = parts.path if parts.path.strip("/") else "/metrics"
        self.parts, self.target = parts, f"{path}?{parts.query}" if parts.query else path
        self.headers = {"Accept": "text/plain; version=0.0.4", "Accept-Encoding": "identity"}
        self.headers["User-Agent"] = "kvdoctor-record"
        if key:
            self.headers["Authorization"] = "Bearer " + key

    def read(self) -> bytes:
        """Return the page; Failed says why there is none."""
        https = self.parts.scheme == "https"
        kind = http.client.HTTPSConnection if https else http.client.HTTPConnection
        connection = kind(self.parts.hostname or "", self.parts.port, timeout=DEADLINE)
        # A socket's own limit is for one piece: an answer that drips would never reach it.
        end = time.monotonic() + DEADLINE
        watch = threading.Timer(DEADLINE, _cut, (connection,))
        watch.daemon = True
        watch.start()
        try:
            connection.request("GET", self.target, headers=self.headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise Failed(f"HTTP {answer.status}", final=answer.status in (401, 403, 404, 405))
            return _page(answer, end)
        except (OSError, http.client.HTTPException, ValueError) as error:
            late = time.monotonic() >= end
            raise Failed("the page took too long" if late else f"{type(error).__name__}: {error}") from None
        finally:
            watch.cancel()
            connection.close()


def _cut(connection: http.client.HTTPConnection) -> None:
    """End whatever waits on a connection."""
    sock = connection.sock
    try:
        if sock is not None:
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except OSError:
        return  # it has ended by itself


def _page(answer: http.client.HTTPResponse, end: float) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        piece = answer.read1(PIECE)
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
        if size > MAX_PAGE or time.monotonic() > end:
            raise Failed("the page is too long" if size > MAX_PAGE else "the page took too long")
    late = time.monotonic() >= end
    if answer.length or late:
        raise Failed("the page took too long" if late else "the page broke off")
    text = b"".join(pieces)
    start = text[:64].lstrip()
    if start[:1] in (b"[", b"{") and not start.startswith(b'{"'):
        raise Failed(
            "it answers with JSON, which a reading may take away from others: asked once only", final=True
        )
    if start[:1] == b"<" or "json" in (answer.getheader("Content-Type") or ""):
        raise Failed("it answers with no metrics text: asked once only", final=True)
    return text


def _shown(parts: SplitResult) -> str:
    """Write a URL without credentials and without its query, which may hold a token."""
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise SystemExit("record: the URL's port is no port") from None
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path}"


class Recorder(threading.Thread):
    """Reads one endpoint on a grid of ticks and writes each page, or why there is none, at once."""

    def __init__(
        self, endpoint: Endpoint, path: str, options: argparse.Namespace, stop: threading.Event
    ) -> None:
        super().__init__(daemon=True)
        self.endpoint, self.path, self.options, self.stopped = endpoint, path, options, stop
        self.wall, self.start_at = time.time(), time.monotonic()
        self.pages = self.failures = 0
        self.reason = ""

    def run(self) -> None:
        """Record until the time is over, the file is full, or somebody stops us."""
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as raw, gzip.GzipFile("", "wb", 6, raw) as out:
                self._record(out, descriptor)
        except OSError as error:
            self.reason = f"the file cannot be written: {error.strerror}"

    def _record(self, out: gzip.GzipFile, descriptor: int) -> None:
        note = {
            "name": self.endpoint.name,
            "kind": "prometheus",
            "wall": self.wall,
            "role": None,
            "texts": {},
        }
        head = f"#= {json.dumps({'source': note})}\n"
        due = 0.0
        while due <= self.options.seconds and self._wait(due):
            took = self._once(out, "" if self.pages else head)
            out.flush()
            if took is None:
                return
            if os.fstat(descriptor).st_size > MAX_FILE:
                self.reason = "the file is full"
                return
            step = max(self.options.interval, took / SHARE)
            due = max(due + step, time.monotonic() - self.start_at)

    def _wait(self, due: float) -> bool:
        left = self.start_at + due - time.monotonic()
        return not self.stopped.wait(max(0.0, left))

    def _once(self, out: gzip.GzipFile, head: str) -> float | None:
        """Write one reading; return its seconds, None when the endpoint is not to be asked again."""
        begin = time.monotonic()
        at = self.wall + begin - self.start_at
        try:
            text = self.endpoint.read()
        except Failed as failure:
            self.failures, self.reason = self.failures + 1, failure.reason
            reason = " ".join(failure.reason.split())[:200]
            out.write(f"#@ {at:.6f} 0\n#! {reason}\n".encode("utf-8", "replace"))
            return None if failure.final and not self.pages else 0.0
        took = time.monotonic() - begin
        self.pages += 1
        out.write(f"#@ {at:.6f} {1000 * took:.3f}\n{head}".encode())
        # A page that holds a mark of ours would be read as two, one that begins with a note as ours.
        out.write((b"\n" + text).replace(b"\n#@ ", b"\n# @ ") + (b"" if text.endswith(b"\n") else b"\n"))
        return took


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="record", description="record metrics pages for kvdoctor")
    parser.add_argument(
        "--url", action="append", required=True, help="metrics page, may be given several times"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help=f"how long, {MAX_SECONDS} at most")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between two readings")
    parser.add_argument("--out", default="kvdoctor", help="beginning of the files' names")
    parser.add_argument("--api-key-env", default="", help="environment variable that holds a bearer token")
    options = parser.parse_args(argv)
    if not (0 <= options.seconds <= MAX_SECONDS and options.interval >= MIN_INTERVAL):
        parser.error(f"--seconds 0 to {MAX_SECONDS}, --interval {MIN_INTERVAL:g} or more")
    if options.api_key_env and not os.environ.get(options.api_key_env):
        parser.error(f"{options.api_key_env} is not set")
    return options


def _key(name: str) -> str | None:
    """Return the token; blanks around it, as a file's last line feed, are no part of it."""
    key = os.environ.get(name, "").strip() if name else ""
    if name and not (key and key.isascii() and key.isprintable()):
        raise SystemExit(f"record: {name} holds characters that no HTTP header can carry")
    return key or None


def main(argv: list[str]) -> int:
    """Record every URL side by side. Returns 0 when each gave a page, else 1."""
    options = _options(argv)
    key = _key(options.api_key_env)
    places = [
        (Endpoint(url, key), f"{options.out}-{number}.prom.gz")
        for number, url in enumerate(options.url, start=1)
    ]
    taken = [path for _, path in places if os.path.exists(path)]
    if taken:
        raise SystemExit(f"record: {taken[0]} exists already; give another --out")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    recorders = [Recorder(endpoint, path, options, stop) for endpoint, path in places]
    for recorder in recorders:
        recorder.start()
    for recorder in recorders:
        while recorder.is_alive():
            recorder.join(0.2)
    for recorder in recorders:
        why = f" ({recorder.reason})" if recorder.reason else ""
        sys.stderr.write(f"{recorder.path}: {recorder.pages} pages, {recorder.failures} failed{why}\n")
    return 0 if all(recorder.pages for recorder in recorders) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
