"""Where a report may be written: looked at before anything is recorded, so that no answer is lost at the end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kvdoctor.commands.streams import CLOSED, is_closed
from kvdoctor.errors import KvdoctorError, Misuse

STDOUT = "-"
BEGINS = {"html": b"<!DOCTYPE html>", "json": b'{\n  "schema_version"', "markdown": b"## kvdoctor"}
"""How an earlier report of ours begins: it may be written over, and nothing else may."""


def check(places: Sequence[tuple[str, str]], save: str | None) -> None:
    """Take (format, destination) of every report and the recording's file; KvdoctorError for what cannot be."""
    if sum(1 for _, where in places if where == STDOUT) > 1:
        raise Misuse("only one report can go to standard output", "name a file for the others")
    files = [(name, where) for name, where in places if where != STDOUT]
    taken = {os.path.realpath(save)} if save else set()
    for name, where in files:
        if not where:
            raise Misuse(f"--{name} names no file", f"--{name} FILE")
        if os.path.realpath(where) in taken and not _is_device(where):
            raise Misuse(f"{where} is named for two things", "give each a file of its own")
        taken.add(os.path.realpath(where))
        _check_file(name, where)


def _is_device(where: str) -> bool:
    return os.path.exists(where) and not os.path.isfile(where)


def _check_file(name: str, where: str) -> None:
    path = Path(where)
    if is_closed(where):
        raise KvdoctorError(f"{where} cannot be written: {CLOSED}", f"name a file: --{name} FILE")
    if path.is_dir():
        raise KvdoctorError(f"{where} is a folder", f"name a file in it: --{name} FILE")
    if not path.exists() and not os.access(path.parent, os.W_OK | os.X_OK):
        raise KvdoctorError(
            f"{where} cannot be written: no such folder, or not ours to write in", "choose another folder"
        )
    if path.is_file() and not _is_report(name, path):
        raise KvdoctorError(
            f"{where} exists and is no {name} report of kvdoctor; nothing else is written over",
            f"choose another name, or put FILE before --{name}",
        )


def _is_report(name: str, path: Path) -> bool:
    """Say whether a file is an earlier report, or empty: `--json FILE` takes the next word as its file."""
    try:
        with path.open("rb") as file:
            start = file.read(len(BEGINS[name]))
    except OSError:
        return True  # writing will say why it cannot be
    return start.lower() in (b"", BEGINS[name].lower())


def write(text: str, where: str) -> None:
    """Write a report; KvdoctorError when it cannot be, and then no half of a new file is left."""
    path = Path(where)
    new = not path.exists()
    try:
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        if new:
            path.unlink(missing_ok=True)
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        hint = "name a file in a folder that exists and has room; kvdoctor report RECORDING makes it again"
        raise KvdoctorError(f"{where} cannot be written: {reason}", hint) from None
