"""A stand-in for `vllm serve MODEL --port PORT`: serves the pages of a file by the time that has passed."""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar


class Engine(BaseHTTPRequestHandler):
    """Answers with the page of this moment."""

    pages: ClassVar[list[str]] = []
    apart = 0.1
    began: ClassVar[list[float]] = []

    def do_GET(self) -> None:
        """Serve the metrics; nothing else is there."""
        if not self.began:
            self.began.append(time.monotonic())
        reading = min(int((time.monotonic() - self.began[0]) / self.apart), len(self.pages) - 1)
        body = self.pages[reading].encode() if self.path == "/metrics" else b""
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    Engine.pages = json.loads(Path(sys.argv[-1]).read_text())
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Engine)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    server.serve_forever()
