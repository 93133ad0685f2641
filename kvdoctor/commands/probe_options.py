"""The options of `kvdoctor probe`, as its help shows them."""

from __future__ import annotations

from typing import Annotated

import typer

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
Force = Annotated[
    bool, typer.Option("--force", help="run although a card's state, a profiler or writes forbid it")
]
Seconds = Annotated[
    float | None, typer.Option(help="time limit of each probe; with --serve, how long to serve [600]")
]
Json = Annotated[
    str | None, typer.Option(metavar="[FILE]", help="one JSON line a probe, to FILE or standard output")
]
Html = Annotated[
    str | None, typer.Option(metavar="FILE", help="the results with a figure of the tiers as one HTML file")
]
