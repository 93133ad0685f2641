"""The commands that only observe or convert: record, export."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kvdoctor.commands.judging import ApiKey, Interval, Save, Seconds, Url


def _print_script(wanted: bool) -> None:
    """Print the recorder that needs nothing but Python, and end."""
    if wanted:
        import kvdoctor.standalone

        sys.stdout.write(Path(kvdoctor.standalone.__file__).read_text(encoding="utf-8"))
        raise typer.Exit


def record(
    url: Url = None,
    urls: Annotated[
        str | None, typer.Option(metavar="FILE", help="metrics endpoints, one a line; - is stdin")
    ] = None,
    seconds: Seconds = 60.0,
    interval: Interval = 1.0,
    save: Save = None,
    api_key: ApiKey = None,
    print_script: Annotated[
        bool,
        typer.Option(
            "--print-script",
            callback=_print_script,
            is_eager=True,
            help="print a recorder that runs in a pod without an install",
        ),
    ] = False,
) -> None:
    """Record endpoints and judge nothing; `kvdoctor report` reads the file.

    \b
    kvdoctor record --url http://host:8000 --seconds 600 --save before.kvrec
    kvdoctor record --urls replicas.txt --interval 15 --seconds 3600
    kvdoctor record --print-script | kubectl exec -i POD -- python3 - --url http://127.0.0.1:8000 --out /tmp/kv
    """
    from kvdoctor.commands.length import check_length
    from kvdoctor.commands.live import record_live
    from kvdoctor.commands.urls import make_room, urls_of

    check_length(seconds, interval)
    places = urls_of(url or (), urls)
    if not places:
        raise typer.BadParameter("give --url URL, or --urls FILE")
    make_room(len(places))
    record_live(
        places, seconds=seconds, interval_s=interval, facts={}, save=save, api_key=api_key, must_save=True
    )


def export(
    file: Annotated[str, typer.Argument(help="a recording")],
) -> None:
    """Print a recording as plain text: every reading in the Prometheus text format.

    As it was read; on a terminal without what would steer it.

    \b
    kvdoctor export recording.kvrec > recording.prom
    """
    from kvdoctor.commands.streams import reader_gone
    from kvdoctor.export import export_text
    from kvdoctor.readers import read
    from kvdoctor.secrets import clean

    shown = sys.stdout.isatty()
    for piece in export_text(read([file])):
        sys.stdout.write(clean(piece) if shown else piece)
        if reader_gone():
            return
