"""Many replicas for an hour from a real Prometheus: how long they take to look up, read and judge.

usage: python -m benchmarks.replicas_tsdb PAGES.prom.gz [--replicas 64] [--minutes 60] [--folder .]

The series are those of a recording, its pages repeated in time as a replica that stays under that load would show
them: gauges as they were, counters going on from where they stood. `promtool` makes blocks of them, and `prometheus`
serves them on the loopback. Both come from Debian's package; the folder takes about 1 GB for the time.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.replicas import STEP, columns
from kvdoctor.commands.fleet import read_server
from kvdoctor.fleet import fleet
from kvdoctor.recording import Column

PORT = 39490
WAIT_S = 60.0


def _labels(column: Column, replica: int) -> str:
    told = {**dict(column.labels), "instance": f"engine-{replica}:8000", "job": "vllm"}
    inside = ",".join(
        '{}="{}"'.format(name, value.replace("\\", r"\\").replace('"', r"\"")) for name, value in told.items()
    )
    return f"{column.name}{{{inside}}}"


def lines(path: str, replicas: int, minutes: int, end: int) -> Iterator[str]:
    """Yield OpenMetrics lines, series by series: counters rise by what they rose in the recording each minute."""
    found, first, last = columns(path)
    number = minutes * 60 // STEP
    times = [end - STEP * (number - n) for n in range(number)]
    for i, column in enumerate(found):
        begin, rise = first.get(i, 0.0), last.get(i, 0.0) - first.get(i, 0.0)
        counts = column.type in ("counter", "histogram") or column.name.endswith("_total")
        values = [
            f" {begin + rise * n / 4 if counts else begin + rise * (n % 4) / 4:.6g} {t}\n"
            for n, t in enumerate(times)
        ]
        for replica in range(replicas):
            name = _labels(column, replica)
            yield "".join(name + value for value in values)
    yield "# EOF\n"


def served(folder: str, port: int) -> subprocess.Popen[bytes]:
    """Start prometheus on the blocks and wait until it answers."""
    settings = Path(folder) / "prometheus.yml"
    settings.write_text("scrape_configs: []\n")
    process = subprocess.Popen(
        ["prometheus", f"--config.file={settings}", f"--storage.tsdb.path={folder}/data",
         f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    )  # fmt: skip
    stop = time.monotonic() + WAIT_S
    while time.monotonic() < stop:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5):
                return process
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    process.kill()
    raise SystemExit("prometheus did not start")


def main() -> None:
    """Print how long looking up, reading and judging take."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("pages")
    parser.add_argument("--replicas", type=int, default=64)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--folder", default=".")
    options = parser.parse_args()
    end = int(time.time()) // STEP * STEP
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        text = Path(folder) / "pages.om"
        with text.open("w") as file:
            file.writelines(lines(options.pages, options.replicas, options.minutes, end))
        blocks = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), f"{folder}/data"]
        subprocess.run(blocks, check=True, stdout=subprocess.DEVNULL)
        text.unlink()
        process = served(folder, PORT)
        try:
            begin = time.perf_counter()
            recording = read_server(f"http://127.0.0.1:{PORT}", f"{options.minutes + 2}m", [], None)
            read = time.perf_counter() - begin
            found = fleet(recording)
            whole = time.perf_counter() - begin
        finally:
            process.terminate()
            process.wait()
    series = sum(len(source.columns) for source in recording.sources)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{len(found.replicas)} replicas, {series} series; {recording.cost.bytes / 1e6:.0f} MB of answers")
    print(
        f"looked up and read in {read:.1f} s, judged in {whole - read:.1f} s, {whole:.1f} s together; {peak:.0f} MiB"
    )
    print(
        ", ".join(
            f"{times} x {verdict}" for verdict, times in Counter(r.verdict for r in found.replicas).items()
        )
    )


if __name__ == "__main__":
    main()
