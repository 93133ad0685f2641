"""What sampling cards through NVML costs us, with the tests' mock in place of a driver: CPU, and time a reading.

python -m benchmarks.nvml_cost [--cards 8] [--seconds 20] [--interval 1]

The mock answers from a scenario, so a real driver's own time is not in it: what is measured is the binding, our
collectors, the page and its parser, and the mock's look-ups. With `windows` the cards are of before Hopper: each
PCIe window then blocks for 20 ms, two a card and reading.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import pynvml

from kvdoctor.clock import SystemClock
from kvdoctor.collectors.nvml import Nvml
from kvdoctor.collectors.nvml_setting import Setting
from kvdoctor.record import record
from kvdoctor.target.family import Card
from tests.nvml import scenes
from tests.nvml.mock import SCENARIO, Library, bind

OLD = tuple(line for line in scenes.BEFORE_HOPPER if not line.startswith("lib window"))


def measured(cards: int, seconds: float, interval_s: float) -> dict[str, float]:
    """Record the cards; return CPU seconds per second, and the longest and the median reading in seconds."""
    place = Nvml([Card(index) for index in range(cards)], (scenes.PID,), here=Setting())
    place.read()  # loads the binding and finds the cards
    begin, used = time.monotonic(), time.process_time()
    recording = record([place], seconds=seconds, interval_s=interval_s, clock=SystemClock())
    spent = (time.process_time() - used) / (time.monotonic() - begin)
    (source,) = recording.sources
    took = sorted(source.took)
    return {
        "cpu": round(spent, 5),
        "longest_reading_seconds": round(took[-1], 4),
        "median_reading_seconds": round(took[len(took) // 2], 4),
        "readings": len(took),
        "series": len(source.columns),
    }


def main() -> None:
    """Build the mock, measure Hopper and older cards, print one JSON line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cards", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--interval", type=float, default=1.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = Library(Path(folder))
        library.compile()
        scenario = Path(folder) / "scenario"
        os.environ[SCENARIO] = str(scenario)
        for name, scene in (("counters", ()), ("windows", OLD)):
            scenario.write_text("\n".join((*scenes.healthy(asked.cards), *scene)))
            bind(pynvml, library.fresh())
            found = measured(asked.cards, asked.seconds, asked.interval)
            print(json.dumps({"case": name, "cards": asked.cards, **found}))


if __name__ == "__main__":
    main()
