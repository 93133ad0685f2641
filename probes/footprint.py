"""What a probe is going to take, said before it starts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Footprint:
    """The most that a probe takes: sizes in bytes, time in seconds."""

    seconds: float
    host_bytes: int = 0
    device_bytes: int = 0
    disk_bytes: int = 0
    """The largest size of its file at any time."""
    moved_bytes: int = 0
    """Bytes read and written over the link, at most."""
    loads: str = ""
    """Whom it competes with while it runs, for people."""
