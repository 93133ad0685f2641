"""The process at the head of a family, taken apart: its options, its environment, its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvdoctor.target.environment import environment
from kvdoctor.target.kin import Kin
from kvdoctor.target.process import Proc
from kvdoctor.target.rooted import View
from kvdoctor.target.serving import SERVING
from kvdoctor.target.words import Command, Options, command, options

_SUBCOMMANDS = frozenset(("serve", "server", "api_server"))


@dataclass(frozen=True, slots=True)
class Head:
    """What the root of a family was started with."""

    pid: int
    words: Command | None
    options: Options
    environment: Mapping[str, str]
    view: View | None
    """Its own tree of files; None where it is closed to us."""
    cwd: str
    exe: str
    model: str
    """As its command line or its environment names it, empty where neither does."""


def head(proc: Proc, kin: Kin) -> Head:
    """Take the root of a family apart. The options of a program that is no engine's own are not interpreted."""
    pid, match = kin.root.pid, kin.root.match
    words = command(kin.root.argv)
    is_engine = match is not None and match.engine == kin.engine and not match.by_title
    parsed = options(words.rest) if words is not None and is_engine else Options({}, ())
    found = environment(proc, pid)
    ids = proc.ids(pid) if proc.may_look(pid) else None
    return Head(
        pid=pid,
        words=words,
        options=parsed,
        environment=found,
        view=View(str(proc.root / str(pid) / "root"), ids) if ids is not None else None,
        cwd=proc.link(pid, "cwd") or "",
        exe=proc.link(pid, "exe") or "",
        model=_model(kin.engine, parsed, found),
    )


def _model(engine: str, parsed: Options, found: Mapping[str, str]) -> str:
    serving = SERVING[engine]
    named = parsed.value(*serving.model) or found.get(serving.model_env, "")
    plain = [word for word in parsed.positional if word not in _SUBCOMMANDS]
    return named or (plain[0] if plain else "")
