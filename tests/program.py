"""Runs the real program as a process of its own, as a user would, with a state folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

LIMIT = 60.0
"""Seconds after which a run has failed; the machine may be busy."""
PROGRAM = (sys.executable, "-m", "kvdoctor.cli")

SMALL_DISK = """import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True)
class Ran:
    """How a run ended."""

    code: int
    out: str
    err: str


class Program:
    """The program with its own home; `folder` is where relative names lead."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        root = str(Path(__file__).resolve().parents[1])
        self.environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(folder / "home"),
            "XDG_STATE_HOME": str(folder / "state"),
            "PYTHONPATH": root,
            "LANG": "C.UTF-8",
            **environment,
        }

    def start(self, *words: str, largest: int | None = None, **options: object) -> subprocess.Popen[bytes]:
        """Start it and return at once. No file of it grows past `largest` bytes, as on a full disk."""
        command = PROGRAM if largest is None else (sys.executable, "-c", SMALL_DISK, str(largest), *PROGRAM)
        # Python itself would keep cut byte code of a module that it compiles then, and stumble over it ever after.
        cache = {} if largest is None else {"PYTHONDONTWRITEBYTECODE": "1"}
        settings: dict[str, object] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "env": {**self.environment, **cache},
            "cwd": self.folder,
        }
        return subprocess.Popen([*command, *words], **{**settings, **options})  # type: ignore[call-overload,no-any-return]

    def end(self, process: subprocess.Popen[bytes], given: bytes | None = None) -> Ran:
        """Wait for a started one; it is killed where it takes too long. No run may show a traceback."""
        try:
            out, err = process.communicate(given, timeout=LIMIT)
        finally:
            process.kill()
        ran = Ran(process.returncode, (out or b"").decode(), (err or b"").decode())
        if "Traceback" in ran.err:
            raise AssertionError(ran.err)
        return ran

    def run(
        self, *words: str, given: bytes | None = None, largest: int | None = None, **options: object
    ) -> Ran:
        """Run it to its end; `given` is its standard input."""
        if given is not None:
            options["stdin"] = subprocess.PIPE
        return self.end(self.start(*words, largest=largest, **options), given)

    @property
    def saved(self) -> Sequence[Path]:
        """Everything in the state folder."""
        folder = self.folder / "state" / "kvdoctor"
        return sorted(folder.iterdir()) if folder.is_dir() else []


def together(jobs: Mapping[str, Callable[[], Ran]]) -> dict[str, Ran]:
    """Do several runs side by side: most of their time is waiting."""
    with ThreadPoolExecutor(4) as pool:
        ran = {name: pool.submit(job) for name, job in jobs.items()}
    return {name: future.result() for name, future in ran.items()}
