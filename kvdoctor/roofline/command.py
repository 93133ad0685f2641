"""`kvdoctor roofline`: parse, call, print. Everything heavy is imported once the options are known."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kvdoctor.commands.light import LightCommand
from kvdoctor.errors import KvdoctorError

if TYPE_CHECKING:
    from kvdoctor.roofline.report import Report

EXAMPLES = """\b
Examples:
  kvdoctor roofline Llama-3.1-8B --gpu H100 --batch 32 --context 8k
  kvdoctor roofline ./model --gpu auto --measured probe.json --sweep batch
  kvdoctor roofline DeepSeek-V3 --gpu H200 --gpus 8 --kv-dtype fp8 --batch 64
  kvdoctor roofline Llama-2-70B --gpu H100 --claim "85 tok/s"
  kvdoctor roofline Qwen3-32B --gpu L40S --context 4k:3,32k:1 --html out.html
  kvdoctor roofline --example
"""

Model = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        help="config.json or its folder, the name of a known model, or a running server's URL or pid",
    ),
]
Gpu = Annotated[
    str | None, typer.Option(metavar="NAME|auto", help="card: H100, A100-40GB, L4; auto is this machine's")
]
Gpus = Annotated[int | None, typer.Option(help="GPUs of the service [tp x pp]")]
Tp = Annotated[int | None, typer.Option(help="tensor-parallel ranks [all GPUs of a stage]")]
Pp = Annotated[int, typer.Option(help="pipeline stages")]
DpAttention = Annotated[int, typer.Option(help="copies of the attention, each with its own sequences")]
Ep = Annotated[int | None, typer.Option(help="ranks that share the experts [tp]")]
Dcp = Annotated[int, typer.Option(help="ranks that share a sequence's KV by tokens")]
Batch = Annotated[float | None, typer.Option(help="sequences that decode together, also a mean [1]")]
Context = Annotated[
    str | None,
    typer.Option(metavar="TOKENS", help="live tokens a sequence: 8192, 128k, or a mix as 4k:3,32k:1 [4k]"),
]
Weights = Annotated[
    str | None,
    typer.Option(
        metavar="FORMAT", help="fp8, int4-g128, bf16,experts=mxfp4, int8,head=int8, or a file's 4.58GiB"
    ),
]
KvDtype = Annotated[
    str | None, typer.Option(help="auto, bf16, fp8, int8, int4, nvfp4, q8_0, fp8_ds_mla [auto]")
]
StateDtype = Annotated[
    str | None, typer.Option(help="of recurrent states [fp32]; bf16 is vLLM's auto for most")
]
IndexDtype = Annotated[str | None, typer.Option(help="of sparse attention's index keys [fp8 with a scale]")]
Windows = Annotated[str, typer.Option(help="what sliding layers keep: exact, vllm, llamacpp, full")]
InFlight = Annotated[int, typer.Option(help="tokens of one step that a window must also hold")]
Latent = Annotated[str, typer.Option(help="layout of MLA latents: plain, padded, both")]
DraftKv = Annotated[bool, typer.Option("--draft-kv", help="count the KV of the checkpoint's draft layers")]
BlockSize = Annotated[int, typer.Option(help="tokens of a KV block")]
Pool = Annotated[
    str | None, typer.Option(metavar="GIB", help="KV pool of one rank, as the engine's log says")
]
Utilization = Annotated[
    float, typer.Option(help="share of the card for weights and pool, where no --pool is given")
]
Bandwidth = Annotated[
    str | None, typer.Option(metavar="GB/S", help="memory bandwidth in place of the data sheet's")
]
Measured = Annotated[
    str | None, typer.Option(metavar="FILE", help="likewise, from the JSON of kvdoctor probe decode or hbm")
]
Memory = Annotated[str | None, typer.Option(metavar="GIB", help="memory of one GPU")]
Peak = Annotated[float | None, typer.Option(metavar="TFLOPS", help="dense peak of one GPU")]
Link = Annotated[str | None, typer.Option(metavar="GB/S", help="one direction between the ranks")]
DraftTokens = Annotated[int, typer.Option(help="drafted tokens a step")]
Accept = Annotated[
    float | None, typer.Option(help="share of drafted tokens accepted (0 to 1), or tokens a step (above 1)")
]
Sweep = Annotated[str | None, typer.Option(metavar="batch|context", help="table and curves over a range")]
Claim = Annotated[
    str | None, typer.Option(metavar="RATE", help='is it possible: "85 tok/s", "2300 tok/s total", "12 ms"')
]
Example = Annotated[bool, typer.Option("--example", help="the worked example, rounded and exact")]
Json = Annotated[str | None, typer.Option(metavar="[FILE]", help="JSON to FILE, or to standard output")]
Html = Annotated[str | None, typer.Option(metavar="FILE", help="the answer with figures as one HTML file")]


def roofline(
    model: Model = None,
    gpu: Gpu = None,
    gpus: Gpus = None,
    tp: Tp = None,
    pp: Pp = 1,
    dp_attention: DpAttention = 1,
    ep: Ep = None,
    dcp: Dcp = 1,
    batch: Batch = None,
    context: Context = None,
    weights: Weights = None,
    kv_dtype: KvDtype = None,
    state_dtype: StateDtype = None,
    index_dtype: IndexDtype = None,
    windows: Windows = "exact",
    in_flight: InFlight = 0,
    latent: Latent = "plain",
    draft_kv: DraftKv = False,
    block_size: BlockSize = 16,
    pool: Pool = None,
    utilization: Utilization = 0.9,
    bandwidth: Bandwidth = None,
    measured: Measured = None,
    memory: Memory = None,
    peak: Peak = None,
    link: Link = None,
    draft_tokens: DraftTokens = 0,
    accept: Accept = None,
    sweep: Sweep = None,
    claim: Claim = None,
    example: Example = False,
    json: Json = None,
    html: Html = None,
) -> None:
    """What a model reads in a step, what that caps, what fits, and what each change would buy."""
    _answer(dict(locals()))


def _answer(options: dict[str, Any]) -> None:
    """Answer for the model that is named, or that a server runs; or show the example."""
    model, (example, json, html) = options["model"], [options.pop(n) for n in ("example", "json", "html")]
    if example:
        _example(json or html)
        return
    if model is None:
        raise KvdoctorError("no model is named", "give a config.json, a known model's name, or --example")
    from kvdoctor.commands import destination
    from kvdoctor.roofline.asked import Asked, report_of

    named = {"json": json, "html": html}
    destination.check([(name, where) for name, where in named.items() if where is not None], None)
    asked, shape = Asked(**options), None
    if model.isdigit() or model.lower().startswith(("http://", "https://")):
        from kvdoctor.commands.running import filled

        asked, shape = filled(asked)
    _show(report_of(asked, shape, figures=html is not None), json, html)


def _example(elsewhere: str | None) -> None:
    """Print the worked example."""
    if elsewhere:
        raise KvdoctorError("--example is text only", "leave out --json and --html")
    from kvdoctor.render import roofline_example

    sys.stdout.write(roofline_example.render())


def _show(report: Report, json: str | None, html: str | None) -> None:
    """Write what was asked for; the text too, unless JSON takes standard output."""
    if json is not None:
        from kvdoctor.render import roofline_json

        _write(roofline_json.render(report), json)
    if html is not None:
        from kvdoctor.render import roofline_html

        _write(roofline_html.render(report), html)
    if "-" not in (json, html):
        from kvdoctor.render import roofline_text

        _write(roofline_text.render(report), "-")


def _write(text: str, where: str) -> None:
    """Write to standard output for `-`, else to a file, and say so."""
    if where == "-":
        sys.stdout.write(text)
        return
    try:
        Path(where).write_text(text, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise KvdoctorError(
            f"{where} can't be written: {reason}", "name a file in a folder that exists"
        ) from error
    sys.stderr.write(f"{where} written\n")


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(
        name="roofline",
        short_help="the budget of a decode step, and what would help",
        epilog=EXAMPLES,
        cls=LightCommand,
    )(roofline)
