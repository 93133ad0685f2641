"""Where a Diagnosis goes: the terminal, files, and the exit code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from kvdoctor.commands import destination
from kvdoctor.commands.destination import STDOUT
from kvdoctor.commands.streams import console
from kvdoctor.errors import KvdoctorError, Misuse
from kvdoctor.model import Bound, Diagnosis, State
from kvdoctor.render import RENDERERS

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

    @property
    def bounds(self) -> tuple[str, ...]:
        """Return the names of --fail-on; Misuse for one that does not exist."""
        if self.fail_on is None:
            return ()
        known = {b.value for b in Bound} | {s.value for s in State if s is not State.BOUND}
        names = tuple(n.strip() for n in self.fail_on.split(",") if n.strip())
        hint = f"one of {', '.join(sorted(known))}"
        if not names:
            raise Misuse("--fail-on names nothing", hint)
        for name in names:
            if name not in known:
                raise Misuse(f"--fail-on does not know {name!r}", hint)
        return names

    def check(self, *, save: str | None = None) -> None:
        """Look at everything that could fail at the end; KvdoctorError for what will."""
        _ = self.bounds
        destination.check(self.files, save)


def print_note(text: str) -> None:
    """Say something beside the report, on standard error."""
    from kvdoctor.render.text import clean

    sys.stderr.write(clean(text) + "\n")
    sys.stderr.flush()


def show(diagnosis: Diagnosis, output: Output, *, made: Mapping[str, str] | None = None) -> int:
    """Write every report asked for, the terminal's unless standard output is taken; return the exit code.

    One that cannot be written does not keep the others back. `made` are texts of formats that are there already.
    """
    failures = []
    for name, where in sorted(output.files, key=lambda file: file[1] == STDOUT):
        text = (made or {}).get(name) or importlib.import_module(RENDERERS[name]).render(diagnosis)
        if where == STDOUT:
            sys.stdout.write(text)
            continue
        try:
            destination.write(text, where)
            print_note(f"{where} written")
        except KvdoctorError as failure:
            failures.append(failure)
    if not any(where == STDOUT for _, where in output.files):
        from kvdoctor.render import terminal

        terminal.render(diagnosis, console())
    sys.stdout.flush()
    if failures:
        raise KvdoctorError("; ".join(failure.message for failure in failures), failures[0].hint)
    found = {diagnosis.primary_name} | {bound.value for bound, _ in diagnosis.contributing}
    return FAILED_ON if found & set(output.bounds) else 0
