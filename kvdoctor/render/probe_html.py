"""Results of probes as one static page, with the tiers' rates as bars on a scale of powers of ten."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from kvdoctor.render.probe_text import answer, ending, heading, notes, wins
from kvdoctor.render.roofline_markup import figure, paragraph, section, table
from kvdoctor.render.roofline_scale import Axis
from kvdoctor.render.roofline_svg import text
from kvdoctor.units import count, counted, duration, gib, rate_bytes

_FOLDER = Path(__file__).parent
WIDTH, LEFT, RIGHT, BAR, GAP, FOOT = 640, 190, 90, 20, 12, 28
"""Sizes of the figure in SVG units: names to the left of the bars, rates to their right."""


def render(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the page; the same bytes for the same results."""
    tiers = next((r for r in results if r["probe"] == "tiers" and "rows" in r), None)
    body = "".join(section(heading(result), _body(result)) for result in results)
    shown = section("Tiers of this machine", figure(bars(tiers), _CAPTION)) if tiers else ""
    css = "".join((_FOLDER / name).read_text(encoding="utf-8") for name in ("report.css", "roofline.css"))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>kvdoctor probe</title><style>{css}</style></head><body><main>"
        f"<header><p class='name'>kvdoctor probe</p></header>{shown}{body}</main></body></html>\n"
    )


_CAPTION = "What each tier delivers, measured here: each step to the right is ten times faster."


def bars(result: Mapping[str, Any]) -> str:
    """Draw one bar a tier, from the power of ten below the slowest to the one above the fastest."""
    rates = {row["tier"]: float(row["bytes_per_s"]) for row in result["rows"]}
    low, high = math.floor(math.log10(min(rates.values()))), math.ceil(math.log10(max(rates.values())))
    axis = Axis(10.0**low, 10.0 ** max(high, low + 1), log=True)
    span, height = WIDTH - LEFT - RIGHT, len(rates) * (BAR + GAP) + FOOT
    parts = []
    for power in range(low, max(high, low + 1) + 1):
        x = LEFT + axis.at(10.0**power) * span
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - FOOT}" stroke="currentColor" opacity=".2"/>'
        )
        parts.append(text(x, height - 8, rate_bytes(10.0**power)))
    for number, (name, rate) in enumerate(rates.items()):
        y, length = number * (BAR + GAP) + GAP / 2, max(2.0, axis.at(rate) * span)
        parts.append(text(LEFT - 8, y + BAR * 0.7, name, anchor="end"))
        parts.append(
            f'<rect x="{LEFT}" y="{y:.1f}" width="{length:.1f}" height="{BAR}" fill="currentColor" opacity=".5"/>'
        )
        parts.append(text(LEFT + length + 6, y + BAR * 0.7, rate_bytes(rate), anchor="start"))
    told = ", ".join(f"{name} {rate_bytes(rate)}" for name, rate in rates.items())
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(told)}">{"".join(parts)}</svg>'
    )


def _body(result: Mapping[str, Any]) -> str:
    """The table of one result, and what to mind."""
    if (end := ending(result)) is not None:
        said, cure = end
        return paragraph(f"{said[:1].upper()}{said[1:]}.") + (
            paragraph(f"→ {cure}", "soft small") if cure else ""
        )
    shown = _tiers(result) if result["probe"] == "tiers" else _rows(result)
    shown += (
        "".join(paragraph(sentence) for sentence in answer(result["answer"])) if "answer" in result else ""
    )
    about = result.get("conditions", {}).get("recompute")
    shown += paragraph(f"Recompute {about}.", "soft small") if about else ""
    told = [*notes(result), *(_gap(gap) for gap in result.get("gaps", ()))]
    return shown + "".join(paragraph(f"{note[:1].upper()}{note[1:]}.", "soft small") for note in told)


def _gap(gap: Mapping[str, Any]) -> str:
    return f"Not measured, {gap['source']}: {gap['reason']} → {gap['cure']}"


def _rows(result: Mapping[str, Any]) -> str:
    """One row an operation; columns that no row fills are left out."""
    usual = result["conditions"].get("path")
    rows = [_cells(row, usual) for row in result["rows"]]
    kept = [number for number, head in enumerate(HEAD) if not head or any(cells[number] for cells in rows)]
    return table([HEAD[number] for number in kept], [[cells[number] for number in kept] for cells in rows])


HEAD = ("", "block", "depth", "rate", "TTFT", "repeats", "p50", "p99")


def _cells(row: Mapping[str, Any], usual: str | None) -> tuple[str, ...]:
    """One row's cells, empty where it has no such thing: what has no rate is a request, told by its TTFT."""
    found, each = row.get("latency_seconds"), row.get("repeats", ())
    shown = rate_bytes if "bytes_per_s" in row else duration
    spread = f"{shown(min(each))} to {shown(max(each))}" if len(each) > 1 and not found else ""
    return (
        _name(row, usual),
        gib(row["block_bytes"]) if "block_bytes" in row else "",
        count(row["queue_depth"]) if row.get("queue_depth") else "",
        rate_bytes(row["bytes_per_s"]) if "bytes_per_s" in row else "",
        "" if "bytes_per_s" in row else duration(row["ttft_seconds"]),
        spread,
        duration(found["p50"]) if found else "",
        duration(found["p99"]) if found else "",
    )


def _name(row: Mapping[str, Any], usual: str | None) -> str:
    """Name an operation by what tells it from others of its kind: direction, threads or streams, another path."""
    about = row["conditions"]
    words = [row["op"], row.get("direction") or ""]
    words += [
        counted(about[key], noun)
        for key, noun in (("threads", "thread"), ("streams", "stream"))
        if key in about
    ]
    words.append(about["path"] if about.get("path", usual) != usual else "")
    return ", ".join(filter(None, words))


def _tiers(result: Mapping[str, Any]) -> str:
    """One row a tier and length."""
    rows = [
        (
            row["tier"],
            count(row["tokens"]),
            duration(row["fetch_seconds"]),
            duration(row["recompute_seconds"]) if row["recompute_seconds"] is not None else "?",
            wins(row),
        )
        for row in result["rows"]
    ]
    return table(("prefix in", "tokens", "fetch", "compute", "fetch wins"), rows)
