"""Serve each recorded run as a live endpoint, diagnose it live, and hold the answer against what is known.

usage: python benchmarks/recordings.py FOLDER REPLAY_TOOL [--seconds 20]

FOLDER holds `*.prom.gz` series of scrapes; REPLAY_TOOL is a script `FILE --port N` that serves one at its own pace.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Known = tuple[set[str], set[str | None]]
KNOWN: dict[str, Known] = {
    "healthy": ({"healthy"}, {None}),
    "salted-prefix": ({"compute", "hit_rate"}, {"prefill", "prefix_mismatch"}),
    "kv-too-small": ({"capacity"}, {"preemption"}),
    "overload": ({"queueing"}, {"admission_limit"}),
    "pd-slow-network": ({"idle"}, {None}),
}
WHOLE: dict[str, Known] = {"pd-slow-network": ({"network"}, {"used_badly", "handover"})}


def free_port() -> int:
    """Ask the system for a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def diagnose(*words: str) -> dict[str, Any]:
    """Run the command and return its JSON."""
    command = [sys.executable, "-m", "kvdoctor.cli", "diagnose", *words, "--json", "-"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def live(path: Path, tool: str, seconds: int) -> dict[str, Any]:
    """Diagnose a recording while it is served."""
    port = free_port()
    server = subprocess.Popen([sys.executable, tool, str(path), "--port", str(port)])
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        return diagnose("--url", f"http://127.0.0.1:{port}", "--seconds", str(seconds))
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("tool")
    parser.add_argument("--seconds", type=int, default=20)
    asked = parser.parse_args()
    for path in sorted(asked.folder.glob("*.prom.gz")):
        name = path.name.removesuffix(".prom.gz").split("cpu-")[-1]
        runs: list[tuple[str, dict[str, Known], Callable[[Path], dict[str, Any]]]] = [
            ("live", KNOWN, lambda p: live(p, asked.tool, asked.seconds)),
            ("file", WHOLE, lambda p: diagnose(str(p))),
        ]
        for way, known, ask in runs:
            if name not in known:
                continue
            answer = ask(path)
            primaries, subclasses = known[name]
            right = answer["primary"] in primaries and answer["subclass"] in subclasses
            found = f"{answer['primary']} / {answer['subclass']}, {answer['confidence']}"
            print(f"{'right' if right else 'WRONG'}  {way}  {name:18} {found}")


if __name__ == "__main__":
    main()
