"""The command for many replicas: what a Prometheus server, or recordings, hold of each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer

from kvdoctor.errors import KvdoctorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvdoctor.engines.engine import Engine
    from kvdoctor.fleet import Fleet, Replica
    from kvdoctor.model import Evidence
    from kvdoctor.quantity import Quantity
    from kvdoctor.recording import Recording

Server = Annotated[str | None, typer.Option(metavar="URL", help="a server that speaks Prometheus' API")]
Since = Annotated[str, typer.Option(help="how far back: 15m, 1h, 2d")]
Match = Annotated[
    list[str] | None, typer.Option(metavar="SELECTOR", help="which series, as 'namespace=\"prod\"'")
]
Key = Annotated[str | None, typer.Option(help="bearer token for URL; better in KVDOCTOR_API_KEY")]


def fleet(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="recordings, in place of a server")
    ] = None,
    prometheus: Server = None,
    since: Since = "1h",
    match: Match = None,
    api_key: Key = None,
    save: Annotated[str | None, typer.Option(metavar="FILE", help="where to save the recording")] = None,
) -> None:
    """Judge every replica of a service, one row each, and say whether the router loads them alike.

    \b
    kvdoctor fleet --prometheus http://prometheus:9090 --since 1h
    kvdoctor fleet --prometheus http://prometheus:9090 --match 'namespace="prod"'
    kvdoctor fleet replica-a.kvrec replica-b.kvrec
    """
    from kvdoctor.fleet import fleet as judge
    from kvdoctor.store import save as save_recording

    if bool(files) == bool(prometheus):
        raise typer.BadParameter("give FILEs or --prometheus URL, one of both")
    recording = _files(files) if files else read_server(str(prometheus), since, match or (), api_key)
    if save is not None:
        save_recording(recording, save)
    found = judge(recording)
    if not found.replicas:
        raise KvdoctorError("no engine that is known here is among the replicas", "check --match")
    typer.echo(table(found))


MEANS = frozenset(
    ("prefill", "decode", "e2e", "prompt_length", "output_length", "request_computed", "request_preemptions",
     "kv_lookup")
)  # fmt: skip
"""Histograms of which only the mean is used."""


def _names(engine: Engine, quantity: Quantity) -> set[str]:
    """Return the raw names of a quantity, those under other prefixes too."""
    own = {select.name for terms in engine.signals.get(quantity, ()) for select in terms}
    moved = {
        there + name[len(here) :] for name in own for there, here in engine.renames if name.startswith(here)
    }
    return own | moved


def read_server(url: str, since: str, match: Sequence[str], api_key: str | None) -> Recording:
    """Read the vocabulary's names from a server. The token goes to this URL and to no other."""
    from kvdoctor.engines import ENGINES, LAYERS
    from kvdoctor.readers.prometheus_api import read_api, seconds_of
    from kvdoctor.secrets import key_of

    engines: tuple[Engine, ...] = (*ENGINES, *LAYERS)
    wanted = {name for engine in engines for quantity in engine.signals for name in _names(engine, quantity)}
    plain = {
        name for engine in engines for q in engine.signals if q.name in MEANS for name in _names(engine, q)
    }
    token = key_of(api_key)
    return read_api(url, since=seconds_of(since), matches=match, wanted=wanted, unbucketed=plain, token=token)


def _files(files: list[str]) -> Recording:
    from kvdoctor.readers import read

    return read(files)


def table(found: Fleet) -> str:
    """Lay the replicas out as lines of text."""
    from kvdoctor.render.text import clean
    from kvdoctor.units import duration, percent

    def cells(row: Replica) -> tuple[str, ...]:
        return (
            clean(row.name),
            row.verdict,
            row.confidence,
            "-" if row.ttft is None else duration(row.ttft),
            "-" if row.itl is None else duration(row.itl),
            "-" if row.hit_rate is None else percent(row.hit_rate),
            "-" if row.waiting is None else f"{row.waiting:.1f}",
            "-" if row.requests_per_second is None else f"{row.requests_per_second:.2f}",
        )

    head = ("replica", "verdict", "confidence", "TTFT", "ITL", "hits", "waiting", "req/s")
    rows = [head, *map(cells, found.replicas)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    lines += ["", clean(found.sentence)]
    lines += [f"  {e.name}: {_figure(e)}" for e in found.skew]
    return "\n".join(lines)


def _figure(evidence: Evidence) -> str:
    from kvdoctor.units import quantity

    value = evidence.value
    return "they have none" if value is None or math.isinf(value) else quantity(value, evidence.unit)
