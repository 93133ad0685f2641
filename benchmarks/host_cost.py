"""What reading a host costs us: CPU of the collectors over a family of four processes, without and with stacks.

python -m benchmarks.host_cost [--seconds 15] [--threads 40]

Starts a family of its own: four Python processes with that many idle threads each, of which one a process works a
tenth of the time. Nothing else on the machine is touched.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

from kvdoctor.clock import SystemClock
from kvdoctor.collectors.host import host_places
from kvdoctor.record import record
from kvdoctor.target.family import Cgroup, Family, Member

MEMBERS = 4
ROLES = ("api_server", "engine_core", "worker", "worker")
MEMBER = """
import sys, threading, time
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    stop = time.monotonic() + 0.01
    while time.monotonic() < stop:
        pass
    time.sleep(0.09)
"""


def _member(pid: int, role: str) -> Member:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return Member(pid, int(fields[1]), os.getuid(), role, int(fields[19]), role, pid)


def _cgroups(pid: int) -> tuple[Cgroup, ...]:
    """Take the unified hierarchy as most hosts mount it."""
    with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
        path = next((line[3:].strip() for line in file if line.startswith("0::")), "/")
    found = [
        root
        for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
        if os.path.exists(f"{root}/cgroup.procs")
    ]
    return (Cgroup((), path, found[0] + path.rstrip("/")),) if found else ()


def measured(family: Family, seconds: float, *, stacks: bool) -> dict[str, float | dict[str, float]]:
    """Record the family and return CPU seconds per second, and each place's longest reading in seconds."""
    begin = time.monotonic()
    recording = record(
        host_places(family, stacks=stacks), seconds=seconds, interval_s=1.0, clock=SystemClock()
    )
    spent = time.monotonic() - begin
    return {
        "cpu_share": recording.cost.cpu_seconds / spent,
        "readings": float(max(len(source.at) for source in recording.sources)),
        "longest_s": {source.name: max(source.took, default=0.0) for source in recording.sources},
    }


def main() -> None:
    """Measure three times without and with stacks, in turn, and print one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--threads", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    life = 2 * options.rounds * (options.seconds + 5) + 10
    argv = [sys.executable, "-c", MEMBER, str(options.threads), str(life)]
    family_processes = [subprocess.Popen(argv) for _ in range(MEMBERS)]
    try:
        time.sleep(1.0)
        members = tuple(_member(p.pid, role) for p, role in zip(family_processes, ROLES, strict=True))
        family = Family("benchmark", members[0].pid, members, cgroups=_cgroups(members[0].pid))
        rounds = [
            {"stacks": stacks, **measured(family, options.seconds, stacks=stacks)}
            for _ in range(options.rounds)
            for stacks in (False, True)
        ]
    finally:
        for each in family_processes:
            each.terminate()
            each.wait()
    print(json.dumps({"members": MEMBERS, "threads_each": options.threads, "rounds": rounds}, indent=1))


if __name__ == "__main__":
    main()
