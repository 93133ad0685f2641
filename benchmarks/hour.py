"""One hour at 1 Hz of a 600-series endpoint: how long it takes to open and to judge, and in how much memory.

usage: python -m benchmarks.hour [--seconds 3600]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

from benchmarks.synthetic import SERIES, Engine
from kvdoctor import __version__
from kvdoctor.export import export_text
from kvdoctor.exposition import Parser
from kvdoctor.frames import VERSION
from kvdoctor.recording import Recording, Source, add_reading
from kvdoctor.restore import load
from kvdoctor.store import Writer

OPEN = """
import importlib.util, sys, time
started = time.perf_counter(), time.process_time()
def lap(what):
    global started
    now = time.perf_counter(), time.process_time()
    peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(f"  {what}: {now[0] - started[0]:.2f} s ({now[1] - started[1]:.2f} s CPU), "
          f"peak {int(peak) / 1024:.0f} MiB resident")
    started = time.perf_counter(), time.process_time()
from kvdoctor.readers import read
lap("imported")
recording = read(sys.argv[1:])
lap("read")
if importlib.util.find_spec("kvdoctor.diagnose"):
    from kvdoctor.diagnose import diagnose
    diagnose(recording)
    lap("diagnosed")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=int, default=3600)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        path, text = os.path.join(folder, "hour.kvrec"), os.path.join(folder, "hour.txt")
        changes, spent = _record(path, seconds)
        samples = seconds * SERIES
        print(f"{seconds} readings of {SERIES} series, {changes / samples:.0%} changed each time")
        print(f"parsed and saved: {1000 * spent / seconds:.2f} ms CPU a reading")
        with open(text, "w", encoding="utf-8") as file:
            file.writelines(export_text(load(path)))
        for name in (path, text):
            print(f"{os.path.basename(name)}: {os.path.getsize(name) / 1e6:.1f} MB")
            sys.stdout.flush()
            subprocess.run([sys.executable, "-c", OPEN, name], check=True)


def _record(path: str, seconds: int) -> tuple[int, float]:
    """Write the recording; return how many values changed and the CPU seconds that parsing and saving took."""
    engine, source = Engine(), Source("http://synthetic:8000/metrics", "prometheus", 1.0e9)
    recording = Recording(VERSION, __version__, 1.0e9, [source])
    writer, parser, changes, spent = Writer.create(path), Parser(source.columns), 0, 0.0
    writer.begin(recording)
    for second in range(seconds):
        page = engine.page()
        begin = time.process_time()
        change = parser.read(page)
        add_reading(source, at=float(second), took=0.01, size=len(page), ids=change.ids, values=change.values)
        writer.reading(0, source, (change.ids, change.values))
        spent += time.process_time() - begin
        changes += len(change.ids)
    writer.end(recording)
    return changes, spent


if __name__ == "__main__":
    main()
