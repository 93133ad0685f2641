"""The command line: `kvdoctor COMMAND`. Errors become two lines on standard error."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from kvdoctor import __version__
from kvdoctor.commands import judging, recording, streams
from kvdoctor.commands.argv import with_defaults
from kvdoctor.commands.demo import demo
from kvdoctor.commands.fleet import fleet
from kvdoctor.commands.light import LightGroup
from kvdoctor.commands.probe import probe
from kvdoctor.commands.targets import targets
from kvdoctor.errors import KvdoctorError, Misuse
from kvdoctor.roofline.command import register as register_roofline

FAILED, MISUSED, INTERRUPTED = 1, 2, 130

app = typer.Typer(
    name="kvdoctor",
    cls=LightGroup,
    help="Why an LLM service whose prefix cache hits is still slow, and what would help.",
    epilog="kvdoctor diagnose --url http://host:8000",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"kvdoctor {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="print the version"
    ),
) -> None:
    """Options of the program itself."""


for _command, _short in (
    (demo, "a real engine with one known fault, diagnosed"),
    (targets, "the inference processes of this host"),
    (judging.diagnose, "where TTFT and ITL go, what bounds them, what would help"),
    (recording.record, "observe and save, judge nothing"),
    (judging.report, "the report of a recording again"),
    (judging.diff, "what a change bought, part by part"),
    (fleet, "every replica of a service, one row each"),
    (recording.export, "a recording as plain text"),
    (probe, "what each tier of memory really delivers here"),
):
    app.command(short_help=_short)(_command)
register_roofline(app)


def _fail(error: KvdoctorError) -> None:
    from kvdoctor.render.text import clean

    sys.stderr.write(f"kvdoctor: {clean(error.message)}\n")
    if error.hint:
        sys.stderr.write(f"  try: {clean(error.hint)}\n")


def _leave(code: int) -> NoReturn:
    """End the process; a reader that has gone (`| head`) is no error of ours; a full disk, or no stream at all, is."""
    reason = streams.failure()
    if reason:
        hint = "> FILE, or >/dev/null" if reason == streams.CLOSED else "make room"
        sys.stderr.write(f"kvdoctor: standard output could not be written: {reason}\n  try: {hint}\n")
    sys.exit(FAILED if reason else code)


def main() -> NoReturn:
    """Run the command line."""
    streams.guard()
    try:
        app(args=with_defaults(sys.argv[1:]), prog_name="kvdoctor")
    except KvdoctorError as error:
        _fail(error)
        _leave(MISUSED if isinstance(error, Misuse) else FAILED)
    except KeyboardInterrupt:
        _leave(INTERRUPTED)
    except SystemExit as end:
        _leave(end.code if isinstance(end.code, int) else FAILED)
    _leave(0)


if __name__ == "__main__":
    main()
