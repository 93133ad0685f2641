"""`kvdoctor probe`: real transfers, the cost stated first."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from kvdoctor.commands import probe_options as o
from kvdoctor.commands.probe_line import OPTIONS, Line, check_seconds, line_of
from kvdoctor.errors import KvdoctorError, Misuse

if TYPE_CHECKING:
    from kvdoctor.commands.victim_place import Victim
    from kvdoctor.roofline.shape import ModelShape

TOKEN = "KVDOCTOR_TOKEN"
"""Environment variable with what both ends of the network probe know."""


def probe(
    what: o.What = None,
    pid: o.Pid = None,
    url: o.Url = None,
    python: o.Python = None,
    device: o.Device = "auto",
    size: o.Size = None,
    path: o.Path_ = ".",
    block: o.Block = None,
    peer: o.Peer = None,
    serve: o.Serve = False,
    bind: o.Bind = "127.0.0.1",
    port: o.Port = 0,
    streams: o.Streams = 4,
    mooncake: o.Mooncake = "",
    prompt_file: o.Prompt = None,
    served_model: o.Served = "",
    tokens: o.Tokens = 4,
    model: o.Model = None,
    gpu: o.Gpu = None,
    tp: o.Tp = 1,
    batch: o.Batch = None,
    context: o.Context = None,
    kv_dtype: o.KvDtype = "",
    seconds: o.Seconds = None,
    force: o.Force = False,
    json: o.Json = None,
    html: o.Html = None,
) -> None:
    """Measure what each tier of memory really delivers here, by real transfers. Without a PROBE, list their cost.

    Each runs in a child process with a time limit, says first what it takes, and refuses where it could hurt.

    \b
    kvdoctor probe
    kvdoctor probe hbm nvme --path /mnt/kv --json
    kvdoctor probe decode --model Llama-3.1-8B --batch 8 --context 4k
    kvdoctor probe all --model Llama-3.1-8B --gpu H100
    kvdoctor probe network --serve --bind 10.0.0.2      (with KVDOCTOR_TOKEN set on both hosts)
    kvdoctor probe network --peer 10.0.0.2:47600
    kvdoctor probe request --url http://host:8000 --prompt-file prompt.txt
    """
    given = dict(locals())
    names = _names(what or [])
    check_seconds(seconds)
    if serve:
        from kvdoctor.commands.peer import be_peer

        be_peer(names, bind=bind, port=port, seconds=seconds, token=os.environ.get(TOKEN, ""))
        return
    line = line_of(given)
    if not names:
        _list(line)
        return
    from kvdoctor.commands.probe_show import check, show

    check(json, html)
    raise typer.Exit(show(_measured(names, line, seconds, force), json, html))


def _names(words: list[str]) -> list[str]:
    """Return the probes that are asked for, each once; Misuse for one that does not exist."""
    from kvdoctor.probes import PROBES

    names: list[str] = []
    for word in words:
        if word != "all" and word not in PROBES:
            raise Misuse(f"there is no probe {word!r}", f"one of {', '.join(PROBES)}, all")
        names += [name for name, row in PROBES.items() if row.in_all] if word == "all" else [word]
    return list(dict.fromkeys(names))


def _list(line: Line) -> None:
    """Say what there is and what each would take, and measure nothing."""
    from kvdoctor.commands.probing import Asked, cost_line, footprint
    from kvdoctor.probes import PROBES

    for name, row in PROBES.items():
        options = {} if name == "request" else OPTIONS[name](line)
        sys.stdout.write(f"{cost_line(name, footprint(Asked(name, options)))}\n    {row.says}\n")
    sys.stdout.write("Nothing was measured. kvdoctor probe all measures them all, but for `request`.\n")


def _measured(names: Sequence[str], line: Line, seconds: float | None, force: bool) -> list[dict[str, Any]]:
    """Run the probes one after the other, watching the service where one is named; then the table of tiers."""
    from kvdoctor.commands.probe_request import explained
    from kvdoctor.commands.probing import Asked, run_all
    from kvdoctor.commands.victim import watch
    from kvdoctor.commands.victim_place import victim

    beside = victim(line.url, line.pid)
    pid = beside.pid if beside is not None else None
    service = beside.service if beside is not None else None
    own = all(name == "request" for name in names)
    with watch(None if own else beside) as watcher:
        stop = watcher.stop if watcher is not None else None
        plan = [
            Asked(
                name,
                OPTIONS[name](line),
                line.python,
                pid,
                service,
                None if name == "request" else stop,
                seconds,
                force,
            )
            for name in names
        ]
        results = [explained(result) for result in run_all(plan)]
    return [*results, *_tiers(results, line, beside)]


def _tiers(results: Sequence[dict[str, Any]], line: Line, beside: Victim | None) -> list[dict[str, Any]]:
    """Return the table of tiers where a tier was asked for and the model is known: named, or what the service runs."""
    from kvdoctor.commands.fartier import table
    from kvdoctor.commands.prefill_rate import measured

    if all(result["probe"] in ("decode", "request") for result in results):
        return []
    is_measured = any("rows" in result for result in results)
    model = line.model or (_served(beside) if is_measured else None)
    if model is None:
        return []
    page, is_given = (beside.address, beside.is_given) if beside is not None else (None, False)
    return [table(results, model, line.gpu, line.tp, measured(results, page, is_given=is_given))]


def _served(beside: Victim | None) -> ModelShape | None:
    """Return the shape that a service here has loaded; None where its files do not tell."""
    from kvdoctor.commands.running import running

    if beside is None or beside.pid is None:
        return None
    try:
        return running(beside.pid).shape
    except KvdoctorError:
        return None
