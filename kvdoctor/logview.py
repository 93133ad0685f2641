"""What log lines and reports say of one engine, as the numbers that causes ask for."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.course import Gauge
from kvdoctor.model import Evidence
from kvdoctor.quantity import Quantity
from kvdoctor.recording import Column, Source
from kvdoctor.timeline import Timeline
from kvdoctor.traffic import Traffic
from kvdoctor.waiting import WaitShares, wait_shares

NOTHING = 0.05
"""Tokens a second that a line prints as 0.0."""


@dataclass(frozen=True, slots=True)
class Said:
    """One number with its place."""

    value: float
    at: float
    line: int
    labels: dict[str, str]

    @property
    def place(self) -> str:
        """Say where it stands: a line of a file, or a row of a report."""
        row = self.labels.get("row")
        return f"row {row}" if row else f"line {self.line}"


@dataclass(frozen=True, slots=True)
class LogView:
    """Numbers of one window of one log. Rates and gauges: there is no count of requests and no latency."""

    engines: tuple[str, ...]
    seconds: float
    lines: int
    source: str
    said: dict[Quantity, tuple[Said, ...]]
    running: Gauge | None
    waiting: Gauge | None
    usage: Gauge | None
    waits: WaitShares
    preemptions: int
    """Lines that tell of preempted or retracted requests."""
    pairs: tuple[tuple[float, float], ...] = field(default=())
    """(running, output tokens a second) of lines that tell both, while something ran."""

    def of(self, quantity: Quantity) -> tuple[Said, ...]:
        """Return every statement of a quantity, in order; empty without any."""
        return self.said.get(quantity, ())

    def values(self, quantity: Quantity) -> list[float]:
        """Return the plain numbers of a quantity, in order."""
        return [said.value for said in self.of(quantity)]

    def mean(self, quantity: Quantity) -> float | None:
        """Return the mean over the lines that tell it; None without any."""
        values = self.values(quantity)
        return statistics.fmean(values) if values else None

    def last(self, quantity: Quantity) -> float | None:
        """Return the newest number; None without any."""
        values = self.values(quantity)
        return values[-1] if values else None

    def evidence(
        self, name: str, value: float | None, unit: str = "", *, threshold: float | None = None,
        of: tuple[Quantity, ...] = (),
    ) -> Evidence:  # fmt: skip
        """Build one line of evidence that names the lines it was worked out from."""
        known = value if value is not None and math.isfinite(value) else None
        return Evidence(name, known, unit, threshold, f"{self.source}, {self._places(of)}")

    def _places(self, of: tuple[Quantity, ...]) -> str:
        places = list(dict.fromkeys(said.place for quantity in of for said in self.of(quantity)))
        if len(places) > 2:
            return f"{places[0]} to {places[-1].rpartition(' ')[2]}"
        return " and ".join(places) or "no line"

    @property
    def itl(self) -> float | None:
        """Seconds between tokens of one request by Little's law: running over tokens a second. None unknown."""
        if self.values(lm.ITL):
            return self.mean(lm.ITL)
        one = self.values(lm.DECODE_RATE)
        if one and min(one) > 0:
            return statistics.median(1 / rate for rate in one)
        steps = self.values(lm.STEP)
        if steps and not self.pairs:
            return statistics.median(steps)
        made = sum(rate for _, rate in self.pairs)
        return sum(running for running, _ in self.pairs) / made if made else None

    @property
    def queue_share(self) -> float | None:
        """Share of its time that a request waits: waiting / (waiting + running), by Little's law. None unknown."""
        if self.running is None or self.waiting is None:
            return None
        whole = self.running.mean + self.waiting.mean
        return self.waiting.mean / whole if whole else 0.0

    @property
    def flowing(self) -> bool:
        """Say whether any token was computed."""
        rates = (lm.PROMPT_RATE, lm.GENERATION_RATE, lm.BATCH_NEW, lm.DECODE_RATE)
        return any(self.values(lm.STEP) + self.values(lm.ITL)) or any(
            v > NOTHING for q in rates for v in self.values(q)
        )

    @property
    def prompt_step_tokens(self) -> float | None:
        """Prompt tokens in a mean step: prompt rate over steps a second. At least, where hits may be counted."""
        prompt, made = self.mean(lm.PROMPT_RATE), self.mean(lm.GENERATION_RATE)
        if prompt is None or not made or self.running is None or not self.running.mean:
            return None
        hit = self.mean(m.HITS_RATE_GAUGE) or 0.0
        return prompt * (1 - hit) / (made / self.running.mean)

    @property
    def step_tokens(self) -> float | None:
        """Tokens in a mean step, prompts and outputs; None unknown."""
        prompt = self.prompt_step_tokens
        return None if prompt is None or self.running is None else prompt + self.running.mean


