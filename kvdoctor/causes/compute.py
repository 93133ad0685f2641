"""Blame compute: prefill that fills TTFT, prefill beside decode steps, and drafts that are not accepted."""

from __future__ import annotations

from kvdoctor import metrics as m
from kvdoctor.case import COST, NOTICED, Case
from kvdoctor.causes.common import (
    NO_TRAFFIC,
    NOT_EXPORTED,
    TAIL_GAPS,
    UNCOUNTED,
    queue_behind_prefill,
    unseen_loads,
)
from kvdoctor.freeze import frozen
from kvdoctor.ledger import IN_STEP, PREFILL, QUEUE, STEP_UNDER_WAY
from kvdoctor.model import Advice, Basis, Bound, Evidence, Finding, Gap, Metric, Verdict
from kvdoctor.steps import PACES, computes_little, mixed_share, prefill_share
from kvdoctor.units import count, duration, percent

MAIN = 0.4
"""Share of TTFT from which prefill is its main part: no other part can then be half as large again."""
BESIDE = 0.2
"""Share of the mean ITL, lost beside prefill, from which decode clearly suffers."""
WITNESS = 0.5
"""Prefill seconds of all requests over the decode excess that they should explain, from which they do."""
STILL = 0.5
"""Seconds in which nobody got a token over those that decode lost, from which they are what it lost."""
POOR_ACCEPT = 0.3
"""Accepted over drafted tokens below which a verify step of several tokens gains little."""

_UNEXPLAINED = Gap(
    "itl tail", "long gaps without prefill to explain them", "look at stacks during a long gap"
)
_BEFORE_ENGINE = Gap(
    "front end",
    "time before the scheduler is not told from prefill",
    "attach by pid to see the front end's stacks and CPU, or read the engine's stage latencies of requests",
)


def _prefill(verdict: Verdict, why: str, cost: float = 0.0, evidence: tuple[Evidence, ...] = (),
             gaps: tuple[Gap, ...] = (), advice: tuple[Advice, ...] = ()) -> Finding:  # fmt: skip
    metric, gain = Metric.TTFT if cost else None, cost if verdict is Verdict.LIKELY else None
    return Finding(Bound.COMPUTE, verdict, "prefill", why, metric, cost, gain, evidence, gaps, advice)


def prefill(case: Case) -> Finding:
    """Prefill is the main part of TTFT, or fills the steps so that everything waits for it."""
    if case.ttft is None:
        return _prefill(Verdict.NO_DATA, "No first token in the window.", gaps=(NO_TRAFFIC,))
    if case.untold:
        why = "What TTFT is made of is not told: neither queue nor prefill."
        return _prefill(Verdict.NO_DATA, why, gaps=(NOT_EXPORTED,))
    own = case.ttft.part(PREFILL)
    busy = prefill_share(case.traffic) or 0.0
    behind = case.ttft.part(STEP_UNDER_WAY) * busy
    queued = case.ttft.part(QUEUE) * queue_behind_prefill(case)
    cost = own + behind + queued
    needed = max(MAIN * case.ttft.seconds, COST * case.currency, NOTICED)
    evidence = (
        case.evidence("prefill in TTFT", own, "seconds", threshold=needed, of=(m.PREFILL,)),
        case.evidence("waiting for a step under way with prefill in it", behind, "seconds", of=(m.ITL,)),
        case.evidence("queue before steps full of prefill", queued, "seconds", of=(m.QUEUE, m.WAITING)),
        *_busy_with_prompts(case, busy),
    )
    share = case.of_ttft(cost)
    if share < MAIN or case.share(cost) < COST or cost < NOTICED:
        why = f"Prefill is {percent(share)} of TTFT, {duration(cost)}"
        small = f"under {duration(NOTICED)}" if cost < NOTICED else f"under {percent(COST)} of a request"
        why += "." if share < MAIN else f", {small}: too little to matter."
        return _prefill(Verdict.RULED_OUT, why, evidence=evidence)
    if unseen_loads(case):
        why = f"Prefill is {percent(share)} of TTFT, computing or loading: {UNCOUNTED.reason}."
        return _prefill(Verdict.POSSIBLE, why, cost, evidence, (UNCOUNTED,))
    what = "the computing of prompt tokens"
    if computes_little(case.traffic):
        why = f"What the queue leaves of TTFT is {duration(own)}, and the steps hold too few prompt tokens for that."
        return _prefill(Verdict.POSSIBLE, why, cost, evidence, (_BEFORE_ENGINE,))
    items = case.multimodal
    if items:
        what += f", or of their {count(items)} images, sounds or videos, whose encoder is not told apart"
    why = f"{duration(cost)} of {duration(case.ttft.seconds)} TTFT is {what}."
    return _prefill(Verdict.LIKELY, why, cost, evidence, (), _less_prefill(cost))


