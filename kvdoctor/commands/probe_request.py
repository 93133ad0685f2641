"""What one prompt's hit saved of TTFT, and what the rest of it is made of."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from kvdoctor import metrics as m
from kvdoctor.commands.probe_counted import mean_of, rise_of

ALONE = 1.5
"""First tokens that the engine may have given to each of our requests, before others are taken to run beside them."""


def explained(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result of `request` with its `answer`: times in seconds, tokens of one request. Others as they are."""
    rows = {row["op"]: row for row in result.get("rows", ()) if result["probe"] == "request"}
    if not {"miss", "hit"} <= rows.keys():
        return result
    miss, hit = rows["miss"], rows["hit"]
    saved = miss["ttft_seconds"] - hit["ttft_seconds"]
    cached, source = _cached(hit)
    return {
        **result,
        "answer": {
            "miss_seconds": miss["ttft_seconds"],
            "hit_seconds": hit["ttft_seconds"],
            "saved_seconds": saved,
            "saved_share": saved / miss["ttft_seconds"],
            "prompt_tokens": hit["prompt_tokens"],
            "cached_tokens": cached,
            "cached_by": source,
            "parts": parts(hit),
            "others_ran": (rise_of(hit["counted"], m.TTFT) or 0.0) > ALONE,
        },
    }


def _cached(row: Mapping[str, Any]) -> tuple[float | None, str]:
    """Return the cached tokens of a request, and who says so: the server's `usage`, else the engine's counter."""
    told = [number for number in row["cached_tokens"] if number is not None]
    if told:
        return float(min(told)), "usage"
    return rise_of(row["counted"], m.PREFIX_HITS), "the engine's counter"


def parts(hit: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a hit's mean TTFT at the client is made of, in order; the parts add up to it.

    The engine's own TTFT begins when a request arrives in its front end; queue and prefill are within it.
    """
    counted, whole = hit["counted"], statistics.fmean(hit["repeats"])
    ttft, queue, prefill = (mean_of(counted, quantity) for quantity in (m.TTFT, m.QUEUE, m.PREFILL))
    if ttft is None:
        return [_part("unexplained", whole)]
    inside = [
        _part(name, value) for name, value in (("queue", queue), ("prefill", prefill)) if value is not None
    ]
    rest = ttft - sum(part["seconds"] for part in inside)
    return [
        *inside,
        _part("front end" if len(inside) == 2 else "engine", rest),
        _part("client", whole - ttft),
    ]


def _part(name: str, seconds: float) -> dict[str, Any]:
    return {"part": name, "seconds": max(0.0, seconds)}
