"""What a report shows in which order, whatever it is written in."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvdoctor.model import Advice, Diagnosis, Finding, Gap, Ledger, Metric, Part, State, Verdict

METRICS = (Metric.TTFT.value, Metric.ITL.value)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a ledger as it is shown."""

    part: Part
    depth: int
    number: str
    """`2` for the second part of the whole, `2.1` for the first inside it."""
    share: float | None
    """Of the whole, 0..1; None when the whole is nothing."""


def rows(ledger: Ledger) -> tuple[Row, ...]:
    """Return the ledger's parts, each under the one it lies in; one whose parent is missing comes last."""
    left = list(ledger.parts)
    found: list[Row] = []

    def place(parent: str | None, depth: int, prefix: str) -> None:
        inside = [part for part in left if part.parent == parent]
        for part in inside:
            left.remove(part)
        for index, part in enumerate(inside, 1):
            number = f"{prefix}{index}"
            found.append(Row(part, depth, number, _share(part, ledger)))
            place(part.name, depth + 1, f"{number}.")

    place(None, 0, "")
    found += [Row(part, 1, "", _share(part, ledger)) for part in left]
    return tuple(found)


def _share(part: Part, ledger: Ledger) -> float | None:
    whole = ledger.seconds
    if not (math.isfinite(whole) and math.isfinite(part.seconds)) or whole <= 0:
        return None
    return part.seconds / whole


def ledgers(diagnosis: Diagnosis) -> tuple[Ledger, ...]:
    """Return the ledgers that there are, TTFT first."""
    return tuple(diagnosis.ledgers[metric] for metric in METRICS if metric in diagnosis.ledgers)


def findings(diagnosis: Diagnosis, verdict: Verdict) -> tuple[Finding, ...]:
    """Return the findings with one verdict, in the order they were ranked."""
    return tuple(finding for finding in diagnosis.findings if finding.verdict is verdict)


def advice(diagnosis: Diagnosis) -> tuple[tuple[Finding, Advice], ...]:
    """Return every advice with its finding, the largest expected gain first, unknown gains last.

    What several findings advise alike stands once, where it buys most. An engine that stands still has other needs.
    """
    if diagnosis.state is State.STALLED:
        return ()
    pairs = [(finding, item) for finding in diagnosis.findings for item in finding.advice]

    def key(pair: tuple[Finding, Advice]) -> float:
        gain = pair[1].gain_seconds
        return math.inf if gain is None or math.isnan(gain) else -gain

    once: dict[str, tuple[Finding, Advice]] = {}
    for pair in sorted(pairs, key=key):
        once.setdefault(pair[1].do, pair)
    return tuple(once.values())


def gaps(diagnosis: Diagnosis) -> tuple[Gap, ...]:
    """Return every gap once: the diagnosis's own, then those that only a finding has."""
    every = list(diagnosis.gaps) + [gap for finding in diagnosis.findings for gap in finding.gaps]
    return tuple(dict.fromkeys(every))
