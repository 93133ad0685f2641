"""Many replicas for an hour from a server that speaks Prometheus' API: how long they take to read and to judge.

usage: python -m benchmarks.replicas PAGES.prom.gz [--replicas 64] [--minutes 60]

The series are those of a recording's last page, drawn out over the hour by a false server on the loopback: its own
time to answer is counted in, a real server's time to look samples up is not.
"""

from __future__ import annotations

import argparse
import gzip
import http.server
import json
import re
import resource
import threading
import time
from typing import BinaryIO, cast
from urllib.parse import parse_qs, urlsplit

from kvdoctor.commands.fleet import read_server
from kvdoctor.exposition import Parser
from kvdoctor.fleet import fleet
from kvdoctor.readers.pages import pages_of
from kvdoctor.recording import Column

STEP = 15
"""Seconds between two samples: Prometheus' usual interval."""


def columns(path: str) -> tuple[list[Column], dict[int, float], dict[int, float]]:
    """Return the series of a recording, their first values and their last ones."""
    found: list[Column] = []
    parser = Parser(found)
    with gzip.open(path) as file:
        stream = cast(BinaryIO, file)
        changes = [parser.read(page.text) for page in pages_of(stream) if page.wall is not None]
    first = dict(zip(changes[0].ids, changes[0].values, strict=True))
    last = dict(first)
    for change in changes[1:]:
        last.update(zip(change.ids, change.values, strict=True))
    return found, first, last


class Server(http.server.ThreadingHTTPServer):
    """Holds the answers ready, by metric name."""

    daemon_threads = True

    def __init__(self, path: str, replicas: int, minutes: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        found, first, last = columns(path)
        end, number = int(time.time()), minutes * 60 // STEP
        times = [end - STEP * (number - n) for n in range(number)]
        self.samples = 0
        self.ready: dict[str, list[str]] = {}
        for i, column in enumerate(found):
            rise = last.get(i, 0.0) - first.get(i, 0.0)
            moves = rise if column.type in ("counter", "histogram") or column.name.endswith("_total") else 0.0
            values = [f'[{t},"{first.get(i, 0.0) + moves * n / number:.6g}"]' for n, t in enumerate(times)]
            text = ",".join(values)
            for replica in range(replicas):
                labels = {"__name__": column.name, "instance": f"engine-{replica}:8000", "job": "vllm"}
                metric = json.dumps({**labels, **dict(column.labels)})
                self.ready.setdefault(column.name, []).append(f'{{"metric":{metric},"values":[{text}]}}')
                self.samples += number
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers the two questions that are asked."""

    server: Server

    def do_GET(self) -> None:
        """Return names, or the series whose name matches."""
        parts = urlsplit(self.path)
        data = json.dumps(sorted(self.server.ready))
        if parts.path.endswith("/query"):
            found = re.search(r'__name__=~"([^"]*)"', parse_qs(parts.query)["query"][0])
            pattern = re.compile(found[1].replace("\\\\", "\\") if found else "")
            ready = (
                text for name, texts in self.server.ready.items() if pattern.fullmatch(name) for text in texts
            )
            data = '{"resultType":"matrix","result":[' + ",".join(ready) + "]}"
        body = f'{{"status":"success","data":{data}}}'.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def main() -> None:
    """Print how long reading and judging take."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("pages")
    parser.add_argument("--replicas", type=int, default=64)
    parser.add_argument("--minutes", type=int, default=60)
    options = parser.parse_args()
    server = Server(options.pages, options.replicas, options.minutes)
    begin = time.perf_counter()
    recording = read_server(f"http://127.0.0.1:{server.server_port}", f"{options.minutes + 1}m", [], None)
    read = time.perf_counter() - begin
    found = fleet(recording)
    whole = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    series = sum(len(source.columns) for source in recording.sources)
    print(
        f"{len(found.replicas)} replicas, {series} series of {server.samples // (options.minutes * 60 // STEP)}"
    )
    print(f"read in {read:.1f} s, judged in {whole - read:.1f} s, {whole:.1f} s together")
    print(
        f"{recording.cost.bytes / 1e6:.0f} MB of answers; {peak:.0f} MiB resident, the false server's answers in it"
    )


if __name__ == "__main__":
    main()
