"""`diagnose --probe`: what may be measured beside a live service, and why the rest was not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kvdoctor.commands.output import print_note

NEEDS = {
    "nvme": "which folder holds the KV tier is not known: kvdoctor probe nvme --path FOLDER",
    "network": "no peer is named: kvdoctor probe network --peer HOST:PORT",
    "request": "no prompt is named: kvdoctor probe request --url URL --prompt-file FILE",
}
"""What is not run without a word of the user's, whatever the service does."""
HERE = ("hbm", "pcie")


def probe_first(
    told: dict[str, str],
    urls: Sequence[str],
    pid: int | None,
    *,
    run: Callable[[str, str | None, int | None], tuple[dict[str, Any], bool]] | None = None,
) -> None:
    """Run what is allowed before the recording begins, and say what was refused and why.

    The read rate becomes the bandwidth of the diagnosis where none was told and nothing decoded meanwhile: beside a
    busy service it is what that leaves over, and no ceiling.
    """
    from kvdoctor.render.probe_text import render

    for name in HERE:
        result, is_busy = (run or _run)(name, urls[0] if urls else None, pid)
        print_note(render([result]).rstrip())
        if name == "hbm" and "rows" in result and "bandwidth" not in told:
            if is_busy:
                print_note("  not used as the ceiling: the service took its share of it meanwhile")
                continue
            told["bandwidth"] = repr(result["achieved_bytes_per_s"] / 1e9)
            told["bandwidth_basis"] = f"read by the probe of {result['measures']}"
    for name, reason in NEEDS.items():
        print_note(f"{name} not run: {reason}")


def _run(name: str, url: str | None, pid: int | None) -> tuple[dict[str, Any], bool]:
    """Run one probe under watch; say whether the service decoded meanwhile."""
    from kvdoctor.commands.probing import Asked, run_one
    from kvdoctor.commands.victim import watch

    with watch(url, pid) as stop:
        return run_one(Asked(name, {"shared": True}, pid=pid, stop=stop)), stop is not None
