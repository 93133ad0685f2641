"""From a Recording to a Diagnosis: every engine in it is judged, the one that costs most is answered for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvdoctor import __version__, around, overview, story
from kvdoctor import metrics as m
from kvdoctor.case import Case, build_case
from kvdoctor.causes import CAUSES
from kvdoctor.confidence import confidence
from kvdoctor.described import layer_info, target_info
from kvdoctor.engines import layers_of, recognise
from kvdoctor.engines.engine import Engine
from kvdoctor.hostnotes import host_notes
from kvdoctor.hostread import KIND, families, host_of, host_view
from kvdoctor.joined import Joined, layer_lines
from kvdoctor.judge import Judgement, judge, symptom
from kvdoctor.logdiagnose import beside, judge_logs, log_diagnosis
from kvdoctor.machine import machine
from kvdoctor.model import Bound, Confidence, Diagnosis, Finding, Gap, Ledger, Metric, State, Verdict
from kvdoctor.recording import Recording, Source
from kvdoctor.segment import chosen, restarts
from kvdoctor.service import Objective, Window
from kvdoctor.timeline import Timeline
from kvdoctor.told import sensible
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


def _window(judged: Judged, recording: Recording) -> Window:
    t, line = judged.case.traffic, judged.case.timeline
    start = line.source.wall + (line.source.at[max(0, line.first)] if line.source.at else 0.0)
    return Window(
        start=start,
        seconds=0.0 if t.lifetime else t.seconds,
        requests=t.first_tokens,
        finished=t.finished,
        restarts=judged.restarts,
        scrapes=len(line.readings),
        lifetime=t.lifetime,
        generated_tokens=t.generated,
        prompt_tokens=t.prompt_tokens,
    )


def _weight(judged: Judged) -> tuple[int, float]:
    """Order engines by how much there is to answer for: a bound first, then seconds spent by requests."""
    rank = {State.BOUND: 3, State.STALLED: 2, State.INSUFFICIENT: 1, State.HEALTHY: 1, State.IDLE: 0}
    return rank[judged.judgement.state], judged.case.currency * judged.case.traffic.first_tokens


def _contributing(case: Case, judgement: Judgement) -> tuple[tuple[Bound, str | None], ...]:
    """Other likely causes that cost something, costliest first, and the queue before a step that is full."""
    chosen_one = judgement.finding
    if chosen_one is None:
        return ()
    others = [
        f
        for f in judgement.findings
        if f.verdict is Verdict.LIKELY and (f.bound, f.subclass) != (chosen_one.bound, chosen_one.subclass)
    ]
    queue = symptom(case, chosen_one, judgement.findings)
    if queue is not None:
        others.append(queue)
    return tuple((f.bound, f.subclass) for f in sorted(others, key=lambda f: -f.share_seconds))


def _by_metric(judgement: Judgement) -> tuple[dict[str, str], dict[str, str | None]]:
    names: dict[str, str] = {}
    subclasses: dict[str, str | None] = {}
    for metric, named in judgement.by_metric.items():
        found = isinstance(named, Finding)
        names[metric.value] = named.bound.value if isinstance(named, Finding) else named.value
        subclasses[metric.value] = named.subclass if isinstance(named, Finding) and found else None
    return names, subclasses


def _paced_by(judgement: Judgement) -> str | None:
    """What sets the pace even where all is well: the named bound, else bandwidth when its reads fill the step."""
    if judgement.finding is not None:
        return judgement.finding.bound.value
    reads = any(f.verdict is Verdict.LIKELY and f.bound is Bound.BANDWIDTH for f in judgement.findings)
    return Bound.BANDWIDTH.value if reads else None


_RANK = {Verdict.LIKELY: 0, Verdict.POSSIBLE: 1, Verdict.RULED_OUT: 2, Verdict.NO_DATA: 3}


def _ranked(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Likely first, by cost; equal ones stay in the order of triage."""
    return tuple(sorted(findings, key=lambda f: (_RANK[f.verdict], -f.share_seconds)))


def _nothing(recording: Recording) -> Diagnosis:
    """The answer to a recording without any engine in it."""
    gap = Gap(
        "engine", "no engine that is known here was recognised in what was read", "check the URL or the file"
    )
    return Diagnosis(
        kvdoctor=__version__,
        targets=(),
        window=Window(recording.wall, 0.0, 0.0, 0.0),
        objective=objective(recording.facts),
        state=State.INSUFFICIENT,
        primary=None,
        subclass=None,
        primary_by_metric={metric.value: State.INSUFFICIENT.value for metric in Metric},
        subclass_by_metric={metric.value: None for metric in Metric},
        paced_by=None,
        contributing=(),
        confidence=Confidence.LOW,
        confidence_reasons=("nothing that an engine exports was read",),
        summary="I can't tell: no engine was recognised in what was read.",
        sentences={},
        next_measurement="Point kvdoctor at the engine's own /metrics: two scrapes of one process (equal "
        "process_start_time_seconds) and the difference between them, with running requests and preemptions.",
        quantiles={},
        ledgers={},
        findings=(),
        gaps=(*recording.gaps, gap),
        cost=recording.cost,
    )


