"""What the client saw in a window, from the records of benchmarks.load, and a diagnosis held against it.

    python -m benchmarks.truth salted.jsonl --window 1795980000 1795980040
    python -m benchmarks.truth salted.jsonl --compare diagnosis.json

Several record files are taken as one load. The exit status of --compare is 1 if a check failed.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEAN_RATIO, MEAN_S = 0.05, 0.005  # how far a mean may be from the client's: 5% and 5 ms
QUEUE_RATIO, QUEUE_S = 0.20, 0.020  # the same for the queue part: 20% and 20 ms
SUM_RATIO = 1e-9  # parts are floats: "exactly" up to their rounding
QUEUE_PARTS = ("queue",)


@dataclass(frozen=True, slots=True)
class Request:
    """One request on the wall clock: start, token times, and the engine's own queue and prefill seconds."""

    start: float
    tokens: tuple[float, ...]
    queue: float | None
    prefill: float | None
    error: str | None

    @property
    def ttft(self) -> float:
        return self.tokens[0] - self.start


@dataclass(frozen=True, slots=True)
class Truth:
    """The client's view of a window. Seconds; None where nothing fell in the window."""

    start: float
    seconds: float
    first_tokens: int
    gaps: int
    errors: int
    ttft: dict[str, float] | None
    itl: dict[str, float] | None
    waiting_for_first: float
    queue: float | None
    prefill: float | None


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison: ok is None where one of the two sides is missing."""

    name: str
    told: float | None
    truth: float | None
    allowed: float
    ok: bool | None


def spread(values: list[float]) -> dict[str, float] | None:
    """Mean and percentiles in seconds; None of fewer than two values."""
    if len(values) < 2:
        return None
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    named = {"mean": statistics.fmean(values), "p50": cuts[49], "p95": cuts[94], "p99": cuts[98]}
    return {name: round(value, 6) for name, value in named.items()}


def parse(line: str) -> Request:
    fields = json.loads(line)
    start = float(fields["start"])
    tokens = tuple(start + offset for offset in fields["token_s"])
    return Request(start, tokens, fields["engine_queue_s"], fields["engine_prefill_s"], fields["error"])


def load(paths: Iterable[Path]) -> tuple[Request, ...]:
    lines = (line for path in paths for line in path.read_text(encoding="utf-8").splitlines())
    return tuple(parse(line) for line in lines if line.strip())


def overlap(a0: float, a1: float, b0: float, b1: float) -> float:
    return max(0.0, min(a1, b1) - max(a0, b0))


def mean(values: list[float]) -> float | None:
    return statistics.fmean(values) if values else None


def gaps_in(requests: Iterable[Request], t0: float, t1: float) -> list[float]:
    """Gaps between tokens of one request whose later token fell in [t0, t1]."""
    return [
        later - earlier
        for request in requests
        for earlier, later in zip(request.tokens, request.tokens[1:], strict=False)
        if t0 <= later <= t1
    ]


def truth(requests: tuple[Request, ...], t0: float, t1: float) -> Truth:
    """TTFT over first tokens in [t0, t1], ITL over gaps that ended there, in wall seconds.

    `waiting_for_first` is the mean number of requests sent and not yet answered: TTFT by Little's law is
    this over the rate of first tokens, which holds where the window's edges don't matter.
    """
    firsts = [r for r in requests if r.tokens and t0 <= r.tokens[0] <= t1]
    gaps = gaps_in(requests, t0, t1)
    unanswered = math.fsum(overlap(r.start, r.tokens[0], t0, t1) for r in requests if r.tokens)
    return Truth(
        start=t0,
        seconds=t1 - t0,
        first_tokens=len(firsts),
        gaps=len(gaps),
        errors=sum(1 for r in requests if r.error is not None and t0 <= r.start <= t1),
        ttft=spread([r.ttft for r in firsts]),
        itl=spread(gaps),
        waiting_for_first=round(unanswered / (t1 - t0), 6),
        queue=mean([r.queue for r in firsts if r.queue is not None]),
        prefill=mean([r.prefill for r in firsts if r.prefill is not None]),
    )


def check(name: str, told: float | None, real: float | None, ratio: float, absolute: float) -> Check:
    """Hold what the ledger tells against the truth, within ratio x truth + absolute seconds."""
    if told is None or real is None:
        return Check(name, told, real, math.nan, None)
    allowed = ratio * real + absolute
    return Check(name, told, real, allowed, abs(told - real) <= allowed)


def top_parts(metric: dict[str, Any]) -> float:
    return math.fsum(part["seconds"] for part in metric["parts"] if not part.get("parent"))


def queue_part(metric: dict[str, Any]) -> float | None:
    """The seconds of the ledger's queue parts, those that lie in no other part; None if it has none."""
    found = [
        part["seconds"]
        for part in metric["parts"]
        if part["name"].startswith(QUEUE_PARTS) and not part.get("parent")
    ]
    return math.fsum(found) if found else None


def compare(diagnosis: dict[str, Any], requests: tuple[Request, ...]) -> tuple[Check, ...]:
    """Every check that the contract allows, against the requests of the diagnosis' own window."""
    start = float(diagnosis["window"]["start"])
    return compare_with(diagnosis, truth(requests, start, start + float(diagnosis["window"]["seconds"])))


def compare_with(diagnosis: dict[str, Any], real: Truth) -> tuple[Check, ...]:
    """Both means, both sums, and the queue, against a truth that is already worked out."""
    return tuple(
        found
        for name, client in (("ttft", real.ttft), ("itl", real.itl))
        if (metric := diagnosis["ledger"].get(name))
        for found in metric_checks(name, metric, client, real)
    )


def metric_checks(
    name: str, metric: dict[str, Any], client: dict[str, float] | None, real: Truth
) -> tuple[Check, ...]:
    total = metric["seconds"]
    checks = (
        check(f"{name} mean", total, client["mean"] if client else None, MEAN_RATIO, MEAN_S),
        check(f"{name} parts sum", top_parts(metric), total, SUM_RATIO, 0.0),
    )
    if name != "ttft":
        return checks
    return (*checks, check("queue mean", queue_part(metric), real.queue, QUEUE_RATIO, QUEUE_S))


def line_of(found: Check) -> str:
    told, real = ("none" if value is None else f"{value * 1e3:.3f} ms" for value in (found.told, found.truth))
    word = {True: "ok", False: "FAILED", None: "not comparable"}[found.ok]
    allowed = "" if found.ok is None else f", may differ by {found.allowed * 1e3:.3f} ms"
    return f"{word:14} {found.name:15} ledger {told:>14}, truth {real:>14}{allowed}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("records", nargs="+", type=Path, help="JSON lines from benchmarks.load")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--window", nargs=2, type=float, metavar=("T0", "T1"), help="wall seconds")
    what.add_argument("--compare", type=Path, metavar="DIAGNOSIS.json")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    requests = load(options.records)
    if options.window:
        found = truth(requests, *options.window)
        print(json.dumps({name: getattr(found, name) for name in Truth.__slots__}, indent=2))
        return 0
    checks = compare(json.loads(options.compare.read_text(encoding="utf-8")), requests)
    print("\n".join(line_of(found) for found in checks))
    return int(any(found.ok is False for found in checks))


if __name__ == "__main__":
    sys.exit(main())
