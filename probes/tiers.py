"""Which tier of the memory hierarchy each probe measured, and how fast KV comes back from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Reach:
    """What one tier delivers: bytes/s for large transfers, and the seconds that a fetch takes before its first byte."""

    name: str
    bytes_per_s: float
    start_s: float
    per_rank: bool
    """True where every GPU has a link of its own."""
    source: str
    """The rows that it comes from, for people."""


def reaches(results: Iterable[Mapping[str, Any]]) -> tuple[Reach, ...]:
    """Return the tiers that results of probes tell of, the fastest first."""
    found = [reach for result in results for reach in READERS.get(result.get("probe", ""), _none)(result)]
    return tuple(sorted(found, key=lambda reach: -reach.bytes_per_s))


def _none(result: Mapping[str, Any]) -> list[Reach]:
    return []


def _hbm(result: Mapping[str, Any]) -> list[Reach]:
    rate = float(result["achieved_bytes_per_s"])
    name = str(result["measures"])
    if result.get("conditions", {}).get("possible_cache_reading"):
        return [Reach(f"{name} or its caches", rate, 0.0, True, "read, all of it; the caches are not known")]
    return [Reach(name, rate, 0.0, True, "read, all of it")]


def _pcie(result: Mapping[str, Any]) -> list[Reach]:
    """The link with large pinned copies, and with the target's own scattered blocks."""
    found = []
    for op, name in (
        ("pinned", "CPU memory, large copies"),
        ("blocks one by one", "CPU memory, block by block"),
    ):
        row = _fastest(result, lambda row, op=op: row["op"] == op and row.get("direction") == "h2d")
        if row:
            found.append(Reach(name, row["bytes_per_s"], 0.0, True, f"{op}, {row['block_bytes']} bytes"))
    return found


def _nvme(result: Mapping[str, Any]) -> list[Reach]:
    kind = result["conditions"]["file_system"]
    row = _fastest(result, lambda row: row["op"] == "random read")
    if not row:
        return []
    alone = _fastest(result, lambda row: row["op"] == "random read" and row["queue_depth"] == 1) or row
    depth = row["queue_depth"]
    source = f"random read of {row['block_bytes'] // 1024} KiB, {depth} under way"
    return [
        Reach(
            f"disk ({kind})",
            row["bytes_per_s"],
            (alone["latency_seconds"] or {"p50": 0.0})["p50"],
            False,
            source,
        )
    ]


def _network(result: Mapping[str, Any]) -> list[Reach]:
    row = _fastest(result, lambda row: row["op"] == "transfer" and row["direction"] == "from peer")
    if not row:
        return []
    ping = next((row for row in result["rows"] if row["op"] == "message"), None)
    start = ping["latency_seconds"]["p50"] if ping else 0.0
    name = "another process, loopback" if result["conditions"]["loopback"] else "peer, TCP"
    return [
        Reach(name, row["bytes_per_s"], start, False, f"{row['conditions']['streams']} streams from the peer")
    ]


def _fastest(result: Mapping[str, Any], fits: Any) -> dict[str, Any] | None:
    """Return the row with the highest rate among those that fit."""
    rows = [row for row in result["rows"] if fits(row)]
    return max(rows, key=lambda row: float(row["bytes_per_s"]), default=None)


READERS = {"hbm": _hbm, "pcie": _pcie, "nvme": _nvme, "network": _network}
