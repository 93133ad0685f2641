"""`kvdoctor roofline URL|PID`: shape, dtypes, batch, live context and pool of a server that runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline import kv
from kvdoctor.roofline.asked import Asked, shape_asked, storage_of
from kvdoctor.roofline.config import shape_from_config
from kvdoctor.roofline.shape import Layout, ModelShape
from kvdoctor.roofline.source import shape_of

if TYPE_CHECKING:
    from kvdoctor.recording import Source
    from kvdoctor.target.describe import Target
    from kvdoctor.traffic import Traffic

# Two readings a second apart tell what runs now; a longer watch is what `kvdoctor diagnose` is for.
_SECONDS, _INTERVAL = 1.0, 1.0
# Engines' names of KV dtypes that mean the model's own.
_AUTO = ("auto", "")


@dataclass(frozen=True, slots=True)
class Running:
    """What a server tells. Absent facts are None."""

    shape: ModelShape | None = None
    facts: dict[str, str] = field(default_factory=dict)
    """tp, pp, kv_dtype, block_size as its command line has them."""
    gpu: str | None = None
    batch: float | None = None
    context: float | None = None
    pool_tokens: float | None = None
    block_size: float | None = None
    kv_dtype: str | None = None
    notes: tuple[str, ...] = ()


def filled(asked: Asked) -> tuple[Asked, ModelShape]:
    """The options with what the server tells where the user left them out, and the shape with what to mind.

    Raises KvdoctorError where there is no such server or nothing tells its model.
    """
    found = running(int(asked.model)) if asked.model.isdigit() else _by_url(asked.model)
    if found.shape is None:
        raise KvdoctorError(
            f"{asked.model} does not tell a model that is known here",
            "give its config.json in place of the URL, with --batch, --context and --pool",
        )
    asked = replace(
        asked,
        gpu=asked.gpu or found.gpu,
        tp=asked.tp or _whole(found.facts.get("tp")),
        pp=asked.pp if asked.pp != 1 else _whole(found.facts.get("pp")) or 1,
        kv_dtype=asked.kv_dtype or found.facts.get("kv_dtype") or found.kv_dtype,
        block_size=int(found.block_size) if found.block_size and asked.block_size == 16 else asked.block_size,
        batch=asked.batch or found.batch,
        context=asked.context or (f"{found.context:.0f}" if found.context else None),
    )
    shape = shape_asked(asked, found.shape)
    if asked.pool is None and found.pool_tokens:
        asked = replace(asked, pool=f"{_pool_bytes(asked, shape, found.pool_tokens):.0f}B")
    return asked, replace(shape, warnings=(*found.notes, *shape.warnings))


def _whole(text: str | None) -> int | None:
    """A count that a command line states."""
    return int(text) if text and text.isdigit() and int(text) else None


def _pool_bytes(asked: Asked, shape: ModelShape, tokens: float) -> float:
    """Bytes of a pool that the engine counts in tokens."""
    layout = Layout(tp=asked.tp or 1, pp=asked.pp, dp_attention=asked.dp_attention, dcp=asked.dcp)
    return tokens * kv.growth_bytes(shape, layout=layout, storage=storage_of(asked))


def running(pid: int) -> Running:
    """What the process list, its command line, its files and its metrics tell."""
    from kvdoctor.target.look import look

    target = look().at(pid)
    if target is None:
        raise KvdoctorError(f"there is no process {pid}", "kvdoctor targets lists the engines here")
    facts = dict(target.facts)
    live = _by_url(target.page.url) if target.page.readable and target.page.url else Running()
    gaps = tuple(f"{gap.source}: {gap.reason}" for gap in target.gaps if gap.source in ("model", "metrics"))
    return replace(
        live,
        shape=_shape_of_facts(facts) or live.shape,
        facts=facts,
        gpu=_card(target),
        notes=(*live.notes, *gaps),
    )


def _card(target: Target) -> str | None:
    """The name of the process's first GPU."""
    return next((card.name for card in target.family.cards if card.name), None)


def _shape_of_facts(facts: dict[str, str]) -> ModelShape | None:
    """The shape of the config that a process has loaded; None where its files are closed to us."""
    text, side = facts.get("model_config"), facts.get("model_side")
    if not text:
        return None
    return shape_from_config(
        json.loads(text), side=json.loads(side) if side else None, name=Path(facts.get("model", "")).name
    )


def _by_url(url: str) -> Running:
    """What the metrics page and the list of models tell."""
    from kvdoctor.clock import SystemClock
    from kvdoctor.collectors.prometheus import Endpoint
    from kvdoctor.record import record

    recording = record([Endpoint(url)], seconds=_SECONDS, interval_s=_INTERVAL, clock=SystemClock())
    source = recording.sources[0] if recording.sources else None
    if source is None or not source.at:
        reasons = [gap.reason for gap in recording.gaps]
        cures = [gap.cure for gap in recording.gaps if gap.cure]
        raise KvdoctorError(
            f"{url}: {'; '.join(reasons) or 'no answer'}", cures[0] if cures else "check the URL"
        )
    return _told(source)


def _told(source: Source) -> Running:
    """The running batch now, the mean context now or since the start, and the pool."""
    from kvdoctor import metrics as m
    from kvdoctor.engines import recognise
    from kvdoctor.timeline import Timeline
    from kvdoctor.traffic import traffic

    engine, shape = recognise(c.name for c in source.columns), _listed(source.texts.get("models", ""))
    if engine is None:
        note = "its metrics are of no engine that is known here: batch, context and pool are not its own"
        return Running(shape=shape, notes=(note,))
    last = len(source.at) - 1
    now, life = (traffic(Timeline(source, engine, first, last)) for first in (0 if last else -1, -1))
    running = now.running.mean if now.running else None
    dtype = Timeline(source, engine, -1, last).label(m.CACHE_CONFIG, "cache_dtype")
    return Running(
        shape=shape,
        batch=running or None,
        context=now.context or life.context,
        pool_tokens=life.pool_tokens,
        block_size=life.block_size,
        kv_dtype=None if (dtype or "") in _AUTO else dtype,
        notes=_notes(running, now, life),
    )


def _notes(running: float | None, now: Traffic, life: Traffic) -> tuple[str, ...]:
    """What of the load was not there to read."""
    found = []
    if not running:
        found.append("nothing runs on the server now: the batch is the one asked for, or 1")
    if not now.context and life.context:
        found.append("the context is the mean since the server's start")
    if not life.context:
        found.append("the server has served nothing yet: the context is the one asked for, or 4,096 tokens")
    return tuple(found)


def _listed(models: str) -> ModelShape | None:
    """The shape of the first model in the server's list: its folder where it is on this machine, else a preset."""
    if not models:
        return None
    for model in json.loads(models):
        for name in (model.get("root"), model.get("id")):
            if not name or (str(name).startswith("/") and not Path(str(name)).exists()):
                continue
            try:
                return shape_of(str(name))
            except KvdoctorError:
                continue
    return None
