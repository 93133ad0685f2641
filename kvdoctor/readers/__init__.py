"""Evidence that others gathered, as one recording: saved recordings, metrics pages, series of pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from kvdoctor import frames
from kvdoctor.errors import KvdoctorError
from kvdoctor.readers.log import Logs, is_log
from kvdoctor.readers.merge import merged
from kvdoctor.readers.opened import READABLE, Opened, open_file
from kvdoctor.readers.pages import Page, foreign, pages_of
from kvdoctor.readers.series import Series
from kvdoctor.readers.single import Singles
from kvdoctor.readers.situations import situations
from kvdoctor.recording import Recording
from kvdoctor.restore import load_stream


def read(paths: Sequence[str]) -> Recording:
    """Read files, `-` being stdin, each recognised by what is in it; KvdoctorError names one that is not.

    Single pages of one process become readings of one source, in the order given. Every series of pages is a
    source, every recording brings its own.
    """
    if not paths:
        raise KvdoctorError("there is no file to read", READABLE)
    singles, logs = Singles(), Logs()
    recordings = [found for path in paths if (found := _read(path, singles, logs)) is not None]
    return merged([*recordings, *logs.recordings()], singles.recordings())


def _read(path: str, singles: Singles, logs: Logs) -> Recording | None:
    """Return what a file holds; None for a single page or a part of a log, which join others of their process."""
    with open_file(path) as file:
        if file.stream.peek(len(frames.MAGIC)).startswith(frames.MAGIC):
            return load_stream(file.stream, file.name)
        head = file.stream.peek(len(frames.MAGIC))
        if is_log(head):
            if not logs.add(file):
                raise foreign(file.name, head)
            return None
        found = pages_of(file.stream)
        first, second = next(found, None), next(found, None)
        if first is None:
            raise KvdoctorError(f"{file.name} has nothing in it: {file.trouble or 'it is blank'}", READABLE)
        if second is None and first.wall is None and not first.failed:
            for part in situations(first.text):
                singles.add(file, path, Page(part))
            return None
        return _series(file, first, second, found)


def _series(file: Opened, first: Page, second: Page | None, rest: Iterator[Page]) -> Recording:
    series = Series(file.name)
    for page in chain([first] if second is None else [first, second], rest):
        if page.wall is not None or page.failed:
            series.add(page)
        if series.full:
            break
    return series.recording(file.trouble)
