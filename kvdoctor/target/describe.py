"""From a family of processes to everything that can be said about it without asking it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.model import Gap
from kvdoctor.secrets import clean, mask_argv
from kvdoctor.service import TargetInfo
from kvdoctor.target.address import Page, Question, find_page
from kvdoctor.target.family import Card, Family, Member, Mount
from kvdoctor.target.flags import flag_facts, unread_settings
from kvdoctor.target.gpu import Devices, cards_of, minors
from kvdoctor.target.head import Head, head
from kvdoctor.target.installed import DISTRIBUTIONS, package_folders, prefixes, release
from kvdoctor.target.kin import Kin, title
from kvdoctor.target.modelfiles import Served, Sight, served
from kvdoctor.target.mounts import cgroups_of, mount_of
from kvdoctor.target.namespaces import Namespaces, in_container, namespaces
from kvdoctor.target.patience import Patience
from kvdoctor.target.process import Proc
from kvdoctor.target.program import as_root, program

COMMAND = 2000
"""Characters kept of a masked command line."""
FILES_SECONDS = 3.0
"""For the files of one process: a network file system may answer slowly or not at all."""
_KV_FOLDERS = ("LMCACHE_LOCAL_DISK", "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR")
_SIDES = {"kv_producer": "prefill", "kv_consumer": "decode", "prefill": "prefill", "decode": "decode"}


@dataclass(frozen=True, slots=True)
class Target:
    """One family, described."""

    family: Family
    info: TargetInfo
    page: Page
    place: Namespaces
    command: str
    """The root's masked command line."""
    facts: tuple[tuple[str, str], ...]
    """For the recording."""
    gaps: tuple[Gap, ...]
    sign: str = ""
    """What speaks for it, where no fingerprint does."""
    is_sure: bool = True
    is_serving: bool = True
    """False for a process of no known engine that nothing shows to serve requests."""


@dataclass(frozen=True, slots=True)
class Host:
    """What all targets of one look at the host share."""

    proc: Proc
    patience: Patience
    devices: Devices
    uid: int
    """Ours."""


def describe(
    host: Host, kin: Kin, *, sign: str = "", is_sure: bool = True, is_serving: bool = True
) -> Target:
    """Describe one family. Whatever cannot be read is a gap with its cure."""
    proc, top = host.proc, head(host.proc, kin)
    members = tuple(_member(proc, kin, number) for number in range(len(kin.members)))
    place = namespaces(proc, top.pid)
    model = _model(host, top)
    family = Family(
        engine=kin.engine,
        root=top.pid,
        members=members,
        cards=_cards(host, members, top),
        cgroups=cgroups_of(proc, (m.pid for m in members)),
        net_namespace=proc.namespace(top.pid, "net"),
        mounts=_mounts(proc, top, model),
    )
    same_user = members[0].uid == host.uid
    page = find_page(Question(proc, family, top.options, top.environment, place, same_user))
    words = clean(" ".join(mask_argv(kin.root.argv)))[:COMMAND]
    facts, gaps = _facts(family, top, model)
    return Target(
        family=family,
        info=_info(host, family, top, page, dict(facts)),
        page=page,
        place=place,
        command=words,
        facts=(*facts, ("target_cmdline", words), *model.facts),
        gaps=(*page.gaps, *model.gaps, *gaps, *unread_settings(kin.engine, top.options)),
        sign=sign,
        is_sure=is_sure,
        is_serving=is_serving,
    )


def _member(proc: Proc, kin: Kin, number: int) -> Member:
    process, match = kin.members[number]
    ids = proc.ids(process.pid)
    return Member(
        pid=process.pid,
        ppid=process.stat.ppid,
        uid=ids.uid if ids is not None else -1,
        role=match.role,
        start_ticks=process.stat.start_ticks,
        title=title(process),
        ns_pid=ids.ns_pids[-1] if ids is not None else process.pid,
        rank=match.rank,
    )


def _cards(host: Host, members: tuple[Member, ...], top: Head) -> tuple[Card, ...]:
    opened = {member.pid: minors(host.proc, member.pid) for member in members}
    closed = frozenset(m.pid for m in members if not host.proc.may_look(m.pid))
    believed = frozenset() if in_container(host.proc) else closed
    return cards_of(host.devices, opened, (top.environment,), believed=believed)


def _model(host: Host, top: Head) -> Served:
    """Find the model's files, with a time limit."""
    if not top.model:
        return Served("")
    closed = as_root(f"{program()} diagnose --pid {top.pid}")
    sight = Sight(top.view, top.options, top.environment, top.cwd, closed)
    try:
        return host.patience.call(lambda: served(top.model, sight), seconds=FILES_SECONDS)
    except Unavailable as error:
        return Served(top.model, gaps=(Gap("model", f"its files: {error.reason}", error.cure),))


def _mounts(proc: Proc, top: Head, model: Served) -> tuple[Mount, ...]:
    """Return the file systems of the model's folder, and of folders that KV is kept in."""
    wanted = [(model.folder, "model")] if model.folder else []
    for name in _KV_FOLDERS:
        for folder in top.environment.get(name, "").split(","):
            path = folder.strip().removeprefix("file://").rstrip("/")
            wanted += [(path, "kv")] if path.startswith("/") else []
    found = (mount_of(proc, top.pid, path, purpose) for path, purpose in wanted)
    return tuple(mount for mount in found if mount is not None)


def _facts(family: Family, top: Head, model: Served) -> tuple[tuple[tuple[str, str], ...], tuple[Gap, ...]]:
    told = flag_facts(family.engine, top.options)
    told |= {"model": top.model} if top.model else {}
    facts = {"engine": family.engine, "pid": str(family.root)} | {k: clean(v) for k, v in told.items()}
    names = {card.name for card in family.cards if card.name}
    if len(names) != 1:
        gap = Gap(
            "gpu", f"cards of several kinds: {', '.join(sorted(names))}", "name the one that counts: --gpu"
        )
        return tuple(facts.items()), ((gap,) if names else ())
    from kvdoctor.roofline.hardware import gpu_by_name

    try:
        facts["gpu"] = gpu_by_name(names.pop()).name
    except KvdoctorError as error:
        return tuple(facts.items()), (Gap("gpu", error.message, error.hint),)
    return tuple(facts.items()), ()


def _info(host: Host, family: Family, top: Head, page: Page, facts: dict[str, str]) -> TargetInfo:
    return TargetInfo(
        engine=family.engine,
        version=_version(host, family.engine, top),
        model=facts.get("served_model_name") or facts.get("model") or None,
        role=_SIDES.get(facts.get("kv_role", "")),
        pid=family.root,
        url=page.url,
        ranks=tuple(m.rank for m in family.members if m.rank and m.role in ("worker", "scheduler")),
        gpus=tuple(card.name or card.uuid or f"GPU {card.index}" for card in family.cards),
        uptime_seconds=_uptime(host.proc, family.members[0].start_ticks),
    )


def _version(host: Host, engine: str, top: Head) -> str | None:
    view, name = top.view, DISTRIBUTIONS.get(engine)
    if view is None or name is None:
        return None
    where = prefixes(top.words, top.environment, top.exe)
    try:
        return host.patience.call(
            lambda: release(view, package_folders(view, where), name), seconds=FILES_SECONDS
        )
    except Unavailable:
        return None


def _uptime(proc: Proc, start_ticks: int) -> float | None:
    words = (proc.text("uptime") or "").split()
    try:
        return max(0.0, float(words[0]) - start_ticks / os.sysconf("SC_CLK_TCK"))
    except (IndexError, ValueError):
        return None
