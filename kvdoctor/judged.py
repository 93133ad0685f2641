"""Every engine of a recording judged by itself: its case, its judgement, its restarts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvdoctor import metrics as m
from kvdoctor.case import Case, build_case
from kvdoctor.causes import CAUSES
from kvdoctor.engines import layers_of, recognise
from kvdoctor.engines.engine import Engine
from kvdoctor.hostread import KIND, families, host_of, host_view
from kvdoctor.joined import Joined, layer_lines
from kvdoctor.judge import Judgement, judge
from kvdoctor.machine import machine
from kvdoctor.model import Metric, State
from kvdoctor.models import apart, several
from kvdoctor.recording import Recording, Source
from kvdoctor.segment import chosen, restarts
from kvdoctor.service import Objective
from kvdoctor.timeline import Timeline
from kvdoctor.unmetered import unmetered

TTFT_P95, ITL_P95 = 2.0, 0.05
"""Objectives where the operator states none, in seconds (rule 1)."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One engine with its case and its judgement."""

    case: Case
    judgement: Judgement
    restarts: int


def objective(facts: dict[str, str]) -> Objective:
    """Return the stated objectives, the defaults where none is stated."""
    ttft, itl = facts.get("slo_ttft"), facts.get("slo_itl")
    return Objective(float(ttft or TTFT_P95), float(itl or ITL_P95), stated=bool(ttft or itl))


def _timeline(source: Source, engine: Engine) -> Timeline | None:
    """Take the newest stretch without a restart; a single reading stands for the engine's life."""
    part = chosen(source, engine)
    if part is None:
        return None
    return Timeline(source, engine, part.first if part.last > part.first else -1, part.last)


def _joined(own: Timeline, around: Sequence[Source], alone: bool) -> Joined:
    """Bring the layers of the engine's own page and of other sources to it; `alone`: it is their only engine."""
    start, end = own.source.at[max(0, own.first)], own.source.at[own.last]
    lifetime = own.first < 0
    seen = layer_lines((own.source,), start, end, lifetime=lifetime)
    inside = tuple(line for line in seen if line.engine is not own.engine)
    outside = layer_lines(around, start, end, lifetime=lifetime)
    return Joined(own, (*inside, *outside) if alone else inside, () if alone else outside)


def judge_source(
    source: Source,
    engine: Engine,
    facts: dict[str, str],
    host: Sequence[Source] = (),
    around: Sequence[Source] = (),
    *,
    alone: bool = True,
) -> Judged | None:
    """Judge one engine, with what its host and the KV layers in the sources `around` it tell.

    `alone` says that no other engine of the recording may use these layers. None for a source that was never read.
    """
    own = _timeline(source, engine)
    if own is None:
        return None
    timeline = _joined(own, around, alone)
    known = machine(facts, timeline.label(m.CACHE_CONFIG, "cache_dtype"))
    view = host_view(host, source.at[max(0, timeline.first)], source.at[timeline.last])
    case = build_case(timeline, known, objective(facts), facts, view)
    findings = tuple(finding for cause in CAUSES for finding in cause(case))
    return Judged(case, judge(case, findings, facts.get("slow")), len(restarts(source, engine)))


def judge_engines(recording: Recording) -> list[Judged]:
    """Judge every engine, each with its host and with the KV layers around it."""
    sources = [source for source in recording.sources if source.kind != KIND]
    seen = [(source, recognise((c.name, c.labels) for c in source.columns)) for source in sources]
    pages = [(source, engine) for source, engine in seen if engine is not None]
    engines = [(each, engine) for source, engine in pages for each in _models(source, engine)]
    around_them = [source for source, engine in seen if engine is None]
    alone = sum(1 for _, engine in engines if not engine.role) == 1
    found = []
    for source, engine in engines:
        host = host_of(recording, source, len(pages))
        layers = around_them if not engine.role else ()
        found.append(judge_source(source, engine, recording.facts, host, layers, alone=alone))
    return [each for each in found if each is not None]


def _models(source: Source, engine: Engine) -> tuple[Source, ...]:
    own = _timeline(source, engine) if several(source, engine) else None
    return apart(own) if own is not None else (source,)


def judge_layers(recording: Recording) -> list[Judged]:
    """Show the KV layers and exporters of a recording without an engine: nothing is ever named from them alone."""
    found = []
    for source in recording.sources:
        for layer in layers_of((c.name, c.labels) for c in source.columns) if source.kind != KIND else ():
            judged = judge_source(source, layer, recording.facts)
            if judged is not None:
                insufficient = replace(
                    judged.judgement,
                    state=State.INSUFFICIENT,
                    finding=None,
                    by_metric=dict.fromkeys(Metric, State.INSUFFICIENT),
                )
                found.append(replace(judged, judgement=insufficient))
    return found


def judge_hosts(recording: Recording) -> list[Judged]:
    """Judge each family without metrics by what its host tells."""
    judged = []
    for sources in families(recording).values():
        case, judgement = unmetered(sources, recording.facts, objective(recording.facts))
        judged.append(Judged(case, judgement, 0))
    return judged
