"""Feed a reader with broken input for as long as asked, and print what broke it.

usage: python -m benchmarks.fuzz READER [--seconds 60] [--engine hypothesis|atheris] [--start FOLDER]... [--keep FOLDER]

READER is one of exposition, recording, json, log, prometheus, rows, config, argv, http. What an input may do: be read,
or be refused in a sentence. What it may not: end in a traceback, take more than 4 CPU-seconds or 1 GiB, or put a
control character into a report. atheris follows the coverage of the package's code and has to be installed by hand;
hypothesis puts a few wrong things into real texts.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fuzz_watch import Watch, guard


def feed_for(reader: str, keep: Path | None) -> Watch:
    """Return a watch on one reader."""
    from benchmarks.fuzz_feed import FEEDS

    return Watch(FEEDS[reader], keep)


def by_hypothesis(watch: Watch, seeds: Sequence[bytes], seconds: float, *, examples: int = 100) -> None:
    """Feed made inputs until the time is up."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    from benchmarks.fuzz_make import near

    end = time.monotonic() + seconds
    for number in itertools.count(int.from_bytes(os.urandom(4), "big")):
        if time.monotonic() >= end:
            return

        @seed(number)
        @settings(
            max_examples=examples, deadline=None, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(near(seeds))
        def round_(data: bytes) -> None:
            if time.monotonic() < end:
                watch(data)

        round_()


def by_atheris(
    watch: Watch, seeds: Sequence[bytes], seconds: float, folder: Path, *, reader: str
) -> None:  # pragma: no cover - needs atheris
    """Let libFuzzer choose inputs by what they reach; leaves the process when the time is up."""
    atheris = importlib.import_module("atheris")
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds):
        (folder / f"seed-{number}").write_bytes(data)
    end = time.monotonic() + seconds

    def one(data: bytes) -> None:
        watch(data)
        if time.monotonic() >= end:
            summary(reader, "atheris", watch, seconds, len(seeds))
            sys.stdout.flush()
            os._exit(bool(watch.faults))

    words = ["fuzz", str(folder), "-timeout=3600", "-rss_limit_mb=0", "-max_len=65536", "-verbosity=0"]
    atheris.Setup(words, one)
    atheris.Fuzz()


def summary(reader: str, engine: str, watch: Watch, seconds: float, seeds: int) -> None:
    """Print a line for the table, and each fault."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cells = (
        reader, engine, f"{seconds:.0f} s", f"{seeds} seeds", f"{watch.runs} inputs", f"{watch.runs / seconds:.0f}/s",
        f"{watch.refused} refused", f"slowest {watch.longest:.2f} CPU-s", f"peak {peak:.0f} MiB",
        f"{len(watch.faults)} faults",
    )  # fmt: skip
    print(" | ".join(cells))
    for fault in watch.faults.values():
        print(f"  {fault.key}, {fault.times} times: {fault.data[:200]!r}")


def main() -> None:
    """Run one reader."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("reader")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--engine", choices=("hypothesis", "atheris"), default="hypothesis")
    parser.add_argument("--start", type=Path, action="append", default=[], help="folder with real texts")
    parser.add_argument("--keep", type=Path, help="folder for inputs that broke something")
    options = parser.parse_args()
    if options.engine == "atheris":
        atheris = importlib.import_module("atheris")
        with atheris.instrument_imports(include=["kvdoctor"]):
            importlib.import_module("benchmarks.fuzz_feed")
    from benchmarks.fuzz_feed import FEEDS, corpus, warm

    if options.reader not in FEEDS:
        parser.error(f"READER is one of {', '.join(FEEDS)}")
    seeds = list(corpus(options.reader, options.start))
    warm()
    guard()
    watch = feed_for(options.reader, options.keep)
    for data in seeds:
        watch(data)
    if options.engine == "atheris":
        folder = (options.keep or Path(tempfile.gettempdir())) / f"{options.reader}-atheris"
        by_atheris(watch, seeds, options.seconds, folder, reader=options.reader)
    by_hypothesis(watch, seeds, options.seconds)
    summary(options.reader, options.engine, watch, options.seconds, len(seeds))
    sys.exit(bool(watch.faults))


if __name__ == "__main__":
    main()
