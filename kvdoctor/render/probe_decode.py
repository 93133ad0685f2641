"""A decode probe's result as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvdoctor.units import count, duration, gb, percent, rate_bytes

BUSY = 0.9
"""Share of the time on a processor below which other work held the probe up."""


def body(result: Mapping[str, Any]) -> list[str]:
    """The answer, what it is a share of, and how it was come by."""
    about = result["conditions"]
    lines = [
        f"  step {duration(result['step_seconds'])}, {count(result['tokens_per_s'])} tokens/s; reads "
        f"{gb(result['bytes_per_step'])} at {rate_bytes(result['achieved_bytes_per_s'])}",
        f"  {percent(result['fraction'])} of a plain read of the same memory, "
        f"{rate_bytes(result['plain_read_bytes_per_s'])} (best repeats: {percent(result['best_fraction'])})",
        f"  weights {about['weights']}, KV {about['kv_dtype']} "
        f"(error {percent(result['kv_relative_error'])} a vector), "
        f"pages of {about['page']} tokens in random order",
    ]
    if line := result["fit"]:
        layers = ", ".join(str(n) for n in line["layers"])
        lines.append(
            f"  from {layers} of {about['layers']} layers: {duration(line['seconds_per_layer'])} a layer and "
            f"{duration(line['seconds_outside'])} beside them"
        )
        lines.append(
            f"  the third point lies {percent(abs(line['third_point_off']))} beside the line of the others"
        )
    if about.get("path", "compiled") != "compiled":
        lines.append(f"  by {about['path']}: slower than compiled")
    if about.get("rounds") == 1:
        lines.append(
            "  a single round: the second of bursts was used up, and nothing shows how far rounds differ"
        )
    if about.get("waiting_left_out"):
        lines.append("  times on the processors: what was waited for one, behind the service, is left out")
    elif about.get("threads") and about["on_processor"] < BUSY:
        lines.append(
            f"  lower bounds: other work held the processors (ours {percent(about['on_processor'])} of the time)"
        )
    return lines
