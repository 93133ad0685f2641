"""`diagnose --probe`: what may be measured beside a live service, and why the rest was not."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kvdoctor.commands.victim_place import Victim, victim

NEEDS = {
    "nvme": "which folder holds the KV tier is not known: kvdoctor probe nvme --path FOLDER",
    "network": "no peer is named: kvdoctor probe network --peer HOST:PORT",
    "decode": "beside a service its rate is no ceiling: kvdoctor probe decode while the service is down",
    "request": "no prompt is named: kvdoctor probe request --url URL --prompt-file FILE",
}
"""What is not run without a word of the user's, whatever the service does."""
HERE = ("hbm", "pcie")
WIDTH = 79


Ran = tuple[str, dict[str, Any], bool]
"""A probe's name, its result, and whether the service decoded meanwhile."""


def probe_first(
    told: dict[str, str],
    urls: Sequence[str],
    pid: int | None,
    *,
    run: Callable[[], Iterator[Ran]] | None = None,
    beside: Victim | None = None,
) -> None:
    """Run what is allowed before the recording begins, and say what was refused and why.

    The read rate becomes the bandwidth of the diagnosis where none was told and nothing decoded meanwhile: beside a
    busy service it is what that leaves over, and no ceiling.
    """
    from kvdoctor.commands.probing import print_lines
    from kvdoctor.render.probe_text import render

    if run is None:
        beside = victim(urls[0] if urls else None, _only() if not urls and pid is None else pid)
    for name, result, is_busy in run() if run is not None else _run(beside):
        print_lines(render([result]))
        if name == "hbm" and "rows" in result and "bandwidth" not in told:
            if is_busy:
                print_lines("  not used as the ceiling: the service took its share of it meanwhile")
                continue
            if result.get("conditions", {}).get("possible_cache_reading"):
                print_lines("  not used as the ceiling: caches may have answered a part of it")
                continue
            told["bandwidth"] = repr(result["achieved_bytes_per_s"] / 1e9)
            told["bandwidth_basis"] = f"read by the probe of {result['measures']}"
    for name, reason in _needs(beside).items():
        print_lines(
            textwrap.fill(
                f"{name} not run: {reason}", WIDTH, subsequent_indent="    ", break_on_hyphens=False
            )
        )


def _needs(beside: Victim | None) -> dict[str, str]:
    """Return what is not run, and why: with the folder of the KV tier where the service's settings name it."""
    if beside is None or not beside.kv_folder:
        return NEEDS
    folder = shlex.quote(beside.kv_folder)
    nvme = f"it writes a file to the KV tier: kvdoctor probe nvme --path {folder} --pid {beside.pid}"
    return {**NEEDS, "nvme": nvme}


def _run(beside: Victim | None) -> Iterator[Ran]:
    """Run the probes one after the other under one watch."""
    from kvdoctor.commands.probing import Asked, run_one
    from kvdoctor.commands.victim import watch

    service = beside.service if beside is not None else None
    with watch(beside) as watcher:
        for name in HERE:
            asked = Asked(
                name,
                {"shared": True},
                pid=beside.pid if beside is not None else None,
                service=service,
                stop=watcher.stop if watcher is not None else None,
            )
            yield name, run_one(asked), watcher is not None and watcher.is_busy


def _only() -> int:
    """Return the root of the only engine here; it ends as the diagnosis would where there is none, or several."""
    from kvdoctor.commands.attach import attach

    return attach(None, (), {}).family.root
