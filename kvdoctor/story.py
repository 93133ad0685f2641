"""The sentences of a report: the verdict in one line, one line a metric, and the one measurement to make next."""

from __future__ import annotations

from kvdoctor.case import Case
from kvdoctor.halt import Gone, Halt, gone
from kvdoctor.judge import Judgement, ended, stopped
from kvdoctor.ledger import FIRST_STEP
from kvdoctor.model import FAMILY, Bound, Confidence, Finding, Ledger, Metric, Part, State, Verdict
from kvdoctor.units import duration, percent

PART_NAMES = {
    "frontend": "the front end",
    "queue": "the queue",
    "kv_wait": "waiting for KV",
    "kv_load": "loading KV",
    "prefill": "prefill",
    "prefill_avoidable": "prefill that reuse might have saved",
    FIRST_STEP: "the first decode step",
    "step_under_way": "waiting for the step under way",
    "weights": "reading the weights",
    "kv_reads": "reading the KV",
    "compute": "computing",
    "prefill_in_step": "prefill of others inside the steps",
    "preemption_stall": "stalls after preemption",
    "kv_stall": "waiting for KV in decode",
    "unexplained": "not explained",
}
OPEN = 0.25
"""Share of the named cause's seconds from which another possible cause is worth a measurement."""
STEADY = "the decode step itself, not split"


def part_name(part: Part, ledger: Ledger) -> str:
    """Write a part's name for people."""
    if part.name == "unexplained" and ledger.metric is Metric.ITL and "not split" in part.note:
        return STEADY
    return PART_NAMES.get(part.name, part.name)


def _largest(ledger: Ledger) -> str:
    part = max(ledger.top(), key=lambda p: p.seconds)
    return f"{percent(part.seconds / ledger.seconds)} is {part_name(part, ledger)}"


def metric_sentence(case: Case, judgement: Judgement, metric: Metric) -> str:
    """Say how long a latency is, what most of it is, and what bounds it."""
    ledger = case.ttft if metric is Metric.TTFT else case.itl
    name = metric.value.upper()
    if ledger is None and metric is Metric.ITL and case.single:
        return "ITL: there is none, as requests end with their first token; TTFT alone is judged."
    if ledger is None:
        return f"{name}: nothing was observed."
    start = f"{name} {duration(ledger.seconds)} in the mean: {_largest(ledger)}"
    named = judgement.by_metric[metric]
    if isinstance(named, Finding):
        return f"{start}; {bound_name(named.bound, named.subclass)} costs it most."
    if named is State.HEALTHY:
        return f"{start}; the objective is met."
    return f"{start}; no cause explains enough of it to be named."


def bound_name(bound: Bound, subclass: str | None) -> str:
    """Write a bound and its subclass: `capacity (preemption)`."""
    return f"{bound.value} ({subclass})" if subclass else bound.value


def summary(case: Case, judgement: Judgement, level: Confidence) -> str:
    """The answer in a sentence or two."""
    state = judgement.state
    window = duration(case.traffic.seconds)
    if case.traffic.lifetime and state is not State.STALLED:
        return "One reading only: sums since the engine started can rule causes out, not name the one of now."
    if state is State.IDLE:
        return f"Idle: nothing ran, nothing waited and no token came in {window}."
    if state is State.STALLED:
        return _dead(ended(case)) or _silent(_dead_address(case)) or _stalled(stopped(case), window)
    if state is State.HEALTHY:
        ceiling = "" if case.machine.bandwidth is not None else " Bandwidth was not judged."
        return f"Healthy: objectives met, nobody waits to speak of, no ITL tail.{ceiling}"
    if judgement.finding is None:
        why = "; ".join(judgement.unhealthy) or "too little was observed"
        return f"I can't tell: {why}, and no cause explains enough of it."
    finding = judgement.finding
    share = percent(case.share(finding.share_seconds))
    name = bound_name(finding.bound, finding.subclass)
    family = FAMILY[finding.bound]
    title = f"Bound by {name}" + (
        f", family {family}" if family not in (finding.bound.value, "other") else ""
    )
    told = f"It explains {share} of a request's time" if case.currency else "Of requests nothing is known"
    return f"{title}: {finding.argument} {told} ({level.value} confidence)."


def _dead(pairs: tuple[tuple[int, str], ...]) -> str:
    """Say which processes died; empty where none did."""
    if not pairs:
        return ""
    who = " and ".join(f"{role} {pid}" for pid, role in pairs)
    return f"Stalled: {who} ended while we watched; without it no token comes."


def _dead_address(case: Case) -> Gone | None:
    found = gone(case.timeline)
    return found if found is not None and not found.answered else None


def _silent(found: Gone | None) -> str:
    """Say that an address answers no more; empty where it does."""
    return (
        f"Stalled: it has not answered for the last {duration(found.seconds)}: {found.reason}."
        if found
        else ""
    )


_PENDING = "requests were pending and no token came."


def _stalled(halt: Halt | None, window: str) -> str:
    """Say what stands still: all of the engine, or some of its ranks while the others go on."""
    if halt is None:
        return f"Stalled: requests are pending and no token came in {window}."
    if halt.times > 1:
        return f"Stalled {halt.times} times, for {duration(halt.seconds)} of {window} in all: " + _PENDING
    if halt.ago:
        ended = f"until {duration(halt.ago)} before the end"
        return f"Stalled for {duration(halt.seconds)} of {window}, {ended}: {_PENDING}"
    whose = f" on rank {', '.join(halt.ranks)} while the others go on" if halt.ranks else ""
    return f"Stalled: requests are pending and no token came in the last {duration(halt.seconds)}{whose}."


def next_measurement(case: Case, judgement: Judgement) -> str:
    """The one thing to measure or to tell that would decide most of what is open."""
    if case.traffic.lifetime and judgement.state is not State.STALLED:
        return (
            "Take a second reading of the same process some 30 s later under load (kvdoctor record), and the "
            "difference: process_start_time_seconds must be equal in both; with running requests and preemptions."
        )
    if judgement.state is State.IDLE:
        return "Run again while the service is under its usual load."
    if judgement.state is State.STALLED and ended(case):
        return "Look at the engine's log for why it ended, and at the kernel's (dmesg) for the OOM killer."
    if judgement.state is State.STALLED and _dead_address(case):
        return "Look whether the server's processes live, at its log for why it ended, and at dmesg for the OOM killer."
    if judgement.state is State.STALLED:
        return "Look at the engine's stacks (py-spy dump --nonblocking --pid N) and its log."
    if case.traffic.first_tokens < 20 and not case.traffic.generated:
        return "Run again with a longer --seconds, so that 20 or more requests fall into the window."
    for finding in _open(judgement):
        for gap in finding.gaps:
            if gap.cure and finding.share_seconds >= OPEN * (judgement.finding or finding).share_seconds:
                return f"{finding.bound.value}: {gap.cure}."
    if case.machine.unknown is not None:
        return f"bandwidth: give {case.machine.unknown[1]}, so that steps are held against a ceiling."
    return "Nothing more is needed; run again after the change and compare (kvdoctor diff)."


def _open(judgement: Judgement) -> list[Finding]:
    """The named finding first, then what is possible, by cost."""
    possible = [f for f in judgement.findings if f.verdict is Verdict.POSSIBLE]
    ranked = sorted(possible, key=lambda f: -f.share_seconds)
    return ([judgement.finding] if judgement.finding else []) + ranked
