"""The commands that answer: diagnose, report, diff."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from kvdoctor.errors import KvdoctorError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from kvdoctor.commands.output import Output
    from kvdoctor.model import Diagnosis
    from kvdoctor.recording import Recording

Noun = TypeVar("Noun", bound="DataclassInstance")

Gpu = Annotated[str | None, typer.Option(help="card, for its bandwidth: H100, A100-80GB, L4, ...")]
Bandwidth = Annotated[
    str | None,
    typer.Option(
        metavar="GB/S|FILE",
        help="HBM read rate in place of the data sheet: in GB/s, or the file of kvdoctor probe decode or hbm",
    ),
]
Model = Annotated[str | None, typer.Option(help="config.json, its folder, or the name of a known model")]
Tp = Annotated[int | None, typer.Option(help="tensor-parallel size of one rank [1]")]
Link = Annotated[float | None, typer.Option(help="rate of the link between instances in GB/s")]
Slow = Annotated[str | None, typer.Option(help="which latency is in question: ttft or itl")]
Slo = Annotated[str | None, typer.Option(help="objectives for p95, as ttft=2s,itl=50ms")]
Html = Annotated[
    str | None, typer.Option(metavar="FILE", help="write the report with figures as one HTML file")
]
Json = Annotated[str | None, typer.Option(metavar="[FILE]", help="JSON to FILE, or to standard output")]
Markdown = Annotated[str | None, typer.Option(metavar="[FILE]", help="Markdown for a ticket, likewise")]
FailOn = Annotated[
    str | None, typer.Option(metavar="BOUND[,..]", help="exit 3 if one is primary or contributing")
]
Url = Annotated[list[str] | None, typer.Option(help="metrics endpoint, may be given several times")]
Seconds = Annotated[float, typer.Option(help="how long to watch")]
Interval = Annotated[float, typer.Option(help="seconds between readings")]
Save = Annotated[str | None, typer.Option(metavar="FILE", help="where to save the recording")]
Pid = Annotated[
    int | None, typer.Option(help="any process of the engine; with --url, that page instead of its own")
]
ApiKey = Annotated[str | None, typer.Option(help="key for --url; better in KVDOCTOR_API_KEY")]
Prometheus = Annotated[str | None, typer.Option(metavar="URL", help="a server that speaks Prometheus' API")]
Since = Annotated[str, typer.Option(help="with --prometheus, how far back: 15m, 1h, 2d")]
Match = Annotated[
    list[str] | None, typer.Option(metavar="SELECTOR", help="with --prometheus, which series: 'pod=\"a\"'")
]
Probe = Annotated[bool, typer.Option("--probe", help="first measure the ceilings that may be measured here")]
Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FILE]...", help="recordings, saved metrics or logs; - is stdin"),
]


def _answer(recording: Recording, output: Output) -> NoReturn:
    """Judge a recording, show it, and leave with the exit code."""
    from kvdoctor.commands.output import show

    diagnosis = _judged(recording)
    _warn(diagnosis)
    raise typer.Exit(show(diagnosis, output))


def _warn(diagnosis: Diagnosis, when: str = "") -> None:
    """Say at once, before the report, what speaks against a probe's rate that was given."""
    from kvdoctor.commands.output import print_note
    from kvdoctor.machine import objections

    for gap in objections(diagnosis.gaps):
        print_note(f"kvdoctor: warning{when}: {gap.reason}; try: {gap.cure}")


def _judged(recording: Recording) -> Diagnosis:
    """Judge a recording; KvdoctorError when there is nothing in it to judge."""
    from kvdoctor.diagnose import diagnose

    names = ", ".join(source.name for source in recording.sources)
    if not any(source.at for source in recording.sources):
        from kvdoctor.model import Gap

        last = recording.gaps[-1] if recording.gaps else Gap(names, "it is empty", "record again")
        raise KvdoctorError(f"{last.source} holds no reading: {last.reason}", last.cure)
    diagnosis = diagnose(recording)
    if not diagnosis.targets and "pid" not in recording.facts:
        raise KvdoctorError(f"no engine that is known here exports {names}", "give the engine's own /metrics")
    return diagnosis