_FEWER = "compute fewer prompt tokens: shorter prompts, or more hits (see hit_rate and capacity)"


def _less_prefill(cost: float) -> tuple[Advice, ...]:
    in_proportion = f"0 to {duration(cost)} of TTFT, in proportion to the tokens left out"
    twice = f"{duration(cost / 2)} of TTFT with twice the FLOPs"
    return (
        Advice(_FEWER, in_proportion, Basis.UPPER_BOUND, cost / 2),
        Advice("give prefill more FLOPs: fp8, more cards", twice, Basis.UPPER_BOUND, cost / 2),
    )


def _busy_with_prompts(case: Case, busy: float) -> tuple[Evidence, ...]:
    t = case.traffic
    each = t.computed / t.first_tokens if t.computed is not None and t.first_tokens else None
    return (
        case.evidence("prompt tokens computed a request", each, "tokens", of=(m.PROMPT_COMPUTED,)),
        *_multimodal(case),
        case.evidence(
            "time spent in prefill, at most", busy, "ratio", threshold=PACES, of=(m.ITL, m.PREFILL)
        ),
    )


def _interference(verdict: Verdict, why: str, cost: float = 0.0, evidence: tuple[Evidence, ...] = (),
                  gaps: tuple[Gap, ...] = (), advice: tuple[Advice, ...] = ()) -> Finding:  # fmt: skip
    metric, gain = Metric.ITL if cost else None, cost if cost and not gaps else None
    return Finding(Bound.COMPUTE, verdict, "interference", why, metric, cost, gain, evidence, gaps, advice)


def _multimodal(case: Case) -> tuple[Evidence, ...]:
    """Items whose encoder runs inside prefill; nothing where there is none."""
    items = case.multimodal
    return (case.evidence("multimodal inputs", items, "", threshold=0, of=(m.MM_QUERIES,)),) if items else ()


def interference(case: Case) -> Finding:
    """Prefill of other requests runs inside decode steps and stretches them."""
    tail = case.traffic.tail
    if case.itl is None or tail is None:
        return _interference(Verdict.NO_DATA, "No output gap in the window.", gaps=(NO_TRAFFIC,))
    part = case.itl.part(IN_STEP)
    cost = part * (case.gaps or 1.0)
    explained = _explained(case)
    evidence = (
        case.evidence("ITL lost beside prefill", part, "seconds", threshold=BESIDE * case.itl.seconds,
                      of=(m.ITL,)),
        case.evidence("gaps above twice the usual one", tail.tail, "", threshold=TAIL_GAPS, of=(m.ITL,)),
        case.evidence("usual gap", tail.typical, "seconds", of=(m.ITL,)),
        case.evidence("prefill seconds over the decode time lost", explained, "ratio", threshold=WITNESS,
                      of=(m.PREFILL,)),
        *_multimodal(case),
    )  # fmt: skip
    full = tail.tail < TAIL_GAPS and mixed_share(case.traffic) >= PACES
    if case.share(cost) < COST or (tail.tail < TAIL_GAPS and not full):
        why = "Decode steps are even: no prefill to speak of runs inside them."
        return _interference(Verdict.RULED_OUT, why, evidence=evidence)
    if part < BESIDE * case.itl.seconds:
        why = f"Prefill inside decode steps takes {duration(part)} of {duration(case.itl.seconds)} mean ITL."
        return _interference(Verdict.POSSIBLE, why, cost, evidence)
    if explained is None or explained < WITNESS or not case.traffic.computed:
        what = "Steps are even and full of prompt tokens" if full else f"{tail.tail:.0f} long gaps"
        why = f"{what}, but too little prefill in the window to explain them."
        verdict = Verdict.POSSIBLE if case.traffic.computed else Verdict.RULED_OUT
        return _interference(verdict, why, cost, evidence, (_UNEXPLAINED,))
    still = sum(silence.seconds for silence in frozen(case.timeline))
    if still >= STILL * _lost(case):
        why = f"Long gaps are those of {duration(still)} in which no token came at all, from anybody."
        return _interference(Verdict.POSSIBLE, why, cost, evidence, (_UNEXPLAINED,))
    why = f"Prefill inside decode steps takes {duration(part)} of a mean ITL of {duration(case.itl.seconds)}."
    if unseen_loads(case):
        why += " It may be loading, not computing."
        return _interference(Verdict.POSSIBLE, why, cost, evidence, (UNCOUNTED,))
    if full:
        why += " Every step is full of prompts, and smaller chunks would only make more steps."
    advice = (_fewer(cost),) if full else _separate(case, part, cost)
    return _interference(Verdict.LIKELY, why, cost, evidence, (), advice)


