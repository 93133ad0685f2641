"""Many endpoints in one recording: is each read once an interval, and what does that cost?

usage: python -m benchmarks.endpoints [--endpoints 1000] [--interval 15] [--intervals 4] [--pages PAGES.prom.gz]

A server in a process of its own answers on the loopback, under one path an endpoint, with the pages of a recording one
after the other (without --pages: a made-up vLLM of 600 series). `kvdoctor record --urls FILE` reads them all.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import BinaryIO, cast

from benchmarks.synthetic import Engine
from kvdoctor.commands.urls import make_room
from kvdoctor.readers.pages import pages_of
from kvdoctor.recording import Recording
from kvdoctor.restore import load

MADE = 8
"""Pages of the made-up engine."""


def pages_from(path: str | None) -> list[bytes]:
    """Return the pages to answer with."""
    if path is None:
        engine = Engine()
        return [engine.page() for _ in range(MADE)]
    with gzip.open(path) as file:
        return [page.text for page in pages_of(cast(BinaryIO, file)) if page.wall is not None]


async def _serve(pages: list[bytes], told: Connection) -> None:
    """Answer each path with its next page; any other path of it with 404."""
    heads = [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(p) for p in pages
    ]
    seen: dict[bytes, int] = {}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                path = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1]
                if path.endswith(b"/metrics"):
                    number = seen[path] = seen.get(path, -1) + 1
                    writer.write(heads[number % len(pages)] + pages[number % len(pages)])
                else:
                    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4096)
    told.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def _server(pages: list[bytes], told: Connection, endpoints: int) -> None:
    make_room(endpoints)
    asyncio.run(_serve(pages, told))


def _threads(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Threads:")), 0)


def watch(command: list[str], quiet: bool = False) -> tuple[int, float, float, int]:
    """Run a command; return its exit code, CPU-seconds, peak resident MiB and most threads."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL if quiet else None)
    most = 0
    while True:
        pid, status, used = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, most
        most = max(most, _threads(child.pid))
        time.sleep(0.2)


def told(recording: Recording, interval: float, intervals: int) -> list[str]:
    """Say how often and how late each endpoint was read."""
    number = intervals + 1
    whole = sum(len(source.at) == number for source in recording.sources)
    fewest = min(len(source.at) for source in recording.sources)
    lines = [
        f"{whole} of {len(recording.sources)} endpoints read {number} times, the fewest {fewest} times; "
        f"{sum(len(s.columns) for s in recording.sources)} series"
    ]
    steps = sorted(b - a for s in recording.sources for a, b in zip(s.at, s.at[1:], strict=False))
    if steps:
        lines.append(f"between two readings of one endpoint: {steps[0]:.2f} to {steps[-1]:.2f} s")
    took = sorted(t for source in recording.sources for t in source.took)
    lags = sorted(at % interval for source in recording.sources for at in source.at[:-1])
    if took and lags:
        lines.append(
            f"a reading took {1000 * took[len(took) // 2]:.1f} ms in the middle, {1000 * took[-1]:.0f} ms at most; "
            f"it began up to {lags[-1]:.2f} s after its tick"
        )
    lines.append(
        f"{len(recording.gaps)} gaps" + "".join(f"\n  {g.source}: {g.reason}" for g in recording.gaps[:5])
    )
    return lines


def main() -> None:
    """Serve, record, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--endpoints", type=int, default=1000)
    parser.add_argument("--interval", type=float, default=15.0)
    parser.add_argument("--intervals", type=int, default=4)
    parser.add_argument("--pages", help="a recording's pages, gzip")
    options = parser.parse_args()
    pages = pages_from(options.pages)
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=_server, args=(pages, there, options.endpoints), daemon=True)
    server.start()
    port = here.recv()
    with tempfile.TemporaryDirectory() as folder:
        addresses, saved = Path(folder, "urls"), Path(folder, "many.kvrec")
        lines = "".join(f"http://127.0.0.1:{port}/engine-{n}/metrics\n" for n in range(options.endpoints))
        addresses.write_text(f"# {options.endpoints} endpoints\n{lines}", encoding="utf-8")
        seconds = options.interval * options.intervals
        command = [sys.executable, "-m", "kvdoctor", "record", "--urls", str(addresses), "--save", str(saved)]
        code, cpu, peak, threads = watch(
            [*command, "--seconds", f"{seconds:g}", "--interval", f"{options.interval:g}"]
        )
        size = saved.stat().st_size if saved.exists() else 0
        print(f"exit {code}; {cpu:.1f} CPU-seconds ({cpu / (options.intervals + 1):.1f} a round), {peak:.0f} MiB, "
              f"{threads} threads, {size / 2**20:.1f} MiB saved")  # fmt: skip
        if size:
            print("\n".join(told(load(saved), options.interval, options.intervals)))
    server.terminate()


if __name__ == "__main__":
    main()
