"""What stacks say for and against the host: eight samples or more, six in ten of them in its own frames (rule 11)."""

from __future__ import annotations

from dataclasses import replace

from kvdoctor.case import Case
from kvdoctor.hostview import HostView, StackMix
from kvdoctor.model import Advice, Basis, Bound, Evidence, Finding, Gap, Metric, Verdict
from kvdoctor.stackclass import Doing
from kvdoctor.units import percent

MOST = 0.6
"""Share of a thread's samples from which what they show is what it does (rule 11)."""
UNKNOWN = 0.25
"""Share of samples in code that no pattern knows, from which stacks rule nothing out."""
IDLE = 0.25
"""Share of time without any kernel, from which a step beyond its floor waits for the host (rule 11)."""
LOOP = ("engine_core", "scheduler", "loop")
FRONT = ("api_server", "tokenizer")
SUBCLASS = {
    Doing.SCHEDULER: "scheduler",
    Doing.KV_LOOKUP: "kv_lookup",
    Doing.TOKENIZER: "tokenizer",
    Doing.DETOKENIZER: "tokenizer",
}
_LAUNCH = (Doing.FORWARD, Doing.SAMPLING)
_ADVICE = {
    "scheduler": "schedule while the last step runs (async scheduling), or batch more steps per schedule",
    "kv_lookup": "a native hash (--prefix-caching-hash-algo xxhash), larger blocks, or fewer look-up tiers",
    "tokenizer": "more front-end processes (--api-server-count), a fast tokenizer, or pre-tokenized prompts",
    "launch_bound": "capture the decode step as a graph (drop --enforce-eager), or larger batches",
}


def loop_mix(view: HostView) -> StackMix | None:
    """Return what the engine's own loop was doing, of the rank whose loop is most in host frames."""
    mains = [mix for mix in view.mix(*LOOP) if mix.thread == "main"]
    return max(mains, key=lambda mix: mix.share(*SUBCLASS), default=None)


def _evidence(mix: StackMix, share: float, what: str) -> tuple[Evidence, ...]:
    source = f"py-spy, {mix.role} {mix.pid}, thread {mix.thread}"
    told = tuple(
        Evidence(f"in {doing.value}", n / mix.samples, "ratio", None, source) for doing, n in mix.counts[:4]
    )
    return (
        Evidence(f"stack samples in {what}", share, "ratio", MOST, source),
        Evidence("stack samples", float(mix.samples), "", 8.0, source),
        *told,
    )  # fmt: skip


def loop(case: Case, known: Finding) -> Finding:
    """Judge the engine's loop by its stacks, on top of what the metrics alone could say."""
    mix = loop_mix(case.host) if case.host else None
    if case.host is None or mix is None:
        return _idle(case, known, None)
    share = mix.share(*SUBCLASS)
    evidence = _evidence(mix, share, "scheduling, look-up or tokenizer frames")
    if share >= MOST:
        sums = {name: mix.share(*(d for d in SUBCLASS if SUBCLASS[d] == name)) for name in SUBCLASS.values()}
        name = max(sums, key=lambda each: sums[each])
        cost = share * case.currency
        why = f"{percent(share)} of {mix.samples} samples of the engine's loop are in Python that plans the step."
        return Finding(
            Bound.HOST,
            Verdict.LIKELY,
            name,
            why,
            None,
            cost,
            cost or None,
            evidence,
            (),
            (_advice(name, cost, share),),
        )
    found = _idle(case, replace(known, evidence=(*known.evidence, *evidence), gaps=()), mix)
    if found.verdict is Verdict.NO_DATA and mix.share(Doing.OTHER) >= UNKNOWN:
        why = f"{percent(mix.share(Doing.OTHER))} of the samples of the engine's loop are in unknown code."
        return replace(found, argument=why)
    if found.verdict is Verdict.NO_DATA:
        why = f"Only {percent(share)} of {mix.samples} samples of the engine's loop are in Python that plans the step."
        return replace(found, verdict=Verdict.RULED_OUT, argument=why, evidence=evidence)
    return found


def _advice(name: str, cost: float, share: float) -> Advice:
    return Advice(_ADVICE[name], f"up to {percent(share)} of the time", Basis.UPPER_BOUND, cost or None)


def _idle(case: Case, known: Finding, mix: StackMix | None) -> Finding:
    """Idle SMs turn a step beyond its floor into the host's. Time occupancy proves idleness, never work."""
    idle = case.host.idle_sms if case.host else None
    if idle is None or known.verdict is not Verdict.POSSIBLE:
        return known
    evidence = (
        *known.evidence,
        Evidence("time without any kernel", idle, "ratio", IDLE, "NVML time occupancy"),
    )
    if idle < IDLE:
        return replace(known, evidence=evidence)
    name = None
    if mix is not None and mix.share(*_LAUNCH) >= MOST:
        name = "launch_bound"
    why = f"{known.argument} For {percent(idle)} of the time no kernel runs at all."
    cost = min(known.share_seconds, idle * case.currency)
    advice = (_advice(name, cost, idle),) if name else ()
    return replace(
        known, verdict=Verdict.LIKELY, subclass=name, argument=why, share_seconds=cost, recoverable_seconds=cost,
        evidence=evidence, advice=advice,
    )  # fmt: skip


def front(case: Case, known: Finding) -> Finding:
    """Judge the front end by the stacks of its threads: one that tokenizes in most samples is its bottleneck."""
    mixes = case.host.mix(*FRONT) if case.host else ()
    if not mixes:
        return known
    mix = max(mixes, key=lambda each: each.share(Doing.TOKENIZER, Doing.DETOKENIZER))
    share = mix.share(Doing.TOKENIZER, Doing.DETOKENIZER)
    evidence = (*_evidence(mix, share, "tokenizer frames"), *known.evidence)
    if share < MOST:
        return replace(known, evidence=evidence, gaps=())
    cost = known.share_seconds or share * (case.ttft.seconds if case.ttft else 0.0)
    why = f"{percent(share)} of {mix.samples} samples of a front-end thread are in the tokenizer."
    return Finding(
        Bound.HOST, Verdict.LIKELY, "tokenizer", why, Metric.TTFT, cost, cost, evidence, (),
        (_advice("tokenizer", cost, share),),
    )  # fmt: skip


def missing(view: HostView) -> tuple[Gap, ...]:
    """Return the gap that too few stacks leave, empty when there are enough."""
    if view.sampled:
        return ()
    reason = "fewer than eight stack samples of any thread"
    return (Gap("stacks", reason, "watch longer (--seconds 30); the gaps say if py-spy was refused"),)
