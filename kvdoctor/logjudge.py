"""One answer from the word of a log: a bound that is named, or a state, and never more than medium confidence."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.causes.logged import opinions
from kvdoctor.causes.logged.experiment import COLD, words
from kvdoctor.causes.logged.movement import HARDLY, needed
from kvdoctor.causes.logged.opinion import COST, Grade, Opinion
from kvdoctor.causes.logged.steps import prefill_share
from kvdoctor.judge import STALLED_SECONDS, Judgement
from kvdoctor.logstates import keeps_up, nothing_asked
from kvdoctor.logview import NOTHING, LogView
from kvdoctor.model import Bound, Confidence, Finding, Metric, State, Verdict
from kvdoctor.service import Objective
from kvdoctor.story import bound_name
from kvdoctor.units import duration, percent

FEW_LINES = 3
"""Lines under which gauges are a moment, not a course."""
LEDGER_CURE = "read the engine's /metrics over the same time: kvdoctor diagnose --url URL"
UNUSED = 0.02
"""GPU time with any kernel up to which nothing is asked of it: busy-polling CPUs are no load (rule 11)."""
PROMPTS = 0.1
"""Share of the steps in prompts from which health hangs on TTFT, which no line tells (rule 3's avoidable prefill)."""
SPEAKS = 6
"""Lines from which health is more than a hint: a minute of vLLM's log."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The answer of a log with what it rests on."""

    judgement: Judgement
    grade: Grade
    confidence: Confidence
    reasons: tuple[str, ...]


def judge_log(view: LogView, objective: Objective, slow: str | None) -> Verdicts:
    """Weigh what a log says of one engine."""
    found = opinions(view, objective)
    metric = Metric(slow) if slow else Metric.TTFT
    findings = tuple(opinion.finding for opinion in found)
    quiet = _quiet(view)
    if quiet is not None:
        return _state(view, quiet, metric, (), findings)
    named = max(found, key=_strength)
    if named.finding.verdict is Verdict.LIKELY:
        return _named(view, named, metric, findings)
    reasons = _unhealthy(view, objective)
    healthy = _served(view, objective) and not reasons
    return _state(view, State.HEALTHY if healthy else State.INSUFFICIENT, metric, reasons, findings)


def _strength(opinion: Opinion) -> int:
    return int(opinion.grade) if opinion.finding.verdict is Verdict.LIKELY else -1


def _quiet(view: LogView) -> State | None:
    """Name the state of an engine that computed nothing while it told; None when it did, or does not tell."""
    if nothing_asked(view):
        return State.IDLE
    occupied = view.values(lm.GPU_BUSY)
    busy = view.running is not None and view.running.peak > 0
    if (
        occupied
        and max(occupied) <= UNUSED
        and not busy
        and not view.flowing
        and not view.values(lm.CONCURRENCY)
    ):
        return State.IDLE
    if view.running is not None and view.waiting is None and view.running.peak == 0 and not view.flowing:
        return State.IDLE
    if view.running is None or view.waiting is None:
        return None
    if not view.flowing and view.running.peak == 0 and view.waiting.peak == 0:
        return State.IDLE
    last = view.of(lm.GENERATION_RATE)
    none = not any(s.value > NOTHING for q in (lm.GENERATION_RATE, lm.PROMPT_RATE) for s in view.of(q))
    if last and none and view.running.peak == 0 and view.waiting.peak == 0:
        return State.IDLE
    still = list(itertools.takewhile(lambda said: said.value <= NOTHING, reversed(last)))
    prompts = {s.at for s in view.of(lm.PROMPT_RATE) if s.value > NOTHING}
    long = bool(still) and still[0].at - still[-1].at >= STALLED_SECONDS
    pending = view.running.last + view.waiting.last
    return State.STALLED if long and pending and not any(s.at in prompts for s in still) else None


def _served(view: LogView, objective: Objective) -> bool:
    """Say whether the log shows enough to call a service well: tokens, and that nobody waits for them."""
    alone = view.running is not None and view.running.peak <= 1
    calm = view.waiting is not None and (
        view.running is not None or (view.usage is not None and not view.waiting.peak)
    )
    if alone or calm:
        return view.flowing
    if keeps_up(view, objective):
        return True
    ttft, itl = view.values(lm.TTFT), view.values(lm.ITL)
    if ttft and itl:
        return max(ttft) <= objective.ttft_p95 and max(itl) <= objective.itl_p95
    total, hit, share = sum(view.values(lm.TIER_TOTAL)), sum(view.values(lm.TIER_HIT)), needed(view)
    loads = view.values(lm.LOAD_TIME)
    short = bool(loads) and max(loads) < COST * objective.ttft_p95
    little = share is not None and share < HARDLY
    return bool(total) and (little or short) and hit >= (1 - 2 * COST) * total


def _unhealthy(view: LogView, objective: Objective) -> tuple[str, ...]:
    """List what a log shows against a clean bill of health."""
    reasons, share, itl, prompts = [], view.queue_share, view.itl, prefill_share(view)
    if share is not None and share >= COST:
        reasons.append(f"requests wait {percent(share)} of their time")
    if itl is not None and itl > objective.itl_p95:
        reasons.append(f"a token takes {duration(itl)}, by running requests over tokens a second")
    ttft = [s.value for s in view.of(lm.TTFT) if not COLD.search(words(s))]
    if ttft and min(ttft) > objective.ttft_p95:
        reasons.append(f"the first token takes {duration(min(ttft))}")
    if prompts is not None and prompts >= PROMPTS:
        reasons.append(f"prompts take up to {percent(prompts)} of the steps, and TTFT is not told")
    return tuple(reasons)


def _by_metric(finding: Finding | None, state: State) -> dict[Metric, Finding | State]:
    if finding is None:
        return dict.fromkeys(Metric, state)
    return {each: finding if finding.metric in (None, each) else State.INSUFFICIENT for each in Metric}


def _state(
    view: LogView, state: State, metric: Metric, reasons: tuple[str, ...], findings: tuple[Finding, ...]
) -> Verdicts:
    judgement = Judgement(state, metric, None, _by_metric(None, state), reasons, findings)
    why = [f"{view.lines} lines of a log", "no latencies: TTFT is not known"]
    level = Confidence.LOW
    queue_untold = view.running is not None and view.waiting is None
    if (state is State.IDLE and not queue_untold) or (state is State.HEALTHY and view.lines >= SPEAKS):
        level = Confidence.MEDIUM
    if state is State.HEALTHY:
        why.append("bandwidth not judged")
    return Verdicts(judgement, Grade.NONE, level, tuple(why))


def _named(view: LogView, named: Opinion, metric: Metric, findings: tuple[Finding, ...]) -> Verdicts:
    finding = named.finding
    judgement = Judgement(
        State.BOUND, finding.metric or metric, finding, _by_metric(finding, State.BOUND), (), findings
    )
    told = {
        Grade.PROVEN: "a line says it itself",
        Grade.MEASURED: "rates and gauges of the log show it",
        Grade.INFERRED: "it is inferred, not stated",
    }
    reasons = [told[named.grade], f"{view.lines} lines of a log", "its share of a request is unknown"]
    sure = named.grade is Grade.PROVEN or (named.grade is Grade.MEASURED and view.lines >= FEW_LINES)
    return Verdicts(judgement, named.grade, Confidence.MEDIUM if sure else Confidence.LOW, tuple(reasons))


def only_settings(view: LogView) -> bool:
    """Say whether the log holds nothing but what an engine says while it starts."""
    return not set(view.said) - lm.SETTINGS


NAMED_BY = {
    Bound.CAPACITY: "the preemption counter (vllm:num_preemptions_total, sglang:num_retracted_requests_total) and "
    "KV cache usage over the next minutes, and the context length of the running requests",
    Bound.OFFLOAD: "tokens, bytes and seconds of each load from the tier (cached tokens by tier), and TTFT with the "
    "tier and without it on the same traffic",
    Bound.HIT_RATE: "token ids of two prompts that should share (first differing position), and the cached tokens "
    "of each request",
    Bound.NETWORK: "bytes, seconds and the transport of each transfer, against a plain copy between the two places",
    Bound.COMPUTE: "new tokens of each prefill batch, the queue, and ITL while prefill runs",
    Bound.QUEUEING: "running against its limit, the queue's length and time in the queue",
    Bound.HOST: "stacks of the API and engine processes (py-spy), and GPU idle gaps between steps",
    Bound.BANDWIDTH: "the DRAM-active counter (DCGM 1005) during decode at two context lengths, and the measured "
    "read rate of the memory",
}
"""What would confirm a bound that a log or a report names."""


def next_measurement(view: LogView, judgement: Judgement) -> str:
    """The measurement that would decide what this log leaves open."""
    if judgement.finding is not None:
        what = NAMED_BY.get(judgement.finding.bound, "the engine's /metrics over the same time")
        return f"{judgement.finding.bound.value}: read {what}."
    if judgement.state is State.IDLE:
        return "Take the log of a time under the usual load."
    if judgement.state is State.STALLED:
        return "Look at the engine's stacks (py-spy dump --nonblocking --pid N) and at its last errors."
    if judgement.state is State.HEALTHY:
        return "TTFT and ITL from the engine's /metrics (kvdoctor diagnose --url URL), to know what the log cannot say."
    if only_settings(view) or (
        {m.HITS_RATE_GAUGE, lm.BATCH_HIT_RATE, lm.CACHING} & set(view.said) and not view.flowing
    ):
        return (
            "Read reused and missed KV blocks (prefix hit and query counters, or cached tokens of each request) before "
            "and after a repeated prompt, with the prompt's length and the TTFT of the first and the second identical "
            "request; the KV pool's size in tokens; and the token ids of both prompts: the first differing position."
        )
    for finding in judgement.findings:
        if finding.verdict is Verdict.POSSIBLE and finding.gaps:
            return f"{finding.bound.value}: {finding.gaps[0].cure}."
    return (
        "Take two scrapes of one process (the same process_start_time_seconds, so no restart), some 30 s apart under "
        "load, and the difference between them: running and waiting requests, KV usage, preemptions, prefix hits and "
        "queries, TTFT and ITL; and stacks of the API process (py-spy)."
    )


def summary(view: LogView, verdicts: Verdicts) -> str:
    """The answer in a sentence or two."""
    judgement = verdicts.judgement
    finding = judgement.finding
    if finding is not None:
        name = bound_name(finding.bound, finding.subclass)
        return (
            f"Bound by {name}, as far as a log tells: {finding.argument} "
            f"Its share of a request's time is unknown ({verdicts.confidence.value} confidence)."
        )
    if judgement.state is State.IDLE:
        return "Idle: the log shows nothing running, nothing waiting and no token."
    if judgement.state is State.STALLED:
        return "Stalled: requests are pending at the log's end, and no token is made."
    if judgement.state is State.HEALTHY:
        pace = f", a token takes {duration(view.itl)}" if view.itl is not None else ""
        return f"Healthy as far as a log tells: nobody waits and the pool has room{pace}. Bandwidth was not judged."
    why = "; ".join(judgement.unhealthy) or "the log says too little"
    return f"I can't tell: {why}, and no cause explains it."