def _fewer(cost: float) -> Advice:
    share = f"0 to {duration(cost)} of a request, in proportion to the tokens left out"
    return Advice(_FEWER, share, Basis.UPPER_BOUND, cost / 2)


def _separate(case: Case, part: float, cost: float) -> tuple[Advice, ...]:
    busy = prefill_share(case.traffic) or 0.0
    even = "the longest gaps shrink; the mean stays, as the same prefill takes more steps, and TTFT grows"
    chunks = Advice("cut prefill into smaller chunks (--max-num-batched-tokens)", even, Basis.UPPER_BOUND)
    if busy >= PACES:
        return (_fewer(cost), chunks)
    away = f"ITL falls to about {duration(max(0.0, case.itl.seconds - part) if case.itl else 0.0)}"
    return (Advice("prefill elsewhere (disaggregation)", away, Basis.MODELLED, cost), _fewer(cost), chunks)


def _explained(case: Case) -> float | None:
    """Prefill seconds of all requests over the engine seconds that decode lost; None without either."""
    lost, seconds = _lost(case), case.traffic.prefill_seconds
    return seconds / lost if seconds is not None and lost else None


def _lost(case: Case) -> float:
    """Seconds of the engine that its decode steps took beyond the usual."""
    batch = case.traffic.decode_batch
    return (
        case.itl.part(IN_STEP) * case.itl.count / max(1.0, batch) if case.itl is not None and batch else 0.0
    )


def speculation(case: Case) -> Finding:
    """Drafted tokens are not accepted often enough to pay for the longer verify steps."""
    drafted, accepted = case.timeline.delta(m.SPEC_DRAFT_TOKENS), case.timeline.delta(m.SPEC_ACCEPTED)
    if not drafted or accepted is None:
        none = case.evidence("tokens drafted", drafted, "tokens", threshold=0, of=(m.SPEC_DRAFT_TOKENS,))
        why = "No tokens are drafted."
        return Finding(Bound.COMPUTE, Verdict.RULED_OUT, "speculation", why, evidence=(none,))
    rate = accepted / drafted
    drafts = case.timeline.delta(m.SPEC_DRAFTS)
    length = 1 + accepted / drafts if drafts else None
    evidence = (
        case.evidence("drafted tokens accepted", rate, "ratio", threshold=POOR_ACCEPT,
                      of=(m.SPEC_ACCEPTED, m.SPEC_DRAFT_TOKENS)),
        case.evidence("tokens a verify step", length, "tokens", of=(m.SPEC_DRAFTS,)),
    )  # fmt: skip
    gap = Gap(
        "speculation", "the step without drafts is not seen", "run once without speculation, and compare"
    )
    if rate >= POOR_ACCEPT:
        why = f"{percent(rate)} of the drafted tokens are accepted."
        return Finding(Bound.COMPUTE, Verdict.RULED_OUT, "speculation", why, evidence=evidence)
    why = f"Only {percent(rate)} of the drafted tokens are accepted; whether the steps pay is not seen."
    return Finding(
        Bound.COMPUTE, Verdict.POSSIBLE, "speculation", why, Metric.ITL, 0.0, None, evidence, (gap,)
    )


def check(case: Case) -> tuple[Finding, ...]:
    """Ask for prefill in TTFT, prefill in decode, and speculation."""
    return (prefill(case), interference(case), speculation(case))
