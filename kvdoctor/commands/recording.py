"""The commands that only observe or convert: record, export."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kvdoctor.commands.judging import ApiKey, Interval, Save, Seconds


def record(
    url: Annotated[list[str], typer.Option(help="metrics endpoint, may be given several times")],
    seconds: Seconds = 60.0,
    interval: Interval = 1.0,
    save: Save = None,
    api_key: ApiKey = None,
) -> None:
    """Record endpoints and judge nothing; `kvdoctor report` reads the file.

    \b
    kvdoctor record --url http://host:8000 --seconds 600 --save before.kvd
    """
    from kvdoctor.commands.length import check_length
    from kvdoctor.commands.live import record_live

    check_length(seconds, interval)
    record_live(
        url, seconds=seconds, interval_s=interval, facts={}, save=save, api_key=api_key, must_save=True
    )


def export(
    file: Annotated[str, typer.Argument(help="a recording")],
) -> None:
    """Print a recording as plain text: every reading in the Prometheus text format.

    \b
    kvdoctor export recording.kvd > recording.prom
    """
    from kvdoctor.commands.streams import reader_gone
    from kvdoctor.export import export_text
    from kvdoctor.readers import read

    for piece in export_text(read([file])):
        sys.stdout.write(piece)
        if reader_gone():
            return
