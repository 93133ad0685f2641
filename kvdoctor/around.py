"""What must be said of how an engine and the layers around it tell: stale clocks, odd meanings, mixed releases."""

from __future__ import annotations

from collections.abc import Sequence

from kvdoctor import metrics as m
from kvdoctor import ranks
from kvdoctor.case import Case
from kvdoctor.engines import SEVERAL, version_range
from kvdoctor.joined import Joined
from kvdoctor.model import Confidence, Gap
from kvdoctor.timeline import Timeline
from kvdoctor.units import duration

FRESH = 5
"""Values of a gauge that a window must hold to speak of it: fewer miss a burst as easily as they show one."""


def layers(case: Case) -> tuple[Timeline, ...]:
    """Return the KV layers and exporters that were seen beside an engine, first what is its own."""
    line = case.timeline
    return (*line.layers, *line.shared) if isinstance(line, Joined) else ()


def gaps(case: Case) -> tuple[Gap, ...]:
    """Return what cannot be believed, or only with care."""
    found = (
        _mixed(case),
        _slow_gauges(case),
        _finish(case),
        _built(case),
        *(_lost(line) for line in layers(case)),
    )
    return (*filter(None, found), *_shared(case), *ranks.gaps(case))


def notes(case: Case) -> tuple[str, ...]:
    """Return a line on what the engine's KV usage means, on the layers beside it, on a lockstep of ranks."""
    engine, lines = case.timeline.engine, []
    if engine.usage_means:
        lines.append(
            f"KV usage of {engine.name} is {engine.usage_means}: not to be held against other engines'."
        )
    names = dict.fromkeys(f"{line.engine.name} at {line.source.name}" for line in layers(case))
    if names:
        lines.append(f"Also read, as evidence: {', '.join(names)}.")
    return (*lines, *ranks.notes(case))


def routing(front: Case, behind: Sequence[Case]) -> str | None:
    """Say what lies between a front end's TTFT and its engines'; None where either has no first token."""
    pairs = [(c.traffic.ttft.total, c.traffic.ttft.count) for c in behind if c.traffic.ttft is not None]
    count = sum(n for _, n in pairs)
    if not count or front.ttft is None:
        return None
    engines = sum(total for total, _ in pairs) / count
    rest = duration(max(0.0, front.ttft.seconds - engines))
    return (
        f"Mean TTFT is {duration(front.ttft.seconds)} at the front end, {duration(engines)} at the engines: "
        f"{rest} is routing and transport."
    )


def limits(case: Case) -> list[tuple[Confidence, str]]:
    """Return each fact that caps the confidence, with the cap."""
    found = []
    if _mixed(case) is not None:
        found.append((Confidence.LOW, "the page mixes names of releases that never were one"))
    if _slow_gauges(case) is not None:
        found.append(
            (Confidence.MEDIUM, f"gauges are refreshed every {case.timeline.engine.gauge_period:g} s only")
        )
    if _finish(case) is not None:
        found.append(
            (Confidence.LOW, "counters move when requests end, and the window is hardly longer than one")
        )
    return found


def _mixed(case: Case) -> Gap | None:
    engine = case.timeline.engine
    if version_range(engine, (c.name for c in case.timeline.source.columns)) != SEVERAL:
        return None
    reason = (
        f"the page has names of {engine.name} releases that never were one: two engines, or a made-up page"
    )
    return Gap("release", reason, "read each engine's own /metrics")


def _slow_gauges(case: Case) -> Gap | None:
    period = case.timeline.engine.gauge_period
    if not period or case.traffic.lifetime or case.traffic.seconds >= FRESH * period:
        return None
    reason = (
        f"{case.timeline.engine.name} refreshes its gauges every {period:g} s: the window holds few values"
    )
    return Gap("gauges", reason, f"watch for {FRESH * period:g} s or more (--seconds {FRESH * period:g})")


def _finish(case: Case) -> Gap | None:
    t = case.traffic
    mean = t.e2e.mean if t.e2e is not None else None
    if not t.at_finish or t.lifetime or (t.finished and mean is not None and mean < t.seconds / 2):
        return None
    reason = f"{case.timeline.engine.name} counts tokens and latencies when a request ends: too few ended"
    return Gap("window", reason, "watch for several times as long as a request takes (--seconds)")


def _built(case: Case) -> Gap | None:
    line = case.timeline
    missing = [
        name
        for name, quantity, built in (("TTFT", m.TTFT, case.traffic.ttft), ("ITL", m.ITL, case.traffic.itl))
        if built is not None and not line.has(quantity)
    ]
    if not missing:
        return None
    reason = f"{' and '.join(missing)} not exported: put together from queue, prefill and decode times"
    return Gap("latency", reason, "measure TTFT and ITL at a client to be sure")


def _lost(line: Timeline) -> Gap | None:
    lost = line.delta(m.TELEMETRY_LOST)
    if not lost:
        return None
    reason = (
        f"{line.engine.name} dropped {lost:.0f} events of its own telemetry: its other counters are too low"
    )
    return Gap(line.source.name, reason, "a longer buffer for its telemetry, or fewer subscribers")


def _shared(case: Case) -> tuple[Gap, ...]:
    line = case.timeline
    names = sorted({each.source.name for each in line.shared}) if isinstance(line, Joined) else []
    reason = "several engines were read, so whose its bytes and seconds are is not told"
    return tuple(Gap(name, reason, "diagnose each engine with its own layer") for name in names)
