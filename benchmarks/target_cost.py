"""What watching costs a loaded engine: its throughput with the tool off, by URL, and by pid with stacks, in turn.

    python -m benchmarks.target_cost http://127.0.0.1:8000 tiny --pid 4242 --rounds 6 --realtime

The load never pauses. A round is one window of each way, in an order that turns from round to round, and every window
with the tool is held against the mean of the two quiet windows around it. CPU seconds are the tool's whole process
(wait4), milliseconds are each source's own readings. Prints JSON lines and a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvdoctor.restore import load as restore

SETTLE_S = 3.0
"""Load runs alone for this long before the first window, and between two windows."""
WAYS = ("url", "stacks")


def command(way: str, options: argparse.Namespace, save: Path) -> list[str]:
    """The tool as its user starts it; a niceness of its own is part of what is measured."""
    where = ["--url", options.url] if way == "url" else ["--pid", str(options.pid)]
    kvdoctor = [sys.executable, "-m", "kvdoctor"]
    return [*kvdoctor, "diagnose", *where, "--seconds", str(options.seconds), "--save", str(save), "--json"]


def watched(way: str, options: argparse.Namespace, save: Path) -> dict[str, Any]:
    """One window with the tool: when it began and ended, its CPU seconds, and its readings in seconds."""
    began = time.monotonic()
    null = subprocess.DEVNULL
    child = subprocess.Popen(command(way, options, save), stdout=null, stderr=null)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    ended = time.monotonic()
    recording = restore(save)
    took = {s.name if s.kind == "host" else "scrape": list(s.took) for s in recording.sources if s.took}
    cpu = usage.ru_utime + usage.ru_stime
    return {"way": way, "span": (began, ended), "exit": child.returncode, "cpu_s": cpu, "took": took}


def quiet(seconds: float) -> dict[str, Any]:
    began = time.monotonic()
    time.sleep(seconds)
    return {"way": "off", "span": (began, time.monotonic())}


def windows(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Quiet, tool, quiet, tool, ..., quiet; each round in the other order."""
    found = [quiet(options.seconds)]
    for number in range(options.rounds):
        for way in WAYS if number % 2 == 0 else WAYS[::-1]:
            time.sleep(SETTLE_S)
            found.append(watched(way, options, folder / f"{number}-{way}.kvrec"))
            time.sleep(SETTLE_S)
            found.append(quiet(options.seconds))
    return found


def rates(found: list[dict[str, Any]], requests: list[dict[str, Any]]) -> None:
    """Add to each window the output tokens and the mean ITL that the clients saw inside it."""
    tokens = [r["start_monotonic"] + t for r in requests for t in r["token_s"]]
    gaps = [
        (r["start_monotonic"] + b, b - a)
        for r in requests
        for a, b in zip(r["token_s"], r["token_s"][1:], strict=False)
    ]
    for window in found:
        begin, end = window["span"]
        window["tokens_per_s"] = sum(begin <= at < end for at in tokens) / (end - begin)
        window["itl_s"] = statistics.fmean(gap for at, gap in gaps if begin <= at < end)


def ratios(found: list[dict[str, Any]], way: str, figure: str) -> list[float]:
    """Each window of `way` over the mean of the quiet windows before and after it."""
    return [
        window[figure] / statistics.fmean((found[n - 1][figure], found[n + 1][figure]))
        for n, window in enumerate(found)
        if window["way"] == way
    ]


def control(found: list[dict[str, Any]], figure: str) -> list[float]:
    """The same for quiet windows against their quiet neighbours: what the machine does by itself."""
    still = [window[figure] for window in found if window["way"] == "off"]
    return [b / statistics.fmean((a, c)) for a, b, c in zip(still, still[1:], still[2:], strict=False)]


def spread(values: Sequence[float], scale: float = 1.0, digits: int = 3) -> str:
    middle, low, high = (scale * f(values) for f in (statistics.median, min, max))
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def table(found: list[dict[str, Any]]) -> list[str]:
    """Markdown: medians with the least and the greatest of all rounds."""
    rows = [
        "| tool | tokens/s against off | mean ITL against off | CPU-seconds |",
        "| --- | --- | --- | --- |",
    ]
    for way in WAYS:
        cpu = [window["cpu_s"] for window in found if window["way"] == way]
        cells = [spread(ratios(found, way, figure)) for figure in ("tokens_per_s", "itl_s")]
        rows.append(f"| {way} | {cells[0]} | {cells[1]} | {spread(cpu, digits=2)} |")
    cells = [spread(control(found, figure)) for figure in ("tokens_per_s", "itl_s")]
    rows.append(f"| off, against off | {cells[0]} | {cells[1]} | |")
    return [*rows, "", "| way, source | readings | ms each |", "| --- | --- | --- |", *_readings(found)]


def _readings(found: list[dict[str, Any]]) -> list[str]:
    each: dict[tuple[str, str], list[float]] = {}
    for window in found:
        for name, took in window.get("took", {}).items():
            each.setdefault((window["way"], name), []).extend(took)
    return [f"| {way}, {name} | {len(took)} | {spread(took, 1e3, 1)} |" for (way, name), took in each.items()]


def load(options: argparse.Namespace, seconds: float, out: Path) -> subprocess.Popen[bytes]:
    """The clients, in a session of their own: they are no part of what the tool's user runs."""
    argv = [sys.executable, "-m", "benchmarks.load", options.url, options.model, "--seconds", str(seconds)]
    argv += ["--concurrency", str(options.concurrency), "--max-tokens", str(options.max_tokens)]
    argv += ["--out", str(out), *(["--realtime"] if options.realtime else [])]
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, start_new_session=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=100)
    parser.add_argument("--realtime", action="store_true", help="clients run before others (root)")
    options = parser.parse_args()
    most = (2 * options.rounds + 1) * 2 * (options.seconds + SETTLE_S + 3)
    with tempfile.TemporaryDirectory() as name:
        out = Path(name, "requests.jsonl")
        clients = load(options, most, out)
        try:
            time.sleep(SETTLE_S)
            found = windows(options, Path(name))
            rates(found, [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()])
        finally:
            clients.terminate()
            clients.wait()
    for window in found:
        print(json.dumps({key: value for key, value in window.items() if key != "took"}))
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
