"""A recording as plain text: one metrics page a reading, behind a line with its time."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import asdict

from kvdoctor.recording import Column, Recording, Source
from kvdoctor.store import changes_of
from kvdoctor.textline import family_of

_PLAIN = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
MARK = b"#@ "
"""`#@ <unix seconds> <milliseconds the reading took>`: a page begins."""
FAILED = b"#! "
"""A reading that failed, and why."""
NOTE = b"#= "
"""What a metrics page has no place for, as JSON: `recording`, `source`, `gaps`."""


def export_text(recording: Recording) -> Iterator[str]:
    """Yield the text, a piece a reading. What readers and Prometheus know as comments carries the rest."""
    about = {"kvdoctor": recording.kvdoctor, "wall": recording.wall, "facts": recording.facts}
    about |= {"complete": recording.complete, "cost": asdict(recording.cost)}
    notes = [_note("recording", about), _note("gaps", [asdict(gap) for gap in recording.gaps])]
    for source in recording.sources:
        entry = {"name": source.name, "kind": source.kind, "wall": source.wall, "role": source.role}
        notes.append(_note("source", {**entry, "texts": source.texts}))
        for page in _pages(source):
            mark, _, body = page.partition("\n")
            yield "\n".join([mark, *notes, body])
            notes = []
    if notes:
        yield "".join(f"{note}\n" for note in notes)


def _pages(source: Source) -> Iterator[str]:
    values: dict[int, float] = {}
    families = [family_of(column.name, column.type) for column in source.columns]
    heads = [_head(column) for column in source.columns]
    order = _by_family(families)
    for reading, (ids, new) in enumerate(changes_of(source)):
        values.update(zip(ids, new, strict=True))
        lines = [f"#@ {source.wall + source.at[reading]:.6f} {1000 * source.took[reading]:.3f}"]
        family = None
        for number in (n for n in order if n in values):
            kind = source.columns[number].type
            if kind and families[number] != family:
                lines.append(f"# TYPE {families[number]} {kind}")
            family = families[number]
            lines.append(f"{heads[number]} {_value(values[number])}")
        yield "\n".join([*lines, ""])


def _by_family(families: list[str]) -> list[int]:
    """Return the columns so that a family stands together, as the format asks."""
    place: dict[str, int] = {}
    for family in families:
        place.setdefault(family, len(place))
    return sorted(range(len(families)), key=lambda number: place[families[number]])


def _note(key: str, value: object) -> str:
    return f"{NOTE.decode()}{json.dumps({key: value}, separators=(',', ':'))}"


def _head(column: Column) -> str:
    labels = [f'{_quoted(key)}="{_escape(value)}"' for key, value in column.labels]
    if not _PLAIN.match(column.name):
        return "{" + ",".join([f'"{_escape(column.name)}"', *labels]) + "}"
    return f"{column.name}{{{','.join(labels)}}}" if labels else column.name


def _quoted(key: str) -> str:
    return key if _PLAIN.match(key) and ":" not in key else f'"{_escape(key)}"'


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _value(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(value)
