"""The file system that holds the KV tier: real data written, then read past the page cache.

Footprint: one file of 256 MiB (--size) that never has a name for longer than a moment, written at most twice, and up
to about 20 seconds. Nothing is dropped from the system's caches but this file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kvdoctor.errors import Unavailable
from kvdoctor.probes import filesystem, manners
from kvdoctor.probes.blockio import PAGE
from kvdoctor.probes.child import Tell
from kvdoctor.probes.footprint import Footprint
from kvdoctor.probes.nvme_session import LEAST_SIZE, MIB, Plan, Session

SIZE = 256 * MIB
DEPTHS = (1, 4, 16, 32)
SHARED_SIZE, SHARED_DEPTHS = 64 * MIB, (1, 16)
"""Beside a service: a smaller file, fewer depths, and bursts with rests between them."""
SECONDS = 30.0
MEMORY = 128 * MIB
"""Bytes of the process with a buffer for each block under way."""


@dataclass(frozen=True, slots=True)
class Options:
    """What can be asked for."""

    path: str = "."
    """A folder on the file system in question."""
    size: int = SIZE
    blocks: tuple[int, ...] = ()
    """Sizes of the target's KV blocks beside 1 MiB; rounded up to whole pages."""
    depths: tuple[int, ...] = ()
    """Blocks under way; empty takes 1 to 32, or 1 and 16 beside a service."""
    shared: bool = False
    """Somebody else uses this disk: short bursts with rests between them, and nothing is written over."""


def footprint(options: Options) -> Footprint:
    """Say what it takes at most."""
    options = _fitting(options)
    runs = len(_blocks(options)) * (2 * len(options.depths) + 2) + 4
    return Footprint(
        SECONDS,
        host_bytes=MEMORY,
        disk_bytes=options.size,
        moved_bytes=options.size * (2 + runs),
        loads="the disk under that folder",
    )


def run(options: Options, tell: Tell) -> dict[str, Any]:
    """Write a file, read it in every way, and return the rows. Unavailable where the folder is not fit for it."""
    folder = os.path.realpath(options.path)
    _check_folder(folder)
    options = _fitting(options)
    kind = filesystem.file_system(folder)
    filesystem.require_room(folder, options.size)
    manners.require_memory(MEMORY + (options.size if kind.is_memory else 0), "the disk probe")
    with _opened(folder) as (fd, how, direct):
        plan = Plan(_blocks(options), options.depths, options.shared)
        return Session(folder, fd, options.size, direct, plan, tell).result(kind, how)


def _check_folder(folder: str) -> None:
    """Raise Unavailable for what is no folder, or may not be looked at."""
    try:
        if stat.S_ISDIR(os.stat(folder).st_mode):
            return
    except PermissionError as error:
        reason = f"{folder} cannot be looked at: {error.strerror}"
        raise Unavailable(reason, "--path of a folder that you may write") from error
    except OSError:
        pass  # what is not there is no folder either
    raise Unavailable(f"{folder} is not a folder", "--path of a folder on the disk in question")


def _fitting(options: Options) -> Options:
    """Return the options with what they leave open."""
    depths = options.depths or (SHARED_DEPTHS if options.shared else DEPTHS)
    size = min(options.size, SHARED_SIZE) if options.shared else options.size
    return replace(options, depths=depths, size=max(LEAST_SIZE, size) // MIB * MIB)


@contextmanager
def _opened(folder: str) -> Iterator[tuple[int, str, bool]]:
    """Open the nameless file past the page cache, or through it where the file system refuses that."""
    direct = True
    try:
        fd, how = filesystem.open_unlinked(folder, os.O_DIRECT)
    except Unavailable as refused:
        if refused.reason != filesystem.NO_DIRECT:
            raise
        direct = False
        fd, how = filesystem.open_unlinked(folder)
    try:
        yield fd, how, direct
    finally:
        os.close(fd)


def _blocks(options: Options) -> tuple[int, ...]:
    """Return the block sizes in whole pages, 1 MiB among them."""
    return tuple(sorted({-(-block // PAGE) * PAGE for block in (*options.blocks, MIB)}))
