"""What a report shows beside the verdict: header, quantiles, charts, the three sums, the roofline point."""

from __future__ import annotations

import itertools
import statistics

from kvdoctor import metrics as m
from kvdoctor.case import Case
from kvdoctor.causes.bandwidth import read_range, steady_step
from kvdoctor.causes.common import seconds_per_computed_token
from kvdoctor.histogram import Histogram, interpolated
from kvdoctor.model import Gap
from kvdoctor.quantity import Quantity
from kvdoctor.service import Chart, Headline, Quantile, RooflinePoint, Sums
from kvdoctor.units import duration

Points = list[tuple[float, float]]
"""(seconds since the recording began, value) of each."""
QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
MAX_POINTS = 240
"""Points a line of a chart keeps: more cannot be told apart in print."""


def quantiles(case: Case) -> dict[str, dict[str, Quantile]]:
    """Return p50, p95 and p99 of TTFT and ITL as the bounds of their buckets."""
    out: dict[str, dict[str, Quantile]] = {}
    for name, histogram in (("ttft", case.traffic.ttft), ("itl", case.traffic.itl)):
        found = {key: histogram.quantile(q) for key, q in QUANTILES} if histogram is not None else {}
        out[name] = {key: bounds for key, bounds in found.items() if bounds is not None}
    return out


STEADY = 0.1
"""Spread of running + waiting over its mean, up to which the load looks like a closed loop of clients."""


def closed_loop(case: Case) -> str | None:
    """Say so when running + waiting stay constant: gains then come at fixed concurrency (rule 17)."""
    running, waiting = case.timeline.series(m.RUNNING), dict(case.timeline.series(m.WAITING))
    totals = [r + waiting.get(t, 0.0) for t, r in running]
    if len(totals) < 5 or statistics.fmean(totals) < 2:
        return None
    mean = statistics.fmean(totals)
    if statistics.pstdev(totals) > STEADY * mean:
        return None
    return f"Running + waiting stay near {mean:.0f}, as with a closed loop of clients: gains are at that concurrency."


def stale(case: Case) -> Gap | None:
    """Mark gauges that say something while no counter moved: they may be older than the window."""
    gauges = (case.traffic.running, case.traffic.waiting, case.traffic.usage)
    if case.traffic.lifetime or case.timeline.counters_moved():
        return None
    if any(g is not None and g.changes for g in gauges) or all(g is None or not g.last for g in gauges):
        return None
    return Gap(
        "gauges", "they stand still and no counter moved, so they may be stale", "look at the engine's log"
    )


def _rate(value: float | None, seconds: float | None) -> float | None:
    return value / seconds if value is not None and seconds and seconds > 0 else None


CLOCKS = 60.0
"""Seconds by which two accounts of one start may differ: the page's rests on a clock that may have been set since."""


def uptime(case: Case) -> float | None:
    """Seconds since the process behind the endpoint started, by /proc where its pid is known, else by its page.

    None when neither says, or what is said is nonsense.
    """
    now, start = _now(case), _started(case)
    return now - start if now is not None and start is not None and start < now else None


def disputed_start(case: Case) -> str | None:
    """Say so when the page tells another start than /proc does."""
    now, told, taken = _now(case), _told_start(case), _started(case)
    if case.host is None or not case.host.started or now is None or told is None or taken is None:
        return None
    if abs(taken - told) <= CLOCKS:
        return None
    said = f"{duration(now - told)} ago" if told < now else "at a time that is yet to come"
    return f"The metrics page says that its process started {said}; /proc says {duration(now - taken)}, which counts."


def _now(case: Case) -> float | None:
    """Unix seconds of the window's last reading."""
    source = case.timeline.source
    return source.wall + source.at[case.timeline.last] if source.wall and source.at else None


def _told_start(case: Case) -> float | None:
    gauge = case.timeline.gauge(m.PROCESS_START)
    return gauge.last if gauge is not None else None


def _started(case: Case) -> float | None:
    """Unix seconds of the start: of the process of ours that the page may mean, else of the family's root.

    A process that has started since the family was looked at is not in the list: there the page is all there is.
    """
    told, now = _told_start(case), _now(case)
    known = case.host.started if case.host is not None else ()
    if not known or now is None or (told is not None and case.timeline.source.wall < told <= now):
        return told
    meant = [start for start in known if told is not None and abs(start - told) <= CLOCKS]
    return meant[0] if meant else known[0]