def _notes(main: Judged, others: list[Judged]) -> tuple[str, ...]:
    """One line for each other engine in the recording."""
    lines = []
    for judged in others:
        finding, info = judged.judgement.finding, target_info(judged.case)
        what = story.bound_name(finding.bound, finding.subclass) if finding else judged.judgement.state.value
        lines.append(f"{info.role or info.engine} at {info.url}: {what}")
    lines += filter(None, (overview.closed_loop(main.case), _routing(main, others)))
    lines += around.notes(main.case)
    lines += host_notes(main.case.host) if main.case.host else ()
    role = target_info(main.case).role
    if role == "decode":
        lines.append(
            "This is the decode side of a pair: its TTFT is not the user's, who also waits for prefill."
        )
    if role == "prefill":
        lines.append("This is the prefill side of a pair: it has no ITL.")
    return tuple(lines)


def _routing(main: Judged, others: list[Judged]) -> str | None:
    """Compare the front end's TTFT with its engines', where both were read."""
    cases = [judged.case for judged in (main, *others)]
    front = next((case for case in cases if case.timeline.engine.role == "frontend"), None)
    behind = [case for case in cases if not case.timeline.engine.role and not case.timeline.engine.layer]
    return around.routing(front, behind) if front is not None else None


def _unmetered(recording: Recording) -> list[Judged]:
    """Judge each family without metrics by what its host tells."""
    judged = []
    for sources in families(recording).values():
        case, judgement = unmetered(sources, recording.facts, objective(recording.facts))
        judged.append(Judged(case, judgement, 0))
    return judged


def diagnose(recording: Recording) -> Diagnosis:
    """Judge every engine of a recording. The same recording gives the same Diagnosis."""
    facts, gaps = sensible(recording.facts)
    recording = replace(recording, facts=facts, gaps=[*recording.gaps, *gaps])
    logs = judge_logs(recording, objective(facts))
    judged = _judged(recording)
    if logs and not judged:
        return log_diagnosis(logs, recording, objective(facts))
    judged = judged or _unmetered(recording) or _layers_alone(recording)
    if not judged:
        return _nothing(recording)
    main = max(judged, key=_weight)
    return beside(_assemble(main, [j for j in judged if j is not main], recording), logs)


def _judged(recording: Recording) -> list[Judged]:
    """Judge every engine, each with its host and with the KV layers around it."""
    sources = [source for source in recording.sources if source.kind != KIND]
    seen = [(source, recognise((c.name, c.labels) for c in source.columns)) for source in sources]
    engines = [(source, engine) for source, engine in seen if engine is not None]
    around_them = [source for source, engine in seen if engine is None]
    alone = sum(1 for _, engine in engines if not engine.role) == 1
    found = []
    for source, engine in engines:
        host = host_of(recording, source, len(engines))
        layers = around_them if not engine.role else ()
        found.append(judge_source(source, engine, recording.facts, host, layers, alone=alone))
    return [each for each in found if each is not None]


def _layers_alone(recording: Recording) -> list[Judged]:
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


def _gaps(case: Case, recording: Recording) -> tuple[Gap, ...]:
    """Everything that was not seen: while recording, on the host, of the machine, of a stale gauge."""
    host = case.host.gaps if case.host else ()
    own = (*filter(None, (overview.stale(case),)), *around.gaps(case))
    return (*recording.gaps, *host, *case.machine.gaps, *own)


def _assemble(main: Judged, others: list[Judged], recording: Recording) -> Diagnosis:
    case, judgement = main.case, main.judgement
    level, reasons = confidence(case, judgement, main.restarts)
    names, subclasses = _by_metric(judgement)
    ledgers: dict[str, Ledger] = {led.metric.value: led for led in (case.ttft, case.itl) if led is not None}
    finding = judgement.finding
    return Diagnosis(
        kvdoctor=recording.kvdoctor,
        targets=(
            *(target_info(j.case) for j in (main, *others)),
            *(layer_info(line) for line in around.layers(case)),
        ),
        window=_window(main, recording),
        objective=case.objective,
        state=judgement.state,
        primary=finding.bound if finding else None,
        subclass=finding.subclass if finding else None,
        primary_by_metric=names,
        subclass_by_metric=subclasses,
        paced_by=_paced_by(judgement),
        contributing=_contributing(case, judgement),
        confidence=level,
        confidence_reasons=reasons,
        summary=story.summary(case, judgement, level),
        sentences={metric.value: story.metric_sentence(case, judgement, metric) for metric in Metric},
        next_measurement=story.next_measurement(case, judgement),
        quantiles=overview.quantiles(case),
        ledgers=ledgers,
        findings=_ranked(judgement.findings),
        gaps=_gaps(case, recording),
        cost=recording.cost,
        header=overview.header(case),
        charts=overview.charts(case),
        roofline=overview.roofline_point(case),
        sums=overview.sums(case),
        notes=_notes(main, others),
    )
