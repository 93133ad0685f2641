"""How probes repeat, settle, summarise and doubt what they time."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kvdoctor.errors import KvdoctorError

REPEATS, LEAST_REPEATS = 7, 3
BUDGET_S = 1.5
"""Seconds after which one operation is not repeated further, once it has the least repeats."""
AGREE = 0.05
"""Warm-up ends when two repeats differ by less than this share."""
LEAST_WARM, MOST_WARM = 2, 8
BURST_S, IDLE_FACTOR, ACTIVE_S = 0.05, 10.0, 1.0
"""On a device that somebody else uses: the longest burst, the rest after it in bursts, and all bursts together."""
ALONE = "probe while the service is down, without --pid and --url"
"""The cure of what is not done beside one."""
SHARED_WARM, SHARED_REPEATS = 2, 3
"""Repeats there: fewer, so that more operations fit."""


class ImpossibleRate(KvdoctorError):
    """A rate that the hardware cannot have: our own mistake, never good news."""

    def __init__(self, what: str, rate: float, ceiling: float, basis: str) -> None:
        super().__init__(
            f"internal error: {what} came out as {rate / 1e9:.4g} GB/s, above {ceiling / 1e9:.4g} GB/s ({basis})",
            "the timing is wrong, or a cache answered: report this line",
        )


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that the hardware can do in bytes/s, and what says so; None where nothing does."""

    bytes_per_s: float | None
    basis: str

    def check(self, what: str, rate: float) -> None:
        """Raise ImpossibleRate for a rate above the ceiling."""
        if self.bytes_per_s is not None and rate > self.bytes_per_s:
            raise ImpossibleRate(what, rate, self.bytes_per_s, self.basis)


@dataclass(frozen=True, slots=True)
class Row:
    """One measured operation. `bytes_per_s` is the median of `repeats`, all in payload bytes a second."""

    op: str
    block_bytes: int
    bytes_per_s: float
    repeats: tuple[float, ...]
    latency_s: tuple[float, ...] = ()
    """Of single blocks; empty where blocks were not timed one by one."""
    queue_depth: int | None = None
    direction: str | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        found: dict[str, Any] = {"op": self.op, "block_bytes": self.block_bytes}
        if self.queue_depth is not None:
            found["queue_depth"] = self.queue_depth
        if self.direction is not None:
            found["direction"] = self.direction
        found |= {"bytes_per_s": self.bytes_per_s, "latency_seconds": latency(self.latency_s)}
        return found | {"repeats": list(self.repeats), "conditions": dict(self.conditions)}


def latency(seconds: Sequence[float]) -> dict[str, float] | None:
    """Return median and 99th percentile; None without single timings."""
    if not seconds:
        return None
    return {"p50": percentile(seconds, 0.5), "p99": percentile(seconds, 0.99)}


def percentile(values: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile, `share` in 0..1."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def settle(
    run: Callable[[], float], *, least: int = LEAST_WARM, most: int = MOST_WARM, budget_s: float = BUDGET_S
) -> bool:
    """Repeat until two in a row agree; say whether they did. `run` returns seconds."""
    last = spent = run()
    for done in range(1, most):
        if spent > budget_s:
            return False
        now = run()
        spent += now
        if done + 1 >= least and abs(now - last) <= AGREE * max(now, last):
            return True
        last = now
    return False


def timed(run: Callable[[], None]) -> float:
    """Return the seconds that a synchronous call takes."""
    begin = time.perf_counter_ns()
    run()
    return (time.perf_counter_ns() - begin) / 1e9


@dataclass(slots=True)
class Pace:
    """Rests after each burst where somebody else shares the device, and adds the bursts up."""

    shared: bool = False
    sleep: Callable[[float], None] = time.sleep
    active_s: float = 0.0
    """All bursts so far."""
    longest_s: float = 0.0
    """The longest of them."""
    elapsed_s: float = 0.0
    """All bursts by the clock, with what was waited for a processor."""
    on_cpu: bool = False
    """The device is the processors': a burst is no longer than we had them, however long we waited for them."""
    until: float = math.inf
    """On the monotonic clock: when nothing more should be begun beside somebody else."""

    @property
    def used_up(self) -> bool:
        """Say whether nothing more should be begun."""
        return self.shared and (self.active_s >= ACTIVE_S or time.monotonic() >= self.until)

    @property
    def most(self) -> int:
        """Warm-up repeats at most."""
        return SHARED_WARM if self.shared else MOST_WARM

    def repeats(self, wanted: int) -> int:
        """Return how often an operation is repeated."""
        return min(wanted, SHARED_REPEATS) if self.shared else wanted

    def spend(self, run: Callable[[], float], within: int = 1) -> float:
        """Do an operation `within` times as long as the seconds that it returns, rest, and return them."""
        cpu = time.process_time()
        seconds = run()
        burst = within * seconds
        self.elapsed_s += burst
        self.rest(min(burst, time.process_time() - cpu) if self.on_cpu else burst)
        return seconds

    def burst(self, run: Callable[[], float]) -> float:
        """Do an operation and return what it counts as: its seconds, less what was waited for a processor."""
        before = self.active_s
        self.spend(run)
        return self.active_s - before

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count what the block takes as one burst, and rest after it."""
        begin, cpu = time.monotonic(), time.process_time()
        yield
        burst = time.monotonic() - begin
        self.rest(min(burst, time.process_time() - cpu) if self.on_cpu else burst)

    def rest(self, burst_s: float) -> None:
        """Rest ten times as long as the burst took."""
        self.active_s += burst_s
        self.longest_s = max(self.longest_s, burst_s)
        if self.shared:
            self.sleep(IDLE_FACTOR * burst_s)

    def about(self) -> dict[str, Any]:
        """Return what was kept to, for the conditions of a result."""
        told = {"shared_with_others": self.shared}
        return {**told, "active_seconds": self.active_s, "longest_burst_seconds": self.longest_s}


def measure(
    op: str,
    run: Callable[[], float],
    *,
    payload: int,
    block: int,
    ceiling: Ceiling,
    traffic: int = 1,
    repeats: int = REPEATS,
    pace: Pace | None = None,
    within: int = 1,
    direction: str | None = None,
    conditions: Mapping[str, Any] | None = None,
) -> Row:
    """Warm up, repeat, take the median, and hold it against the ceiling.

    `run` returns the seconds of one operation, in which `payload` bytes arrived, and does it `within` times for that;
    `traffic` is how often the link carries each byte (a copy within one memory: twice), and counts towards the
    ceiling only.
    """
    pace = pace or Pace()
    settled = settle(lambda: pace.spend(run, within), most=pace.most)
    repeats = pace.repeats(repeats)
    seconds: list[float] = []
    while len(seconds) < repeats and (len(seconds) < LEAST_REPEATS or sum(seconds) < BUDGET_S):
        seconds.append(pace.spend(run, within))
    rates = tuple(payload / each for each in seconds)
    rate = statistics.median(rates)
    ceiling.check(op, traffic * rate)
    more = {"settled": settled, **(conditions or {})}
    return Row(op, block, rate, rates, direction=direction, conditions=more)
