"""From a log, or a report's figures, to a Diagnosis of its own: no ledger, no latencies, and it says so."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvdoctor import logjudge
from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.engines.logline import ENGINE
from kvdoctor.judge import RANK, WEIGHT
from kvdoctor.logjudge import Verdicts, judge_log
from kvdoctor.logview import LogView, log_view
from kvdoctor.model import Bound, Diagnosis, Finding, Gap, Verdict
from kvdoctor.overview import thin
from kvdoctor.quantity import Quantity
from kvdoctor.recording import Recording, Source
from kvdoctor.segment import restarts
from kvdoctor.service import Chart, Headline, Objective, TargetInfo, Window
from kvdoctor.timeline import Timeline
from kvdoctor.traffic import traffic

KINDS = ("log", "report")
"""Kinds of sources that are judged here."""
WINDOW = 3600.0
"""Seconds before the last line that are judged: what a log says of the morning is not now."""


@dataclass(frozen=True, slots=True)
class Logged:
    """One log judged."""

    view: LogView
    timeline: Timeline
    verdicts: Verdicts
    restarts: int

    @property
    def weight(self) -> tuple[int, int, int]:
        """Order logs by how much there is to answer for."""
        return WEIGHT[self.verdicts.judgement.state], int(self.verdicts.grade), self.view.lines


def judge_logs(recording: Recording, objective: Objective) -> list[Logged]:
    """Judge every log of a recording, heaviest first."""
    found = [
        _judged(source, objective, recording.facts.get("slow"))
        for source in recording.sources
        if source.kind in KINDS and source.at
    ]
    return sorted(found, key=lambda each: each.weight, reverse=True)


def _judged(source: Source, objective: Objective, slow: str | None) -> Logged:
    starts = restarts(source, ENGINE)
    first, last = _stretch(source, starts)
    begin = max(first, bisect.bisect_left(source.at, source.at[last] - WINDOW))
    timeline = Timeline(source, ENGINE, begin, last)
    view = log_view(timeline, traffic(timeline), first)
    return Logged(view, timeline, judge_log(view, objective, slow), len(starts))


_QUIET = {lm.LINE, "log:start_created", *(lm.raw(quantity) for quantity in lm.SETTINGS)}
"""Series that an engine writes before it serves."""


def _stretch(source: Source, starts: Sequence[int]) -> tuple[int, int]:
    """Return the newest stretch between starts in which anything but a start was told, else the newest."""
    edges = [0, *starts, len(source.at)]
    parts = [(a, b - 1) for a, b in itertools.pairwise(edges) if b > a]
    told = sorted(i for c in source.columns if c.name not in _QUIET for i in (c.index[0], c.index[-1]))
    serving = [part for part in parts if any(part[0] <= index <= part[1] for index in told)]
    return (serving or parts)[-1]


def log_diagnosis(logs: Sequence[Logged], recording: Recording, objective: Objective) -> Diagnosis:
    """Answer for the first of the logs; the others become a line each."""
    main = logs[0]
    judgement = main.verdicts.judgement
    finding = judgement.finding
    view = main.view
    return Diagnosis(
        kvdoctor=recording.kvdoctor,
        targets=tuple(_target(each) for each in logs),
        window=_window(main),
        objective=objective,
        state=judgement.state,
        primary=finding.bound if finding else None,
        subclass=finding.subclass if finding else None,
        primary_by_metric=judgement.names(),
        subclass_by_metric=judgement.subclasses(),
        paced_by=finding.bound.value if finding else None,
        contributing=_contributing(judgement.findings, finding),
        confidence=main.verdicts.confidence,
        confidence_reasons=main.verdicts.reasons,
        summary=logjudge.summary(view, main.verdicts),
        sentences={},
        next_measurement=logjudge.next_measurement(view, judgement),
        quantiles={},
        ledgers={},
        findings=tuple(sorted(judgement.findings, key=lambda f: (f is not finding, RANK[f.verdict]))),
        gaps=(*recording.gaps, Gap("latencies", "a log has none: no ledger of TTFT and ITL", logjudge.LEDGER_CURE)),
        cost=recording.cost,
        header=_header(view),
        charts=_charts(main.timeline),
        notes=notes(logs[1:]),
    )  # fmt: skip


def notes(logs: Sequence[Logged]) -> tuple[str, ...]:
    """One line for each log beside the one that is answered for."""
    lines = []
    for each in logs:
        finding = each.verdicts.judgement.finding
        what = finding.bound.value if finding else each.verdicts.judgement.state.value
        lines.append(f"{each.view.source}: {what}, as far as a log tells")
    return tuple(lines)


def beside(diagnosis: Diagnosis, logs: Sequence[Logged]) -> Diagnosis:
    """Add what logs say to an answer from metrics, which have latencies and therefore the word."""
    return replace(diagnosis, notes=(*diagnosis.notes, *notes(logs))) if logs else diagnosis


def _contributing(
    findings: tuple[Finding, ...], named: Finding | None
) -> tuple[tuple[Bound, str | None], ...]:
    likely = [f for f in findings if f.verdict is Verdict.LIKELY and f is not named]
    return tuple((f.bound, f.subclass) for f in likely) if named else ()


def _target(logged: Logged) -> TargetInfo:
    texts = logged.timeline.source.texts
    return TargetInfo(
        engine="+".join(logged.view.engines) or "log",
        version=texts.get("version"),
        model=texts.get("model"),
        url=logged.view.source,
        ranks=logged.timeline.ranks,
    )


def _window(logged: Logged) -> Window:
    source, view = logged.timeline.source, logged.view
    start = source.wall + source.at[max(0, logged.timeline.first)]
    made = view.mean(lm.GENERATION_RATE) or 0.0
    return Window(
        start=start, seconds=view.seconds, requests=0.0, finished=0.0, restarts=logged.restarts,
        scrapes=view.lines, generated_tokens=made * view.seconds,
    )  # fmt: skip


def _header(view: LogView) -> tuple[Headline, ...]:
    told = (
        ("output tokens", "/s", view.mean(lm.GENERATION_RATE)),
        ("prompt tokens", "/s", view.mean(lm.PROMPT_RATE)),
        ("prefix cache hit rate", "ratio", view.last(m.HITS_RATE_GAUGE)),
        ("ITL by running over tokens a second", "seconds", view.itl),
    )
    return tuple(Headline(name, unit, value, None) for name, unit, value in told if value is not None)


def _charts(timeline: Timeline) -> tuple[Chart, ...]:
    asked: tuple[tuple[str, str, tuple[tuple[str, Quantity], ...]], ...] = (
        ("Requests", "requests", (("running", m.RUNNING), ("waiting", m.WAITING))),
        ("KV cache usage", "ratio", (("pinned by requests", m.KV_CACHE_USAGE),)),
        ("Tokens", "tokens/s", (("output", lm.GENERATION_RATE), ("prompt", lm.PROMPT_RATE))),
        ("Prefix cache hit rate", "ratio", (("hit rate, as the engine tells", m.HITS_RATE_GAUGE),)),
    )
    charts = []
    for title, unit, lines in asked:
        told = tuple((name, thin(timeline.series(q))) for name, q in lines)
        kept = tuple((name, points) for name, points in told if len(points) > 1)
        if kept:
            charts.append(Chart(title, unit, kept))
    return tuple(charts)
