"""Many replicas side by side: a verdict each, and what their differences say of the router before them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvdoctor.diagnose import diagnose
from kvdoctor.model import Diagnosis, Evidence, State
from kvdoctor.recording import Recording

UNEVEN = 2.0
"""Load of the busiest replica over the mean of the others, from which the router does not spread it: with even
chances and a hundred requests each, twice as many do not happen."""
LEAST = 1.0
"""Requests waiting, in the mean, under which a queue at one replica is no finding."""
SPREAD = 0.3
"""Difference of hit rates, absolute, from which replicas of one service see different prompts."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One row of the table. Latencies in seconds; None where nothing was told."""

    name: str
    verdict: str
    confidence: str
    ttft: float | None
    itl: float | None
    hit_rate: float | None
    waiting: float | None
    running: float | None
    requests_per_second: float | None
    diagnosis: Diagnosis


@dataclass(frozen=True, slots=True)
class Fleet:
    """All replicas, and the skew between them."""

    replicas: tuple[Replica, ...]
    skew: tuple[Evidence, ...]
    """Differences that speak for the router as a cause."""
    sentence: str


def fleet(recording: Recording) -> Fleet:
    """Judge every source of a recording by itself, and compare."""
    rows = []
    for source in recording.sources:
        found = diagnose(replace(recording, sources=[source], gaps=[]))
        if found.targets:
            rows.append(_replica(source.name, found))
    skew = tuple(_skew(rows))
    return Fleet(tuple(rows), skew, _sentence(rows, skew))


def _replica(name: str, found: Diagnosis) -> Replica:
    ledgers, window = found.ledgers, found.window
    header = {line.name: line.now for line in found.header}
    verdict = f"{found.primary_name}/{found.subclass}" if found.subclass else found.primary_name
    return Replica(
        name=name,
        verdict=verdict,
        confidence=found.confidence.value,
        ttft=ledgers["ttft"].seconds if "ttft" in ledgers else None,
        itl=ledgers["itl"].seconds if "itl" in ledgers else None,
        hit_rate=header.get("prefix cache hit rate"),
        waiting=_mean(found, "waiting"),
        running=_mean(found, "running"),
        requests_per_second=window.requests / window.seconds if window.seconds > 0 else None,
        diagnosis=found,
    )


def _mean(found: Diagnosis, line: str) -> float | None:
    for chart in found.charts:
        for name, points in chart.lines:
            if name == line and points:
                return statistics.fmean(value for _, value in points)
    return None


def _skew(rows: Sequence[Replica]) -> list[Evidence]:
    """Hold the replicas against one another: load, queue, hits."""
    found = []
    busy = [row for row in rows if row.diagnosis.state is not State.IDLE]
    rates = [row.requests_per_second for row in rows if row.requests_per_second is not None]
    ratio = _over_others(rates)
    if ratio is not None and ratio >= UNEVEN:
        found.append(Evidence("requests/s of the busiest replica over the others", ratio, "x", UNEVEN))
    waiting = [row.waiting for row in rows if row.waiting is not None]
    ratio = _over_others(waiting)
    if ratio is not None and ratio >= UNEVEN and max(waiting) >= LEAST:
        found.append(Evidence("waiting at the fullest replica over the others", ratio, "x", UNEVEN))
    hits = [row.hit_rate for row in busy if row.hit_rate is not None]
    if len(hits) > 1 and max(hits) - min(hits) >= SPREAD:
        found.append(Evidence("hit rates differ by", max(hits) - min(hits), "ratio", SPREAD))
    return found


def _over_others(values: Sequence[float]) -> float | None:
    """Return the largest value over the mean of the others, inf over none; None where there is nothing to compare."""
    if len(values) < 2 or max(values) <= 0:
        return None
    others = (sum(values) - max(values)) / (len(values) - 1)
    return max(values) / others if others else math.inf


def _sentence(rows: Sequence[Replica], skew: Sequence[Evidence]) -> str:
    if len(rows) < 2:
        return "One replica: there is nothing to compare."
    if not skew:
        return "The replicas carry their load alike: nothing speaks for the router."
    what = ", ".join(evidence.name for evidence in skew)
    return f"The replicas differ ({what}): look at how the router chooses among them."
