"""Whole-process start-up: `kvdoctor --help` and `kvdoctor roofline` against `python -c "import typer"`, interleaved.

usage: python benchmarks/startup.py [--runs 15]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

KVDOCTOR = str(Path(sys.executable).with_name("kvdoctor"))
COMMANDS = {
    "import typer": [sys.executable, "-c", "import typer"],
    "kvdoctor --help": [KVDOCTOR, "--help"],
    "kvdoctor roofline Llama-3.1-8B --gpu H100": [KVDOCTOR, "roofline", "Llama-3.1-8B", "--gpu", "H100"],
}


def wall(command: list[str]) -> float:
    """Seconds of one run of a command."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(runs):
        for name, command in COMMANDS.items():
            times[name].append(wall(command))
    base = statistics.median(times["import typer"])
    for name, values in times.items():
        middle = statistics.median(values)
        print(f"{name:45} {1000 * middle:7.1f} ms  (min {1000 * min(values):.1f})  x {middle / base:.2f}")


if __name__ == "__main__":
    main()
