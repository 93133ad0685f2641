"""Where the recording that is judged comes from: files, a Prometheus server, or an engine that is watched now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from kvdoctor.recording import Recording


@dataclass(frozen=True, slots=True)
class Origin:
    """What was asked to be read, as the options are called; without files and without a server, a live engine."""

    files: Sequence[str] | None
    prometheus: str | None
    since: str
    match: Sequence[str] | None
    url: Sequence[str] | None
    pid: int | None
    seconds: float
    interval: float
    probe: bool
    """Whether to measure the ceilings first."""
    api_key: str | None
    save: str | None

    @property
    def urls(self) -> Sequence[str]:
        """Return every URL that is named."""
        return self.url or ()


def recording_of(origin: Origin, told: dict[str, str]) -> Recording:
    """Read or watch; what the user tells goes into the recording. BadParameter where two origins are named."""
    if origin.files:
        _check_alone("FILE", origin)
        return read_files(origin.files, told, origin.save)
    if origin.prometheus is not None:
        _check_alone("--prometheus", origin)
        return _ask(origin, origin.prometheus, told)
    return _watch(origin, told)


def _check_alone(what: str, origin: Origin) -> None:
    if origin.urls or origin.pid is not None:
        raise typer.BadParameter(f"{what} stands alone: --url and --pid watch a live engine")


def read_files(files: Sequence[str], told: dict[str, str], save: str | None = None) -> Recording:
    """Read files; what the user tells now goes before what the recording was told."""
    from kvdoctor.commands.output import print_note
    from kvdoctor.readers import read
    from kvdoctor.store import save as save_recording

    recording = read(files)
    recording.facts.update(told)
    if save is not None:
        save_recording(recording, save)
        print_note(f"recording: {save}")
    return recording


def _ask(origin: Origin, server: str, told: dict[str, str]) -> Recording:
    from kvdoctor.commands.fleet import read_server
    from kvdoctor.store import save as save_recording

    recording = read_server(server, origin.since, origin.match or (), origin.api_key)
    recording.facts.update(told)
    if origin.save is not None:
        save_recording(recording, origin.save)
    return recording


def _watch(origin: Origin, told: dict[str, str]) -> Recording:
    from kvdoctor.commands.length import check_length

    check_length(origin.seconds, origin.interval)
    if origin.probe:
        from kvdoctor.commands.allowed import probe_first

        probe_first(told, origin.urls, origin.pid)
    if origin.urls and origin.pid is None:
        from kvdoctor.commands.live import record_live

        return record_live(
            origin.urls,
            seconds=origin.seconds,
            interval_s=origin.interval,
            facts=told,
            save=origin.save,
            api_key=origin.api_key,
        )
    from kvdoctor.commands.attach import record_process

    return record_process(
        origin.pid,
        origin.urls,
        seconds=origin.seconds,
        interval_s=origin.interval,
        told=told,
        save=origin.save,
        api_key=origin.api_key,
    )
