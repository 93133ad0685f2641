"""From `--pid N` or no argument at all to what can be recorded: addresses, facts, gaps, processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from kvdoctor.commands.output import print_note
from kvdoctor.errors import KvdoctorError
from kvdoctor.model import Gap

if TYPE_CHECKING:
    from kvdoctor.recording import Recording
    from kvdoctor.target.describe import Target
    from kvdoctor.target.family import Family
    from kvdoctor.target.look import Look

USAGE = 2
"""Exit code when we have to ask which process is meant."""
_OF_MODEL = ("model", "model_config", "model_side")


@dataclass(frozen=True, slots=True)
class Attached:
    """What a process gives to record."""

    urls: tuple[str, ...]
    facts: dict[str, str]
    gaps: tuple[Gap, ...]
    family: Family


def attach(
    pid: int | None, urls: Sequence[str], told: Mapping[str, str], *, seen: Look | None = None
) -> Attached:
    """Find the process, or the only one there is, and describe it.

    A URL that the user gave goes before the one that was found, and so does a fact. KvdoctorError when there
    is no process; exit code 2 and a list when there are several and none was named.
    """
    from kvdoctor.target.look import look

    seen = seen or look()
    target = _named(seen, pid) if pid is not None else _only(seen)
    found = (target.page.url,) if target.page.readable and target.page.url else ()
    gaps = [gap for gap in target.gaps if not (urls and gap in target.page.gaps)]
    if "model_config" in told:
        gaps = [gap for gap in gaps if gap.source != "model"]
    return Attached(
        urls=tuple(urls) or found,
        facts=merged(dict(target.facts), told),
        gaps=(*seen.scan.gaps, *gaps),
        family=target.family,
    )


def record_process(
    pid: int | None,
    urls: Sequence[str],
    *,
    seconds: float,
    interval_s: float,
    told: Mapping[str, str],
    save: str | None,
    api_key: str | None,
) -> Recording:
    """Record the engine that a pid, or nothing at all, stands for: its page where it has one, and its host."""
    from kvdoctor.commands.live import record_live

    if api_key is not None and not urls:
        hint = "give the address that the key is for: --url http://HOST:PORT"
        raise KvdoctorError("a key goes only to an address that you give, not to one that was found", hint)
    found = attach(pid, urls, told)
    print_note(
        f"attached to pid {found.family.root}: " + (found.urls[0] if found.urls else "no metrics page")
    )
    return record_live(
        found.urls,
        seconds=seconds,
        interval_s=interval_s,
        facts=found.facts,
        save=save,
        api_key=api_key,
        family=found.family,
        known=found.gaps,
        given=bool(urls),
    )


def merged(found: Mapping[str, str], told: Mapping[str, str]) -> dict[str, str]:
    """Lay what the user told over what was found; a model is told as a whole."""
    kept = {key: value for key, value in found.items() if not ("model_config" in told and key in _OF_MODEL)}
    return {**kept, **told}


def _named(seen: Look, pid: int) -> Target:
    target = seen.at(pid)
    if target is None:
        hint = "kvdoctor targets lists the inference processes that can be seen from here"
        raise KvdoctorError(f"there is no process {pid}, or it is the kernel's own", hint)
    _check_is_one(seen, pid, target)
    return target


def _check_is_one(seen: Look, pid: int, target: Target) -> None:
    """Refuse what only stands above engines, such as init or a shell: its family is everybody."""
    members = {member.pid for member in target.family.members}
    below = [kin for kin in seen.engines() if {p.pid for p, _ in kin.members} < members]
    if below:
        root = below[0].members[0][0].pid
        raise KvdoctorError(
            f"process {pid} is no inference engine; {below[0].engine} runs below it, as pid {root}",
            f"kvdoctor diagnose --pid {root}; kvdoctor targets lists all of them",
        )


def _only(seen: Look) -> Target:
    """Return the only engine; without an engine, the only process that surely computes and shows that it serves."""
    from kvdoctor.target.describe import describe
    from kvdoctor.target.look import serves

    engines = [kin for kin in seen.engines() if serves(kin)]
    if len(engines) == 1:
        return describe(seen.host, engines[0])
    if engines:
        raise _ask([describe(seen.host, kin) for kin in engines])
    loops = seen.loops()
    sure = [seen.loop(found) for found in loops if found.is_sure and found.serving]
    if len(sure) == 1:
        return sure[0]
    if sure:
        raise _ask(sure)
    raise _none(seen, [seen.loop(found) for found in loops])


def _ask(targets: Sequence[Target]) -> typer.Exit:
    """List what there is, and return the exit code of a wrong usage."""
    from kvdoctor.commands.listing import short_line

    print_note(f"{len(targets)} inference processes run here. Which one?")
    for target in targets:
        print_note(short_line(target))
    return typer.Exit(USAGE)


def _none(seen: Look, unsure: Sequence[Target]) -> KvdoctorError:
    from kvdoctor.target.elsewhere import outside_line

    if unsure:
        named = "; ".join(f"pid {target.family.root}: {target.sign}" for target in unsure[:3])
        hint = f"if it is one: --pid {unsure[0].family.root}"
        return KvdoctorError(f"no engine runs here that is known; perhaps {named}", hint)
    stores = [kin for kin in seen.engines()]
    if stores:
        hint = "give the engine's own address: --url http://HOST:PORT"
        return KvdoctorError("only KV stores run here, and no engine that can be seen", hint)
    where = "; this is a container, from where others cannot be seen" if seen.is_inside else ""
    hint = outside_line() if seen.is_inside else "give its address: kvdoctor diagnose --url http://HOST:PORT"
    return KvdoctorError(f"no inference process is visible here{where}", hint)