def diagnose(
    files: Files = None,
    pid: Pid = None,
    url: Url = None,
    seconds: Seconds = 15.0,
    interval: Interval = 1.0,
    slow: Slow = None,
    slo: Slo = None,
    gpu: Gpu = None,
    bandwidth: Bandwidth = None,
    model: Model = None,
    tp: Tp = None,
    link: Link = None,
    html: Html = None,
    json: Json = None,
    markdown: Markdown = None,
    save: Save = None,
    api_key: ApiKey = None,
    fail_on: FailOn = None,
    probe: Probe = False,
    prometheus: Prometheus = None,
    since: Since = "1h",
    match: Match = None,
) -> None:
    """Say where the milliseconds of TTFT and ITL go, what bounds them, and what would help.

    Watches the engine on this host, or endpoints, for some seconds; or reads files that were recorded before:
    recordings, saved metrics, logs; or asks a Prometheus server.

    \b
    kvdoctor diagnose
    kvdoctor diagnose --pid 4242
    kvdoctor diagnose --url http://host:8000
    kvdoctor diagnose --url http://host:8000 --gpu H100 --model Llama-3.1-8B --html report.html
    kvdoctor diagnose --url http://host:8000 --bandwidth probe.json
    kvdoctor diagnose recording.kvrec --slow itl --json
    kvdoctor diagnose vllm.log vllm.log.1.gz
    kvdoctor diagnose --prometheus http://prometheus:9090 --since 1h
    """
    _diagnose(dict(locals()))


def _diagnose(given: Mapping[str, Any]) -> NoReturn:
    """Read or watch what the command line names, and answer."""
    from kvdoctor.commands.facts import Told, facts
    from kvdoctor.commands.origin import Origin, recording_of
    from kvdoctor.commands.output import Output

    output = _own(Output, given)
    output.check(save=given["save"])
    _answer(recording_of(_own(Origin, given), facts(_own(Told, given))), output)


def _own(noun: type[Noun], given: Mapping[str, Any]) -> Noun:
    """Make a noun of those options that are its own, by name."""
    return noun(**{field.name: given[field.name] for field in fields(noun)})


def report(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="recordings, saved metrics or logs; - is stdin")
    ],
    slow: Slow = None,
    slo: Slo = None,
    gpu: Gpu = None,
    bandwidth: Bandwidth = None,
    model: Model = None,
    tp: Tp = None,
    link: Link = None,
    html: Html = None,
    json: Json = None,
    markdown: Markdown = None,
    fail_on: FailOn = None,
) -> None:
    """Make the report of a recording again. The same file gives the same report anywhere.

    \b
    kvdoctor report recording.kvrec --html report.html
    kvdoctor report before.kvrec --markdown
    """
    from kvdoctor.commands.facts import Told, facts
    from kvdoctor.commands.origin import read_files
    from kvdoctor.commands.output import Output

    output = Output(html, json, markdown, fail_on)
    output.check()
    _answer(read_files(files, facts(Told(gpu, bandwidth, model, tp, link, slow, slo))), output)


def diff(
    before: Annotated[str, typer.Argument(help="recording before the change")],
    after: Annotated[str, typer.Argument(help="recording after it")],
) -> None:
    """Compare two recordings, part by part: what a change bought.

    \b
    kvdoctor diff before.kvrec after.kvrec
    """
    from kvdoctor.commands.streams import console
    from kvdoctor.readers import read
    from kvdoctor.render import diff as comparison

    old, new = _judged(read([before])), _judged(read([after]))
    _warn(old, " of before")
    _warn(new, " of after")
    comparison.render(old, new, console())
