"""Which service a probe runs beside: its page, its processes, its cards."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kvdoctor.collectors.chosen import Service
from kvdoctor.errors import KvdoctorError

if TYPE_CHECKING:
    from kvdoctor.target.describe import Target

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Victim:
    """The service, as far as it is known."""

    address: str | None = None
    """Its metrics page; None where it has none that may be read."""
    pid: int | None = None
    """Its root process here; None where it runs elsewhere, or is not seen."""
    service: Service | None = None
    """Its cards and processes; None where it is not seen here."""
    kv_folder: str = ""
    """Where its KV tier lies on a disk, as far as its settings tell, in our own file system; else empty."""
    is_given: bool = False
    """The user named the page, so that a key may go there."""


def victim(url: str | None, pid: int | None) -> Victim | None:
    """Look the service up by its page or a process of its own; None where neither is named.

    KvdoctorError where there is no such process.
    """
    if url is None and pid is None:
        return None
    target = _by_pid(pid) if pid is not None else _by_page(url or "")
    page = target.page.url if target is not None and target.page.readable else None
    if target is None:
        return Victim(url, is_given=True)
    pids = frozenset(member.pid for member in target.family.members)
    return Victim(
        url or page,
        pid if pid is not None else target.family.root,
        Service(target.family.cards, pids),
        _kv_folder(target),
        is_given=url is not None,
    )


def _kv_folder(target: Target) -> str:
    """Return the folder of the KV tier where we see it under the same name."""
    paths = (mount.path for mount in target.family.mounts if mount.purpose == "kv")
    is_here = not {"mnt"} & (target.place.differ | target.place.unknown)
    return next((path for path in paths if is_here and os.path.isdir(path)), "")


def _by_pid(pid: int) -> Target:
    from kvdoctor.target.look import look

    target = look().at(pid)
    if target is None:
        raise KvdoctorError(f"there is no process {pid}", "kvdoctor targets lists the engines here")
    return target


def _by_page(url: str) -> Target | None:
    """Return the engine on this machine that serves a page on loopback; None where none is seen."""
    from kvdoctor.target.describe import describe
    from kvdoctor.target.look import look

    if _place(url)[0] not in LOOPBACK:
        return None
    seen = look()
    for kin in seen.engines():
        target = describe(seen.host, kin)
        if target.page.url and _place(target.page.url)[1] == _place(url)[1]:
            return target
    return None


def _place(url: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
        return (parts.hostname or "").lower(), parts.port
    except ValueError:
        return "", None
