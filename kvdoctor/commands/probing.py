"""Running probes one after the other: the cost said first, a result or a refusal of each, and nothing in silence."""

from __future__ import annotations

import dataclasses
import importlib
import os
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvdoctor import __version__
from kvdoctor.collectors.chosen import Service
from kvdoctor.commands.card import Grant, granted
from kvdoctor.commands.interpreter import python_for
from kvdoctor.commands.probe_refusal import forbidden
from kvdoctor.errors import Absent, KvdoctorError, Unavailable
from kvdoctor.probes import PROBES
from kvdoctor.probes.child import IDLE, Stopped, run_child
from kvdoctor.probes.footprint import Footprint
from kvdoctor.probes.inside import options_of
from kvdoctor.units import duration, gib

SCHEMA = 1
WIDTH = 79
SLACK = 2.0
"""The time limit over the seconds that a probe says it takes: a busy machine is slower."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One probe with its options as JSON has them, and where it runs."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    python: str | None = None
    pid: int | None = None
    service: Service | None = None
    """Whom it runs beside, as far as that is seen here."""
    stop: Callable[[], str] | None = None
    limit_s: float | None = None
    force: bool = False
    """Run although something forbids it."""


def footprint(asked: Asked) -> Footprint:
    """Return what a probe is going to take at most."""
    module = importlib.import_module(PROBES[asked.name].module)
    found: Footprint = module.footprint(options_of(module.Options, asked.options))
    return found


def cost_line(name: str, cost: Footprint) -> str:
    """Say what a probe takes at most."""
    parts = [f"up to {duration(cost.seconds)}"]
    for size, what in (
        (cost.host_bytes, "of memory"),
        (cost.device_bytes, "of a GPU where there is one"),
        (cost.disk_bytes, "on disk"),
        (cost.moved_bytes, "moved at most"),
    ):
        if size:
            parts.append(f"{gib(size)} {what}")
    text = f"{name}: {', '.join(parts)}" + (f"; loads {cost.loads}" if cost.loads else "")
    return textwrap.fill(
        text, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def run_all(plan: Sequence[Asked]) -> Iterator[dict[str, Any]]:
    """Run each probe and yield its JSON object: with rows, or with `refused` or `failed` and the cure.

    What was refused says in `how` whether it is `not available`, was `refused`, or `ended` while it ran.
    """
    for asked in plan:
        yield run_one(asked)


def run_one(asked: Asked) -> dict[str, Any]:
    """Run a probe in a child process, after saying what it takes."""
    head: dict[str, Any] = {"schema_version": SCHEMA, "kvdoctor": __version__, "probe": asked.name}
    head["at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    begin = time.monotonic()
    try:
        cost = footprint(asked)
        head["footprint"] = dataclasses.asdict(cost)
        if asked.stop is not None and (reason := asked.stop()):
            raise Unavailable(f"before it started, {reason}", IDLE)
        print_lines(cost_line(asked.name, cost))
        grant = _grant(asked, cost)
        head |= grant.told
        _ask(asked, grant)
        python = python_for(PROBES[asked.name].torch, given=asked.python, pid=asked.pid)
        result = _child(asked, grant, cost, python)
    except Unavailable as refused:
        return {**head, "refused": {"reason": refused.reason, "cure": refused.cure, "how": _how(refused)}}
    except KvdoctorError as error:
        return {**head, "failed": {"reason": error.message, "cure": error.hint}}
    return {**head, **result, "seconds": time.monotonic() - begin, "python": os.path.basename(python)}


def _how(refused: Unavailable) -> str:
    if isinstance(refused, Absent):
        return "not available"
    return "ended" if isinstance(refused, Stopped) else "refused"


def _grant(asked: Asked, cost: Footprint) -> Grant:
    """Return the card that the probe gets; Unavailable where it may have none, unless it is forced."""
    device = str(asked.options.get("device", "cpu"))
    if not cost.device_bytes or device == "cpu":
        return Grant()
    try:
        return granted(
            cost.device_bytes,
            device,
            service=asked.service,
            more=asked.name == "pcie",
            force=asked.force,
        )
    except Unavailable:
        if not asked.force:
            raise
        return Grant()


def _ask(asked: Asked, grant: Grant) -> None:
    """Raise Unavailable where something but the card forbids it, unless it is forced; `request` is one prompt."""
    if asked.force or asked.name == "request":
        return
    pids = asked.service.pids if asked.service is not None else frozenset()
    forbidden(asked.name, str(asked.options.get("path", ".")), pids, card=bool(grant.told))


def _child(asked: Asked, grant: Grant, cost: Footprint, python: str) -> dict[str, Any]:
    """Run the child with a line of progress."""
    with _Bar() as bar:
        return run_child(
            asked.name,
            {**asked.options, **grant.options},
            limit_s=asked.limit_s or SLACK * cost.seconds,
            python=python,
            tell=bar.show,
            stop=asked.stop,
            env=grant.environment,
        )


def print_lines(text: str) -> None:
    """Say several lines on standard error, in their columns."""
    from kvdoctor.render.text import clean

    for line in text.splitlines():
        parts = re.split(r"( +)", line)
        sys.stderr.write("".join(part if part.isspace() else clean(part) for part in parts) + "\n")
    sys.stderr.flush()


class _Bar:
    """One line on a terminal's standard error that is written over."""

    WIDTH = 24

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()

    def __enter__(self) -> _Bar:
        return self

    def show(self, doing: str, share: float) -> None:
        """Show the share that is done and what is being done."""
        if self._on:
            full = round(self.WIDTH * min(1.0, max(0.0, share)))
            sys.stderr.write(f"\r  [{'#' * full}{'.' * (self.WIDTH - full)}] {doing[:50]:<50}")
            sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        if self._on:
            sys.stderr.write("\r" + " " * 79 + "\r")
