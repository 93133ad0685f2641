"""What one prompt's hit saved of TTFT, where it hit, and what the rest of it is made of."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from kvdoctor import metrics as m
from kvdoctor.commands.probe_counted import mean_of, rise_of
from kvdoctor.commands.probe_hits import ALONE, Cached, cached
from kvdoctor.commands.probe_hits_told import gaps, outcome

RAW = ("counted_each", "settings")
"""What the child tells for this alone."""


def explained(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result of `request` with its `answer`: times in seconds, tokens of one request. Others as they are.

    `outcome` says whether the repeats hit; `saved_seconds` is None where they did not, or where nobody tells.
    """
    rows = {row["op"]: row for row in result.get("rows", ()) if result["probe"] == "request"}
    if not {"miss", "hit"} <= rows.keys():
        return result
    seen = {op: tuple(cached(row)) for op, row in rows.items()}
    how = outcome(seen)
    hit = _those(rows["hit"], [each.hit is True for each in seen["hit"]]) if how == "some" else rows["hit"]
    miss_s, hit_s = _miss_seconds(rows, seen), statistics.median(hit["repeats"])
    saved = miss_s - hit_s if how in ("all", "some") else None
    tokens, source = _tokens(seen["hit"])
    answer = {
        "outcome": how,
        "requests": len(seen["hit"]),
        "requests_that_hit": sum(each.hit is True for each in seen["hit"]),
        "miss_seconds": miss_s,
        "hit_seconds": hit_s,
        "saved_seconds": saved,
        "saved_share": saved / miss_s if saved is not None else None,
        "prompt_tokens": hit["prompt_tokens"],
        "cached_tokens": tokens,
        "cached_by": source,
        "parts": parts(hit),
        "others_ran": (rise_of(hit["counted"], m.TTFT) or 0.0) > ALONE
        or any(each.others for each in seen["hit"]),
    }
    more = gaps(how, seen, result.get("settings", {}), rows["hit"])
    return {
        **{key: value for key, value in result.items() if key not in RAW},
        "rows": [{key: value for key, value in row.items() if key not in RAW} for row in result["rows"]],
        "saved_seconds": saved,
        "answer": answer,
        "gaps": [*result.get("gaps", ()), *more],
    }


def _miss_seconds(rows: Mapping[str, Any], seen: Mapping[str, Sequence[Cached]]) -> float:
    """Return the TTFT of a miss: the lower one where the request that fills the cache missed too.

    The first request of an idle engine may be its slowest, and that is nothing which a hit would save.
    """
    found = [float(rows["miss"]["ttft_seconds"])]
    if "fill" in rows and all(each.hit is False for each in seen["fill"]):
        found.append(float(rows["fill"]["ttft_seconds"]))
    return min(found)


def _tokens(hits: Sequence[Cached]) -> tuple[float | None, str]:
    """Return the cached tokens of a repeat that hit, the fewest, and who says so; of any repeat where none did."""
    told = [each for each in hits if each.tokens is not None]
    found = [each for each in told if each.hit] or told
    if not found or (len(told) < len(hits) and not found[0].hit):
        return None, ""
    return min(each.tokens for each in found if each.tokens is not None), found[0].by


def _those(row: Mapping[str, Any], kept: Sequence[bool]) -> dict[str, Any]:
    """Return a row of some of its requests."""
    each = [counted for counted, keep in zip(row["counted_each"], kept, strict=True) if keep]
    return {
        **row,
        "repeats": [seconds for seconds, keep in zip(row["repeats"], kept, strict=True) if keep],
        "counted": {name: sum(one[name] for one in each) / len(each) for name in each[0]},
    }


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
