"""`python -m kvdoctor.roofline MODEL ...`: the command alone."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from kvdoctor.commands.argv import with_defaults
from kvdoctor.errors import KvdoctorError
from kvdoctor.render.text import clean
from kvdoctor.roofline.command import register


def main() -> NoReturn:
    """Run the command; an error is two lines on standard error."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    register(app)
    try:
        app(args=with_defaults(sys.argv[1:]), prog_name="kvdoctor roofline")
    except KvdoctorError as error:
        sys.stderr.write(f"kvdoctor: {clean(error.message)}\n")
        if error.hint:
            sys.stderr.write(f"  try: {clean(error.hint)}\n")
        sys.exit(1)
    sys.exit(0)


if __name__ == "__main__":
    main()
