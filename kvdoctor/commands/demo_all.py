"""Every fault of the lab in turn, each in a process of its own, and a table of what was answered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from kvdoctor.commands.output import print_note


def every(seconds: float, seed: int | None) -> bool:
    """Run all faults; says whether each was named. A fault that cannot be made here is said and left out."""
    from kvdoctor.lab.faults import FAULTS
    from kvdoctor.lab.quota import available

    right = True
    for number, fault in enumerate(FAULTS):
        if fault.name == "cpu-throttled" and not available():
            sys.stdout.write(f"{fault.name:14} left out: no CPU quota can be set here\n")
            continue
        print_note(f"{fault.name} ({number + 1} of {len(FAULTS)})")
        contract = run(fault.name, seconds, seed)
        told = contract["truth"]
        right = right and told["named"]
        sys.stdout.write(line(fault.name, (fault.primary, fault.subclass), contract) + "\n")
        sys.stdout.flush()
    return right


def run(names: str, seconds: float, seed: int | None, *, save: Path | None = None) -> dict[str, Any]:
    """One demo as JSON, its recording kept in the folder `save`. Raises KvdoctorError where it fails."""
    from kvdoctor.errors import KvdoctorError
    from kvdoctor.lab.parent import followed

    argv = [
        sys.executable,
        "-m",
        "kvdoctor.cli",
        "demo",
        "--fault",
        names,
        "--seconds",
        f"{seconds:g}",
        "--json",
    ]
    argv += ["--seed", str(seed)] if seed is not None else []
    argv += ["--save", str(save / f"{names}-{seed}.kvrec")] if save is not None else []
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=followed(os.environ))
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise KvdoctorError(f"the run of {names} failed: {said[-2:]}", f"kvdoctor demo --fault {names}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def line(name: str, answer: tuple[str, str | None], contract: dict[str, Any]) -> str:
    """A row of the table: fault, right answer, given answer."""
    given = _joined(contract["primary"], contract["subclass"])
    mark = "named" if contract["truth"]["named"] else "NOT NAMED"
    return f"{name:14} {_joined(*answer):34} {given:34} {mark}"


def _joined(primary: str, subclass: str | None) -> str:
    return f"{primary} / {subclass}" if subclass else primary