def log_view(timeline: Timeline, traffic: Traffic, since: int) -> LogView:
    """Gather what the lines of a window say, and the settings that stand from reading `since` on."""
    whole = Timeline(timeline.source, timeline.engine, since, timeline.last)
    quantities = ((q, whole if q in lm.SETTINGS else timeline) for q in (*lm.SHARED, *lm.OWN))
    numbers = _line_numbers(timeline.source)
    said = {q: found for q, line in quantities if (found := tuple(_said(line, q, numbers)))}
    engines = dict.fromkeys(
        s.labels["engine"] for some in said.values() for s in some if "engine" in s.labels
    )
    return LogView(
        engines=tuple(engines),
        seconds=timeline.seconds if timeline.first >= 0 else 0.0,
        lines=len(timeline.readings),
        source=timeline.source.name,
        said=said,
        running=traffic.running,
        waiting=traffic.waiting,
        usage=traffic.usage,
        waits=wait_shares(timeline, traffic),
        preemptions=len(said.get(m.PREEMPTIONS, ())),
        pairs=tuple(_pairs(timeline)),
    )


def _line_numbers(source: Source) -> dict[int, int]:
    columns = [c for c in source.columns if c.name == lm.LINE]
    return {i: int(v) for c in columns for i, v in zip(c.index, c.value, strict=True)}


def _inside(timeline: Timeline, column: Column) -> Iterable[tuple[int, float]]:
    readings = timeline.readings
    for index, value in zip(column.index, column.value, strict=True):
        if index in readings and math.isfinite(value):
            yield index, value


def _said(timeline: Timeline, quantity: Quantity, numbers: dict[int, int]) -> list[Said]:
    found = [
        (index, value, column)
        for column in timeline.columns(quantity)
        for index, value in _inside(timeline, column)
    ]
    found.sort(key=lambda each: each[0])
    at = timeline.source.at
    return [Said(v, at[i], numbers.get(i, 0), dict(c.labels)) for i, v, c in found]


def _pairs(timeline: Timeline) -> list[tuple[float, float]]:
    """Running and output rate of each line with both, ranks apart; the first decode line after a prefill is
    left out, as its rate is averaged over the time before (SGLang)."""
    pairs = []
    prefills = {i for c in timeline.columns(lm.BATCH_NEW) for i, _ in _inside(timeline, c)}
    for rank in timeline.ranks:
        made = _of_rank(timeline, lm.GENERATION_RATE, rank)
        running = _of_rank(timeline, m.RUNNING, rank)
        for index, rate in sorted(made.items()):
            if rate > NOTHING and running.get(index, 0.0) > 0 and index - 1 not in prefills:
                pairs.append((running[index], rate))
    return pairs


def _of_rank(timeline: Timeline, quantity: Quantity, rank: str) -> dict[int, float]:
    columns = [c for c in timeline.columns(quantity) if dict(c.labels).get("rank", "0") == rank]
    return dict(itertools.chain.from_iterable(_inside(timeline, c) for c in columns))
