"""The recording of live endpoints, with a header within seconds and a progress line while it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvdoctor.clock import SystemClock
from kvdoctor.collectors.prometheus import Endpoint
from kvdoctor.commands.output import print_note
from kvdoctor.errors import KvdoctorError
from kvdoctor.model import Gap
from kvdoctor.recording import Recording, Source
from kvdoctor.secrets import key_of
from kvdoctor.store import Writer, create_in_state

if TYPE_CHECKING:
    from kvdoctor.record import Place
    from kvdoctor.target.family import Family

HEADER_SECONDS = 1.9
"""Age of the recording at which the header is shown: two intervals of a second, and under three seconds."""


MOST_SHOWN = 16
"""Endpoints up to which there is a header: judging many would keep their readings waiting."""


@dataclass(slots=True)
class Progress:
    """Shows the header once, then one line that is written over, all on standard error of a terminal."""

    seconds: float
    shown: bool = False
    seen: set[str] = field(default_factory=set)

    def __call__(self, recording: Recording, source: Source) -> None:
        """Take note of a reading."""
        self.seen.add(source.name)
        if not self.shown and (source.at[-1] >= HEADER_SECONDS or source.at[-1] >= self.seconds):
            self.shown = True
            if len(recording.sources) <= MOST_SHOWN:
                self.end()
                self._header(recording)
        if sys.stderr.isatty():
            done = min(self.seconds, source.at[-1])
            sys.stderr.write(f"\r  reading: {done:.0f} of {self.seconds:g} s ")
            sys.stderr.flush()

    def _header(self, recording: Recording) -> None:
        from kvdoctor.commands.streams import console
        from kvdoctor.diagnose import diagnose
        from kvdoctor.render.terminal import live_header

        found = diagnose(recording)
        console(stderr=True).print(live_header(found.targets, found.header, found.window.seconds))

    def end(self) -> None:
        """Clear the line."""
        if sys.stderr.isatty():
            sys.stderr.write("\r" + " " * 40 + "\r")


def _writer(path: str | None, must_save: bool) -> tuple[Writer | None, tuple[Gap, ...]]:
    """Open the recording's file; where the default place cannot be written, go on without one unless it must be."""
    if path is not None:
        return Writer.create(path), ()
    try:
        return create_in_state(SystemClock().wall()), ()
    except KvdoctorError as error:
        if must_save:
            raise
        print_note(f"the recording is not saved: {error.message}; --save FILE names another place")
        return None, (Gap("recording", f"not saved: {error.message}", error.hint),)


def record_live(
    urls: Sequence[str],
    *,
    seconds: float,
    interval_s: float,
    facts: dict[str, str],
    save: str | None,
    api_key: str | None,
    family: Family | None = None,
    known: Sequence[Gap] = (),
    given: bool = True,
    must_save: bool = False,
) -> Recording:
    """Record endpoints side by side, with what the host tells of a family; KvdoctorError when nobody ever answered.

    `known` are gaps that are known before. A key goes only to URLs that the user has `given`. A recording that
    `must_save` and could not be saved whole is an error; else it is said, and the answer made all the same.
    """
    from kvdoctor.record import record

    key = key_of(api_key) if given else None
    places, settled = _places(urls, key, family)
    writer, gaps = _writer(save, must_save)
    progress = Progress(seconds)
    try:
        recording = record(
            places,
            seconds=seconds,
            interval_s=interval_s,
            clock=SystemClock(),
            writer=writer,
            facts=facts,
            gaps=(*known, *settled),
            on_scrape=progress,
        )
    finally:
        progress.end()
    recording.gaps.extend(gaps)
    _conclude(recording, writer, must_save)
    return recording


def _conclude(recording: Recording, writer: Writer | None, must_save: bool) -> None:
    """Say where the recording is; KvdoctorError, and no file, when nobody ever answered."""
    if not any(source.at for source in recording.sources):
        _discard(writer)
        raise _never_answered(recording)
    if writer is not None:
        _tell(writer, must_save)


def _tell(writer: Writer, must_save: bool) -> None:
    """Say where the recording is, and what is wrong with it."""
    if writer.failure is None:
        print_note(f"recording: {writer.path}")
        return
    if not writer.size:
        _discard(writer)
    state = "is not whole" if writer.size else "is not saved"
    reason = f"the recording {writer.path} {state}: {writer.failure}"
    if must_save:
        raise KvdoctorError(reason, "make room, or name another file with --save")
    print_note(reason)


def _places(
    urls: Sequence[str], key: str | None, family: Family | None
) -> tuple[list[Place], tuple[Gap, ...]]:
    """Return what is read: endpoints, the places that a family's host is; and what our own manners could not be
    brought to."""
    endpoints = [Endpoint(url, api_key=key) for url in urls]
    if family is None:
        return [*endpoints], ()
    from kvdoctor.collectors.host import host_places, settle

    settled = settle()
    return [*endpoints, *host_places(family, url=endpoints[0].name if endpoints else None)], settled


def _discard(writer: Writer | None) -> None:
    """Remove the file that this run made and that holds no reading."""
    if writer is not None:
        writer.path.unlink(missing_ok=True)


def _never_answered(recording: Recording) -> KvdoctorError:
    reasons = [
        gap.reason if gap.source == "kvdoctor" else f"{gap.source}: {gap.reason}" for gap in recording.gaps
    ]
    cure = next((gap.cure for gap in recording.gaps if gap.cure), "check the URL")
    return KvdoctorError("; ".join(reasons) or "no reading was made", cure)
