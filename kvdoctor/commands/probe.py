"""`kvdoctor probe`: real transfers, the cost stated first."""

from __future__ import annotations

import json as json_format
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from kvdoctor.errors import KvdoctorError, Misuse

TOKEN = "KVDOCTOR_TOKEN"
"""Environment variable with what both ends of the network probe know."""
FAILED = 1

What = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PROBE]...", help="hbm, pcie, nvme, decode, network, request or all"),
]
Pid = Annotated[
    int | None, typer.Option(help="the service: its Python, its KV layout, its latency while we probe")
]
Url = Annotated[str | None, typer.Option(help="the service's address, likewise; where `request` goes to")]
Python = Annotated[str | None, typer.Option(metavar="PATH", help="a Python that has torch")]
Device = Annotated[str, typer.Option(help="hbm, pcie, decode: auto, cpu, cuda, cuda:1")]
Size = Annotated[str | None, typer.Option(metavar="SIZE", help="bytes of a buffer or of the file: 512MiB")]
Path_ = Annotated[
    str, typer.Option("--path", metavar="FOLDER", help="nvme: a folder on the disk in question [.]")
]
Block = Annotated[
    list[str] | None,
    typer.Option(metavar="SIZE", help="size of a KV block, may be given several times: 64KiB"),
]
Peer = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="network: who answers there; else a process here")
]
Serve = Annotated[bool, typer.Option("--serve", help="network: be the peer, and measure nothing")]
Bind = Annotated[str, typer.Option(metavar="ADDRESS", help="network --serve: where to listen")]
Port = Annotated[int, typer.Option(help="network --serve: port; 0 takes a free one")]
Streams = Annotated[int, typer.Option(help="network: connections side by side")]
Mooncake = Annotated[
    str, typer.Option(metavar="MASTER,METADATA", help="network: host:port of a store and its metadata URL")
]
Prompt = Annotated[str | None, typer.Option("--prompt-file", metavar="FILE", help="request: the prompt")]
Served = Annotated[str, typer.Option("--served-model", help="request: the model's name at the server")]
Tokens = Annotated[int, typer.Option(help="request: output tokens")]
Model = Annotated[
    str | None,
    typer.Option(help="config.json, its folder, or a known model: what to decode; fetch or recompute"),
]
Batch = Annotated[int | None, typer.Option(help="decode: sequences [1, or the service's]")]
Context = Annotated[
    str | None, typer.Option(metavar="TOKENS", help="decode: of each sequence [1024, or the service's]")
]
KvDtype = Annotated[str, typer.Option(help="decode: fp32, bf16, fp16, fp8, int8, int4 [the weights']")]
Gpu = Annotated[str | None, typer.Option(help="card that would recompute: H100, L4, ...")]
Tp = Annotated[int, typer.Option(help="tensor-parallel size of one rank")]
Force = Annotated[bool, typer.Option("--force", help="run although the GPU's state forbids it")]
Seconds = Annotated[
    float | None, typer.Option(help="time limit of each probe; with --serve, how long to serve [600]")
]
Json = Annotated[
    str | None, typer.Option(metavar="[FILE]", help="one JSON line a probe, to FILE or standard output")
]
Html = Annotated[
    str | None, typer.Option(metavar="FILE", help="the results with a figure of the tiers as one HTML file")
]


@dataclass(frozen=True, slots=True)
class Line:
    """The command line."""

    pid: int | None = None
    url: str | None = None
    python: str | None = None
    device: str = "auto"
    size: int = 0
    path: str = "."
    blocks: tuple[int, ...] = ()
    peer: str | None = None
    streams: int = 4
    mooncake: str = ""
    prompt_file: str | None = None
    served_model: str = ""
    tokens: int = 4
    model: str | None = None
    batch: int | None = None
    context: str | None = None
    kv_dtype: str = ""


def _decode(line: Line) -> dict[str, Any]:
    from kvdoctor.commands.decoding import decode_options

    wanted = decode_options(line.model, line.pid, line.batch, line.context)
    return {**wanted, "kv_dtype": line.kv_dtype, "size": line.size, "device": line.device}


def _hbm(line: Line) -> dict[str, Any]:
    return {"size": line.size, "device": line.device, "shared": line.pid is not None or line.url is not None}


def _pcie(line: Line) -> dict[str, Any]:
    return {**_hbm(line), "blocks": line.blocks}


def _nvme(line: Line) -> dict[str, Any]:
    size = {"size": line.size} if line.size else {}
    return {"path": os.path.abspath(line.path), "blocks": line.blocks, **size}


