"""Serves a recorded series of metrics pages again, as an engine would: at a pace, or one page a request."""

from __future__ import annotations

import gzip
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

from badserver import Behaviour, Handler

RECORDINGS = Path(__file__).parent / "fixtures" / "recordings"
MARK = b"#@ "


def series(name: str) -> list[tuple[float, bytes]]:
    """Return the pages of a fixture and the seconds since the first of each."""
    text = gzip.decompress((RECORDINGS / f"{name}.prom.gz").read_bytes())
    blocks = [block.partition(b"\n") for block in (b"\n" + text).split(b"\n" + MARK)[1:]]
    times = [float(mark.split()[0]) for mark, _, _ in blocks]
    return [(at - times[0], page + b"\n") for at, (_, _, page) in zip(times, blocks, strict=True)]


def pages(name: str) -> list[bytes]:
    """Return the pages of a fixture."""
    return [page for _, page in series(name)]


def page_by_page(name: str) -> Behaviour:
    """Answer each request with the next page, the last one ever after."""
    left, lock = pages(name), threading.Lock()

    def next_page() -> bytes:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return _serve(next_page)


def at_speed(name: str, speed: float) -> Behaviour:
    """Answer with the page of this moment, the recorded time passing `speed` times as fast from the first request."""
    recorded = series(name)
    started: list[float] = []

    def page_now() -> bytes:
        if not started:
            started.append(time.monotonic())
        passed = (time.monotonic() - started[0]) * speed
        return recorded[bisect_right([at for at, _ in recorded], passed) - 1][1]

    return _serve(page_now)


def _serve(page: Callable[[], bytes]) -> Behaviour:
    def behave(handler: Handler) -> None:
        if handler.path == "/metrics":
            handler.answer(page())
        else:
            handler.answer(b"no", status=404)

    return behave