def header(case: Case) -> tuple[Headline, ...]:
    """Return rates and latencies, now against since the start."""
    t, age = case.traffic, uptime(case)
    whole = case.timeline.lifetime(m.TTFT)
    lines = [
        Headline(
            "requests", "/s", _rate(t.first_tokens, t.seconds), _rate(whole.count if whole else None, age)
        ),
        Headline(
            "output tokens", "/s", _rate(t.generated, t.seconds), _rate(case.timeline.total(m.GENERATED), age)
        ),
        Headline("prefix cache hit rate", "ratio", t.hit_rate, _life_rate(case)),
    ]
    for name, now, quantity in (("TTFT", t.ttft, m.TTFT), ("ITL", t.itl, m.ITL)):
        life = case.timeline.lifetime(quantity)
        lines.append(Headline(f"{name} mean", "seconds", _mean(now), _mean(life)))
        lines += [
            Headline(f"{name} {key}, about", "seconds", interpolated(now, q), interpolated(life, q))
            for key, q in QUANTILES
        ]
    return tuple(lines)


def _mean(histogram: Histogram | None) -> float | None:
    return histogram.mean if histogram is not None else None


def _life_rate(case: Case) -> float | None:
    hits, queries = case.timeline.total(m.PREFIX_HITS), case.timeline.total(m.PREFIX_QUERIES)
    return hits / queries if hits is not None and queries else None


def thin(points: Points) -> tuple[tuple[float, float], ...]:
    """Keep every n-th point, so that a line of a chart has no more than it can show."""
    step = max(1, -(-len(points) // MAX_POINTS))
    return tuple(points[::step])


def _line(name: str, points: Points) -> tuple[tuple[str, tuple[tuple[float, float], ...]], ...]:
    return ((name, thin(points)),) if len(points) > 1 else ()


def _ratios(above: Points, below: Points) -> Points:
    """Rise of one counter over that of another between neighbouring readings, where the other rose."""
    pairs = zip(itertools.pairwise(above), itertools.pairwise(below), strict=False)
    return [(b[0], (b[1] - a[1]) / (d[1] - c[1])) for (a, b), (c, d) in pairs if d[1] > c[1]]


def _means(case: Case, quantity: Quantity) -> Points:
    """Mean of a histogram between neighbouring readings, where anything was observed."""
    return _ratios(*(case.timeline.sample_series(quantity, sample) for sample in ("sum", "count")))


def charts(case: Case) -> tuple[Chart, ...]:
    """Return the key signals over time; a signal that was not seen is left out."""
    line = case.timeline
    requests = _line("running", line.series(m.RUNNING)) + _line("waiting", line.series(m.WAITING))
    tokens = _line("output", line.rates(m.GENERATED)) + _line(
        "prompt, computed", line.rates(m.PROMPT_COMPUTED)
    )
    found = (
        Chart("Requests", "requests", requests),
        Chart("KV cache usage", "ratio", _line("pinned by requests", line.series(m.KV_CACHE_USAGE))),
        Chart("TTFT, mean of each interval", "seconds", _line("TTFT", _means(case, m.TTFT))),
        Chart("ITL, mean of each interval", "seconds", _line("ITL", _means(case, m.ITL))),
        Chart("Tokens", "tokens/s", tokens),
        Chart(
            "Prefix cache hit rate",
            "ratio",
            _line("hit rate", _ratios(line.series(m.PREFIX_HITS), line.series(m.PREFIX_QUERIES))),
        ),
    )
    return tuple(c for c in found if c.lines)


def sums(case: Case) -> Sums:
    """Set side by side what hits save, what decode reads all the same, and what far hits cost."""
    t, per_token = case.traffic, seconds_per_computed_token(case)
    # By the rate: old releases count hits in blocks, and lookups anew at each attempt to schedule.
    found = (t.hit_rate or 0.0) * t.prompt_tokens + (t.external_hits or 0.0)
    saved = per_token * found / t.first_tokens if per_token and t.first_tokens else None
    reads = read_range(case)
    load = None
    if case.ttft is not None:
        load = case.ttft.part("kv_wait") + case.ttft.part("kv_load")
    note = "A hit saves the computing of K and V once; decode steps still read them, and a far hit is loaded first."
    return Sums(saved, reads[3] if reads else None, load, note)


def roofline_point(case: Case) -> RooflinePoint | None:
    """Return where the steady step stands under the ceiling; None where shape or ceiling is unknown."""
    step, reads, ceiling = steady_step(case), read_range(case), case.machine.bandwidth
    batch, context = case.batch, case.traffic.context
    if not step or reads is None or ceiling is None or batch is None or context is None:
        return None
    floor = case.machine.step_seconds(batch, context) or 0.0
    low, high = (reads[0] + reads[2]) / step, (reads[1] + reads[3]) / step
    return RooflinePoint(ceiling, case.machine.bandwidth_basis, low, high, step, floor, batch, context)