def _network(line: Line) -> dict[str, Any]:
    host, _, port = (line.peer or "").rpartition(":")
    if line.peer and not (host and port.isdigit()):
        raise Misuse(f"--peer {line.peer} is no HOST:PORT", "--peer 10.0.0.2:47600")
    where = {"host": host.strip("[]"), "port": int(port)} if line.peer else {}
    return {**where, "streams": line.streams, "mooncake": line.mooncake, "blocks": line.blocks}


def _request(line: Line) -> dict[str, Any]:
    if not line.url or not line.prompt_file:
        raise Misuse(
            "request sends a real prompt to a service",
            "kvdoctor probe request --url http://HOST:PORT --prompt-file FILE",
        )
    return {
        "url": line.url,
        "prompt_file": os.path.abspath(line.prompt_file),
        "model": line.served_model,
        "tokens": line.tokens,
    }


OPTIONS: dict[str, Callable[[Line], Mapping[str, Any]]] = {
    "hbm": _hbm,
    "pcie": _pcie,
    "nvme": _nvme,
    "decode": _decode,
    "network": _network,
    "request": _request,
}
"""From the command line to each probe's own options."""


def probe(
    what: What = None,
    pid: Pid = None,
    url: Url = None,
    python: Python = None,
    device: Device = "auto",
    size: Size = None,
    path: Path_ = ".",
    block: Block = None,
    peer: Peer = None,
    serve: Serve = False,
    bind: Bind = "127.0.0.1",
    port: Port = 0,
    streams: Streams = 4,
    mooncake: Mooncake = "",
    prompt_file: Prompt = None,
    served_model: Served = "",
    tokens: Tokens = 4,
    model: Model = None,
    gpu: Gpu = None,
    tp: Tp = 1,
    batch: Batch = None,
    context: Context = None,
    kv_dtype: KvDtype = "",
    seconds: Seconds = None,
    force: Force = False,
    json: Json = None,
    html: Html = None,
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
    names = _names(what or [])
    if serve:
        from kvdoctor.commands.peer import be_peer

        be_peer(names, bind=bind, port=port, seconds=seconds, token=os.environ.get(TOKEN, ""))
        return
    from kvdoctor.commands.kvlayout import block_sizes
    from kvdoctor.roofline.quantity import size_bytes

    line = Line(
        pid=pid,
        url=url,
        python=python,
        device=device,
        size=int(size_bytes(size)) if size else 0,
        path=path,
        blocks=block_sizes(block or (), model=model, tp=tp),
        peer=peer,
        streams=streams,
        mooncake=mooncake,
        prompt_file=prompt_file,
        served_model=served_model,
        tokens=tokens,
        model=model,
        batch=batch,
        context=context,
        kv_dtype=kv_dtype,
    )
    if not names:
        _list(line)
        return
    _show(_measured(names, line, seconds, force), json, html, model=model, gpu=gpu, tp=tp)


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


def _measured(names: list[str], line: Line, seconds: float | None, force: bool) -> list[dict[str, Any]]:
    """Run the probes one after the other, watching the service where one is named."""
    from kvdoctor.commands.probing import Asked, run_all
    from kvdoctor.commands.victim import watch

    plan = []
    with watch(line.url, line.pid) as stop:
        for name in names:
            plan.append(
                Asked(
                    name,
                    OPTIONS[name](line),
                    line.python,
                    line.pid,
                    None if name == "request" else stop,
                    seconds,
                    force,
                )
            )
        return list(run_all(plan))


def _show(
    results: list[dict[str, Any]],
    json: str | None,
    html: str | None,
    *,
    model: str | None,
    gpu: str | None,
    tp: int,
) -> None:
    """Print lines of JSON or text, with the table of tiers where a model is named; exit 1 when nothing was measured."""
    from kvdoctor.commands.fartier import table
    from kvdoctor.render.probe_text import render

    if model is not None and any(result["probe"] != "decode" for result in results):
        results = [*results, table(results, model, gpu, tp)]
    lines = "".join(json_format.dumps(result) + "\n" for result in results)
    if json is not None and json != "-":
        _write(lines, json, '{"schema_version"')
    if html is not None:
        from kvdoctor.render.probe_html import render as render_html

        _write(render_html(results), html, "<!doctype html>")
    if json == "-":
        sys.stdout.write(lines)
    else:
        sys.stdout.write(render(results))
    if not any("rows" in result for result in results):
        raise typer.Exit(FAILED)


def _write(text: str, where: str, begin: str) -> None:
    """Write to a new file, or over one that begins as ours do."""
    try:
        if os.path.exists(where):
            with open(where, encoding="utf-8", errors="replace") as old:
                if old.read(len(begin)) not in ("", begin):
                    raise KvdoctorError(
                        f"{where} exists and holds no result of a probe", "choose another name"
                    )
        with open(where, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise KvdoctorError(
            f"{where} cannot be written: {error.strerror}", "choose another folder"
        ) from error
