"""One question to `kvdoctor roofline` and its answer in JSON; the only place that knows how it is asked."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvdoctor import cli
from kvdoctor.errors import KvdoctorError

Json = dict[str, Any]


@dataclass(frozen=True)
class Query:
    """A model and the options of the command line, without their dashes."""

    model: str
    options: Json = field(default_factory=dict)


def config_file(config: Json, folder: Path, name: str) -> str:
    """Write a config where no shipped one fits, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


def scratch() -> Path:
    """A folder for configs of this run."""
    return Path(tempfile.mkdtemp(prefix="known-answers-"))


def arguments(query: Query) -> list[str]:
    """The command line of a query, JSON to standard output."""
    found = ["roofline", query.model]
    for name, value in query.options.items():
        if value is True:
            found.append(f"--{name}")
        elif value is not None and value is not False:
            found += [f"--{name}", str(value)]
    return [*found, "--json", "-"]


def called(words: list[str]) -> str:
    """Call the program in this process, and return what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        cli.app(args=words, standalone_mode=False)
    return out.getvalue()


def spawned(words: list[str]) -> str:
    """Start the program as a process of its own. Raises KvdoctorError with what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "kvdoctor.cli", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise KvdoctorError(done.stderr.strip())
    return done.stdout


def ask(query: Query) -> Json:
    """The answer of the command, asked in this process, or in one of its own where $KVDOCTOR_SPAWN is set.

    Raises KvdoctorError where it refuses.
    """
    run = spawned if os.environ.get("KVDOCTOR_SPAWN") else called
    found = json.loads(run(arguments(query)))
    if not isinstance(found, dict):
        raise KvdoctorError("the answer is no JSON object")
    return found
