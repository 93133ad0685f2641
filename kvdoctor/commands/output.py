"""Where a Diagnosis goes: the terminal, files, and the exit code."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path

from kvdoctor.errors import KvdoctorError
from kvdoctor.model import Bound, Diagnosis, State

FAILED_ON = 3
"""Exit code when --fail-on matches."""


@dataclass(frozen=True, slots=True)
class Output:
    """What the user asked for. `-` is standard output."""

    html: str | None = None
    json: str | None = None
    markdown: str | None = None
    fail_on: str | None = None

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """Return (format, destination) of each format asked for."""
        pairs = (("html", self.html), ("json", self.json), ("markdown", self.markdown))
        return tuple((name, where) for name, where in pairs if where is not None)

    def check(self) -> tuple[str, ...]:
        """Return the names of --fail-on; KvdoctorError for a name that does not exist or two texts on one stream."""
        known = {b.value for b in Bound} | {s.value for s in State if s is not State.BOUND}
        names = tuple(n.strip() for n in (self.fail_on or "").split(",") if n.strip())
        for name in names:
            if name not in known:
                raise KvdoctorError(f"--fail-on does not know {name!r}", f"one of {', '.join(sorted(known))}")
        if sum(1 for _, where in self.files if where == "-") > 1:
            raise KvdoctorError("only one report can go to standard output", "name a file for the others")
        for _, where in self.files:
            _refuse_recording(where)
        return names


def _refuse_recording(where: str) -> None:
    """Never write a report over a recording: `--json FILE` takes the next word as its file."""
    from kvdoctor.frames import MAGIC

    if where == "-" or not Path(where).is_file():
        return
    try:
        with open(where, "rb") as file:
            start = file.read(max(len(MAGIC), 2))
    except OSError:
        return
    if start.startswith((MAGIC, b"\x1f\x8b")):
        raise KvdoctorError(
            f"{where} is a recording, not a report", "put FILE before --json, or write --json -"
        )


def _write(text: str, where: str) -> None:
    if where == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        Path(where).write_text(text, encoding="utf-8")
    except OSError as error:
        hint = "name a file in a folder that exists and has room"
        raise KvdoctorError(f"{where} cannot be written: {error.strerror or error}", hint) from None
    print_note(f"{where} written")


def print_note(text: str) -> None:
    """Say something beside the report, on standard error."""
    from kvdoctor.render.text import clean

    sys.stderr.write(clean(text) + "\n")
    sys.stderr.flush()


def show(diagnosis: Diagnosis, output: Output) -> int:
    """Write every report asked for, the terminal's unless standard output is taken; return the exit code."""
    names = output.check()
    from kvdoctor.render import RENDERERS

    for name, where in sorted(output.files, key=lambda file: file[1] == "-"):
        _write(importlib.import_module(RENDERERS[name]).render(diagnosis), where)
    if not any(where == "-" for _, where in output.files):
        from rich.console import Console

        from kvdoctor.render import terminal

        terminal.render(diagnosis, Console(highlight=False, markup=False, emoji=False))
        sys.stdout.flush()
    found = {diagnosis.primary_name} | {bound.value for bound, _ in diagnosis.contributing}
    return FAILED_ON if found & set(names) else 0
