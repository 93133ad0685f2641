"""The command that shows what all this is for: a real engine with one known fault, diagnosed as a stranger's."""

from __future__ import annotations

import json as jsonlib
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kvdoctor.commands.judging import Html, Json, Seconds

if TYPE_CHECKING:
    from kvdoctor.commands.output import Output
    from kvdoctor.lab.scene import Scene
    from kvdoctor.lab.stage import Live
    from kvdoctor.model import Diagnosis

DEFAULT = "offload"
OBJECTIVES = "ttft=500ms,itl=30ms"
"""What a healthy lab server keeps with room to spare; told to every diagnosis alike."""
_ALL_FAILED = 1


Fault = Annotated[str, typer.Option(help="which fault, or two with a comma; --fault list names them")]
Seed = Annotated[int | None, typer.Option(help="draws the fault's magnitude; printed with the truth")]
Keep = Annotated[str | None, typer.Option(metavar="FILE", help="keep the recording")]
All = Annotated[bool, typer.Option("--all", help="every fault in turn, and a table of the answers")]


def demo(
    fault: Fault = DEFAULT,
    seconds: Seconds = 20.0,
    seed: Seed = None,
    html: Html = None,
    json: Json = None,
    save: Keep = None,
    all: All = False,
) -> None:
    """Start a real engine with one known fault, diagnose it like any stranger's, and tell the truth.

    Needs no GPU, two cores and about a minute; everything it starts is gone in the end. Needs kvdoctor[demo].

    \b
    kvdoctor demo
    kvdoctor demo --fault eviction --html report.html
    kvdoctor demo --fault capacity,host --seconds 30
    """
    from kvdoctor.commands.length import check_length
    from kvdoctor.commands.output import Output
    from kvdoctor.lab import stage
    from kvdoctor.store import Exists

    if fault == "list":
        sys.stdout.write("\n".join(_listed()) + "\n")
        return
    check_length(seconds, 1.0)
    stage.require()
    if all:
        from kvdoctor.commands.demo_all import every

        raise typer.Exit(0 if every(seconds, seed) else _ALL_FAILED)
    output = Output(html, json)
    output.check(save=save)
    if save and os.path.lexists(save):
        raise Exists(f"{save} exists already", "choose another name: nothing is written over")
    _one(fault, seconds, int.from_bytes(os.urandom(2), "big") if seed is None else seed, output, save)


def _listed() -> list[str]:
    """The faults, a line each."""
    from kvdoctor.lab.faults import FAULTS

    return [f"{fault.name:14} {fault.what}" for fault in FAULTS]


def _one(names: str, seconds: float, seed: int, output: Output, save: str | None) -> None:
    from kvdoctor.commands.output import print_note
    from kvdoctor.lab import faults, parent, stage, truth
    from kvdoctor.render import json as as_json

    chosen = faults.chosen(names)
    scene = faults.scene_of(chosen, seed)
    parent.follow(os.environ)
    with _ended_by_signals(), _progress() as say, stage.staged(scene, seed=seed, say=say) as live:
        say("")
        diagnosis = _diagnosed(live, scene, seconds, save)
        window = diagnosis.window
        live.end_load()
        clients = truth.seen(live.records, window.start, window.seconds)
    if save is None:
        print_note("that recording is gone with the demo; --save FILE keeps it")
    contract = jsonlib.loads(as_json.render(diagnosis))
    told = truth.truth(chosen, scene, seed, contract, clients)
    _show(diagnosis, contract, told, output)


def _diagnosed(live: Live, scene: Scene, seconds: float, save: str | None) -> Diagnosis:
    """What `kvdoctor diagnose --pid` does, with what an operator would tell: objectives, memory and link rates."""
    from kvdoctor.commands.attach import record_process
    from kvdoctor.commands.facts import Told, facts
    from kvdoctor.diagnose import diagnose
    from kvdoctor.units import GB

    told = facts(Told(bandwidth=live.read_bytes_per_s / GB, link=scene.link / GB, slo=OBJECTIVES))
    told["bandwidth_basis"] = "a plain read by one thread, measured before the server started"
    path = save or str(live.records.with_name("recording.kvrec"))
    recording = record_process(
        live.pid, (), seconds=seconds, interval_s=1.0, told=told, save=path, api_key=None
    )
    return diagnose(recording)


def _show(diagnosis: Diagnosis, contract: dict[str, Any], told: dict[str, Any], output: Output) -> None:
    """The diagnosis, then the truth; a report that cannot be written keeps neither back."""
    from kvdoctor.commands.destination import STDOUT
    from kvdoctor.commands.output import show
    from kvdoctor.lab import truth

    text = jsonlib.dumps(contract | {"truth": told}, indent=2, ensure_ascii=False) + "\n"
    try:
        show(diagnosis, output, made={"json": text})
    finally:
        if STDOUT not in (output.json, output.html):
            sys.stdout.write("\n" + "\n".join(truth.lines(told, contract)) + "\n")
            sys.stdout.flush()


@contextmanager
def _progress() -> Iterator[Any]:
    """One line on a terminal's standard error that is written over; a line a stage elsewhere."""
    shown = ""

    def say(text: str) -> None:
        nonlocal shown
        if sys.stderr.isatty():
            sys.stderr.write("\r" + f"  {text}".ljust(60) + ("" if text else "\r"))
        elif text and text.partition(":")[0] != shown:
            sys.stderr.write(f"{text}\n")
        shown = text.partition(":")[0]
        sys.stderr.flush()

    try:
        yield say
    finally:
        if sys.stderr.isatty():
            sys.stderr.write("\r" + " " * 60 + "\r")


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP clean up as Ctrl-C does."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
