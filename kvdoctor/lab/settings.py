"""How a lab server is set up. It is told over standard input, so that neither /proc nor a metric shows it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from kvdoctor.errors import KvdoctorError


@dataclass(frozen=True, slots=True)
class TierSetting:
    """One tier beyond the pool."""

    kind: str
    """host, file or remote."""
    blocks: int
    read_bytes_per_s: float | None = None
    """Highest rate of loads; None for what the machine gives."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The engine's sizes, its tiers, and what slows its own code down. The defaults are a healthy server."""

    pool_blocks: int = 512
    block_size: int = 16
    max_num_seqs: int = 16
    max_num_batched_tokens: int = 256
    caching: bool = True
    tiers: tuple[TierSetting, ...] = ()
    prefetch: bool = True
    pin_promises: bool = True
    handover_s: float = 0.0
    """Seconds between the end of a load and the moment the engine hears of it."""
    ranking_s: float = 0.0
    """CPU seconds of Python that ranks the requests in each step."""
    tokenizing_s: float = 0.0
    """CPU seconds of Python that the tokenizer takes for a thousand tokens, beyond its own."""
    index_held_s: float = 0.0
    """Seconds for which another thread holds the lock of the tiers' index at a time."""
    index_free_s: float = 0.0
    """Seconds between two such holds."""
    park_s: float = 0.0
    """Seconds between two moments at which a running request's blocks are moved to the tiers; 0 for never."""
    threads: int = 1


def to_line(settings: Settings) -> str:
    """One line of JSON."""
    return json.dumps(asdict(settings)) + "\n"


def from_line(line: str) -> Settings:
    """Read a line back; nothing at all stands for the defaults. Raises KvdoctorError for anything else."""
    if not line.strip():
        return Settings()
    try:
        found = json.loads(line)
        if not isinstance(found, dict):
            raise ValueError("it is no JSON object")
        return _settings(found)
    except (ValueError, TypeError) as error:
        raise KvdoctorError(
            f"the settings cannot be read: {error}", "send none, or one line of JSON"
        ) from error


def _settings(found: Mapping[str, Any]) -> Settings:
    known = {field.name for field in fields(Settings)}
    if unknown := set(found) - known:
        raise ValueError(f"no such setting: {', '.join(sorted(unknown))}")
    tiers = tuple(TierSetting(**tier) for tier in found.get("tiers", ()))
    return Settings(**{**found, "tiers": tiers})
