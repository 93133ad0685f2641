"""Addresses from a file, one a line, for more endpoints than a command line holds."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator, Sequence

from kvdoctor import address
from kvdoctor.errors import KvdoctorError

MOST = 2000
"""Endpoints of one recording: twice as many as were measured at an interval of 15 s on two cores."""
SPARE = 200
"""Open files of a recording beside its endpoints' sockets: its file, modules, names being looked up."""
MAX_FILE = 2**20
"""Bytes of the file: 500 for each address."""


def urls_of(given: Sequence[str], file: str | None) -> list[str]:
    """Return the addresses given and those of a file, `-` being stdin; KvdoctorError names a line that is none.

    Blank lines are passed over, and comments: from a `#` at the beginning of a line or behind a blank.
    """
    if file is None:
        return list(given)
    found: dict[str, str] = {}
    urls = []
    for where, url in (*(("--url", url) for url in given), *_lines(_text(file), file)):
        try:
            name = address.parse(url).name
        except KvdoctorError as error:
            raise KvdoctorError(f"{where}: {error.message}", error.hint) from None
        if name in found:
            raise KvdoctorError(f"{where}: {name} was given already ({found[name]})", "leave one of them out")
        found[name] = where
        urls.append(url)
    if not urls or len(urls) > MOST:
        raise KvdoctorError(f"{file} names {len(urls)} endpoints", f"one address a line, {MOST} at most")
    return urls


def make_room(endpoints: int) -> None:
    """Let this process have a socket for each endpoint; KvdoctorError when its limit of open files forbids that."""
    needed = endpoints + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        reason = f"{endpoints} endpoints need {needed:,} open files, and this process may have {hard:,}"
        raise KvdoctorError(reason, f"ulimit -n {needed}, or fewer endpoints")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _text(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.read(MAX_FILE + 1)
        with open(file, encoding="utf-8") as stream:
            return stream.read(MAX_FILE + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "it is no text"
        raise KvdoctorError(f"{file} cannot be read: {reason}", "give a text, one address a line") from None


def _lines(text: str, file: str) -> Iterator[tuple[str, str]]:
    """Yield (place, address) of each line that has one."""
    if len(text) > MAX_FILE:
        raise KvdoctorError(
            f"{file} is too long to be a list of addresses", "give a text, one address a line"
        )
    for number, line in enumerate(text.split("\n"), 1):
        url = _plain(line)
        if url:
            yield f"{file} line {number}", url


def _plain(line: str) -> str:
    """Return a line without its comment."""
    words = line.strip().split()
    kept = next((n for n, word in enumerate(words) if word.startswith("#")), len(words))
    return " ".join(words[:kept])
