"""Whether what a step of the first run on a card saw is what was expected."""

from __future__ import annotations

import statistics
from typing import Any

GIB, MIB = 2**30, 2**20
Seen = dict[str, Any]


def verdict(agrees: bool, **seen: Any) -> Seen:
    """Return a line of the summary."""
    return {"agrees": agrees, "seen": seen}


def dump(seen: Seen) -> Seen:
    names = ("Name", "MemoryBusWidth", "max clock memory", "MaxPcieLinkGeneration", "MaxPcieLinkWidth")
    values = {name: seen.get(name, {}).get("value") for name in names}
    refused = {name: got["code"] for name, got in seen.items() if "code" in got}
    return verdict(all(value is not None for value in values.values()), **values, codes=refused)


def pcie_fields(seen: Seen) -> Seen:
    """The receive counter rises by the payload and a little more, or by that modulo 2^32; one that stands is stuck."""
    before, after = seen["before"][198], seen["after"][198]
    if "value" not in before or "value" not in after:
        return verdict(False, code=after.get("code"))
    rise, payload = after["value"] - before["value"], seen["payload"]
    low, high = 1.0 * payload, 1.12 * payload
    wraps = rise != 0 and any(low <= rise + turns * 2**32 <= high for turns in range(1, 4))
    return verdict(
        low <= rise <= high or wraps, rise=rise, payload=payload, type=after["type"], wraps_at_32_bits=wraps
    )


def gpm_reads(seen: Seen) -> Seen:
    dram, sm, tensor = (seen["reading"][key] for key in ("10", "2", "5"))
    fine = dram["code"] == 0 and 75 <= dram["value"] <= 97 and sm["value"] > 80 and tensor["value"] < 5
    return verdict(
        fine, dram=dram, sm=sm, tensor=tensor, idle_dram=seen["idle"]["10"], bytes_per_s=seen["bytes_per_s"]
    )


def gpm_pcie(seen: Seen) -> Seen:
    """H2D is what the card receives (21), D2H what it sends (20); both in MiB/s."""
    ratios = {}
    for way, metric in (("h2d", "21"), ("d2h", "20")):
        ratios[way] = seen[way]["gpm"][metric]["value"] * MIB / seen[way]["bytes_per_s"]
    return verdict(all(0.9 <= ratio <= 1.15 for ratio in ratios.values()), **ratios)


def hbm_sizes(seen: Seen) -> Seen:
    large = seen.get("8192", {})
    reads = large.get("achieved_bytes_per_s")
    ceiling = large.get("conditions", {}).get("ceiling_bytes_per_s")
    share = reads / ceiling if reads and ceiling else None
    return verdict(
        share is not None and 0.8 <= share <= 0.97,
        read=reads,
        share_of_clock=share,
        small=seen.get("64", {}).get("error"),
    )


def link(seen: Seen) -> Seen:
    """Large pinned copies reach four fifths of the link, and the knees are told."""
    rows = [row for row in seen.get("rows", ()) if row["op"] == "pinned"]
    best = {
        way: max((r["bytes_per_s"] for r in rows if r["direction"] == way), default=0.0)
        for way in ("h2d", "d2h")
    }
    ceiling = seen.get("conditions", {}).get("ceiling_bytes_per_s")
    fine = bool(rows) and ceiling is not None and min(best.values()) >= 0.75 * ceiling
    return verdict(fine, **best, ceiling=ceiling, knees=seen.get("knee_bytes"), error=seen.get("error"))


def decode(seen: Seen) -> Seen:
    return verdict("error" not in seen, error=seen.get("error"), measures=seen.get("measures"))


def manners(seen: Seen) -> Seen:
    if not seen.get("during"):
        return verdict(False, probe=seen.get("probe"), error=seen.get("error"))
    ratio = statistics.mean(seen["during"]) / statistics.mean(seen["before"])
    return verdict(
        ratio > 0.9 and "rows" in seen["probe"], victims_rate_while_probed=ratio, worst=min(seen["during"])
    )


def context(seen: Seen) -> Seen:
    return verdict(0 < seen["bytes"] < GIB, bytes=seen["bytes"])
