"""From a Recording to a Diagnosis: every engine in it is judged, the one that costs most is answered for."""

from __future__ import annotations

from dataclasses import replace

from kvdoctor import __version__, around, overview, story
from kvdoctor.case import Case
from kvdoctor.confidence import confidence
from kvdoctor.described import layer_info, target_info
from kvdoctor.hostnotes import host_notes
from kvdoctor.judge import RANK, WEIGHT, Judgement
from kvdoctor.judged import Judged, judge_engines, judge_hosts, judge_layers, objective
from kvdoctor.logdiagnose import beside, judge_logs, log_diagnosis
from kvdoctor.model import Bound, Confidence, Diagnosis, Finding, Gap, Ledger, Metric, State, Verdict
from kvdoctor.naming import symptom
from kvdoctor.recording import Recording
from kvdoctor.service import Window
from kvdoctor.spread import spreads
from kvdoctor.told import sensible


def _window(judged: Judged) -> Window:
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
    return WEIGHT[judged.judgement.state], judged.case.currency * judged.case.traffic.first_tokens


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


def _paced_by(judgement: Judgement) -> str | None:
    """What sets the pace even where all is well: the named bound, else bandwidth when its reads fill the step."""
    if judgement.finding is not None:
        return judgement.finding.bound.value
    reads = any(f.verdict is Verdict.LIKELY and f.bound is Bound.BANDWIDTH for f in judgement.findings)
    return Bound.BANDWIDTH.value if reads else None


def _ranked(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Likely first, by cost; equal ones stay in the order of triage."""
    return tuple(sorted(findings, key=lambda f: (RANK[f.verdict], -f.share_seconds)))


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
    """What is said beside the verdict: other engines, the load, routing, layers, the host, the side of a pair."""
    lines = []
    own = target_info(main.case)
    for judged in others:
        finding, info = judged.judgement.finding, target_info(judged.case)
        what = story.bound_name(finding.bound, finding.subclass) if finding else judged.judgement.state.value
        which = f" for {info.model}, beside {own.model} on one page" if info.url == own.url else ""
        lines.append(f"{info.role or info.engine} at {info.url}{which}: {what}")
    if main.judgement.state is State.BOUND:
        lines.append(f"Not healthy, because {'; '.join(main.judgement.unhealthy)}.")
    lines += filter(None, (overview.closed_loop(main.case), _routing(main, others)))
    lines += filter(None, (overview.disputed_start(main.case),))
    lines += around.notes(main.case)
    lines += host_notes(main.case.host) if main.case.host else ()
    role = own.role
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


def diagnose(recording: Recording) -> Diagnosis:
    """Judge every engine of a recording. The same recording gives the same Diagnosis."""
    facts, gaps = sensible(recording.facts)
    recording = replace(recording, facts=facts, gaps=[*recording.gaps, *gaps])
    logs = judge_logs(recording, objective(facts))
    judged = judge_engines(recording)
    if logs and not judged:
        return log_diagnosis(logs, recording, objective(facts))
    judged = judged or judge_hosts(recording) or judge_layers(recording)
    if not judged:
        return _nothing(recording)
    main = max(judged, key=_weight)
    return beside(_assemble(main, [j for j in judged if j is not main], recording), logs)


def _gaps(case: Case, recording: Recording) -> tuple[Gap, ...]:
    """Everything that was not seen: while recording, on the host, of the machine, of a stale gauge."""
    host = case.host.gaps if case.host else ()
    own = (*filter(None, (overview.stale(case),)), *around.gaps(case))
    return (*recording.gaps, *host, *case.machine.gaps, *own)


def _assemble(main: Judged, others: list[Judged], recording: Recording) -> Diagnosis:
    case, judgement = main.case, main.judgement
    level, reasons = confidence(case, judgement, main.restarts)
    ledgers: dict[str, Ledger] = {led.metric.value: led for led in (case.ttft, case.itl) if led is not None}
    finding = judgement.finding
    return Diagnosis(
        kvdoctor=recording.kvdoctor,
        targets=(
            *(target_info(j.case) for j in (main, *others)),
            *(layer_info(line) for line in around.layers(case)),
        ),
        window=_window(main),
        objective=case.objective,
        state=judgement.state,
        primary=finding.bound if finding else None,
        subclass=finding.subclass if finding else None,
        primary_by_metric=judgement.names(),
        subclass_by_metric=judgement.subclasses(),
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
        spreads=spreads(case.traffic.ttft, case.traffic.itl, case.traffic.seconds),
    )
