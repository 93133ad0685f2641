"""What observing a 600-series endpoint on the loopback for 15 s at 1 Hz costs, in CPU seconds of a process of its own.

usage: python -m benchmarks.scrape_cost [--seconds 15]
"""

from __future__ import annotations

import argparse
import http.server
import subprocess
import sys
import threading

from benchmarks.synthetic import Engine

WATCH = """
import sys, tempfile, time
started = time.process_time()
from kvdoctor.clock import SystemClock
from kvdoctor.collectors.prometheus import Endpoint
from kvdoctor.record import record
from kvdoctor.store import Writer
imported = time.process_time()
with tempfile.TemporaryDirectory() as folder:
    writer = Writer.create(folder + "/cost.kvrec")
    recording = record([Endpoint(sys.argv[1])], seconds=float(sys.argv[2]), interval_s=1.0,
                       clock=SystemClock(), writer=writer)
cost, source = recording.cost, recording.sources[0]
print(f"{len(source.at)} readings of {len(source.columns)} series, {cost.bytes / len(source.at) / 1e3:.1f} kB each")
print(f"imports {imported - started:.3f} s CPU, recording {cost.cpu_seconds:.3f} s CPU "
      f"({1000 * cost.cpu_seconds / len(source.at):.1f} ms a reading), whole process {time.process_time():.3f} s")
print(f"longest reading {1000 * cost.longest_read_seconds:.1f} ms, gaps: {len(recording.gaps)}")
"""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine = Engine()

    def do_GET(self) -> None:
        found = self.path == "/metrics"
        body = self.engine.page() if found else b"no"
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=15.0)
    seconds = parser.parse_args().seconds
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    subprocess.run([sys.executable, "-c", WATCH, url, str(seconds)], check=True)
    server.shutdown()


if __name__ == "__main__":
    main()
