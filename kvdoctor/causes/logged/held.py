"""What a report holds against one another: what was asked and what was had, what there is and what is wanted."""

from __future__ import annotations

import re

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.causes.logged.experiment import HIT_DROP, words
from kvdoctor.causes.logged.features import TIER
from kvdoctor.causes.logged.machine import IDLE_GPU
from kvdoctor.causes.logged.opinion import Grade, Opinion, likely
from kvdoctor.causes.logged.trends import OUTRUN
from kvdoctor.logview import LogView
from kvdoctor.model import Bound, Metric
from kvdoctor.service import Objective
from kvdoctor.units import count, duration, percent, rate_bytes
from kvdoctor.waiting import FULL

POOR_LINK = 0.25
"""Share of its rated speed under which a link is used badly: large pieces reach over 0.8 of it over RDMA."""
MOSTLY, NO_GAIN = 0.9, 0.8
"""Share of prompt tokens that a tier brings, and time with it over time without it, from which it saves too little."""
NOISE = 1.05
"""Ratio of two figures from which they differ by more than two runs of one kind do."""
OUTSIDE = 4.0
"""Clients over requests that the engine knows of, from which most of them are held before the engine."""
UNEVEN, MANY = 4.0, 8.0
"""Longest queue over the shortest of several replicas, and its length, from which load is spread badly."""
_TIER_OFF = re.compile(r"\b(off|without|no|none|disabled|vllm only|baseline|recomput\w*|cold)\b")
_REPLICA = re.compile(r"\b(replica|instance|worker|pod|node|rank|engine|server|dp)s? ?[a-z0-9]{1,3}\b")
_MOVING = re.compile(r"transfer|xfer|bandwidth|\bbw\b|busbw|iperf|hand ?(over|off)|saturated")
_FASTER = "load only where it beats recomputing: a faster tier, prefetch, larger pieces, or no outer tier for this load"


def load_against_compute(view: LogView) -> Opinion | None:
    """Loading takes as long as computing the same tokens would, by times or by tokens a second."""
    took, again = view.values(lm.LOAD_TIME), view.values(lm.RECOMPUTE_TIME)
    rate, prefill = view.values(lm.LOAD_TOKEN_RATE), view.values(lm.PREFILL_RATE)
    if took and again and max(took) > max(again):
        told = f"A load takes {duration(max(took))}, computing the same {duration(max(again))}."
    elif rate and prefill and max(rate) <= OUTRUN * max(prefill):
        told = f"A tier brings {count(max(rate))} tokens a second, prefill computes {count(max(prefill))}."
    else:
        return None
    evidence = (
        view.evidence("a load takes", max(took, default=None), "seconds", of=(lm.LOAD_TIME,)),
        view.evidence("computing it takes", max(again, default=None), "seconds", of=(lm.RECOMPUTE_TIME,)),
        view.evidence("rate of loads", max(rate, default=None), "tokens/s", of=(lm.LOAD_TOKEN_RATE,)),
        view.evidence("rate of prefill", max(prefill, default=None), "tokens/s", of=(lm.PREFILL_RATE,)),
    )
    return likely(Bound.OFFLOAD, "slow_tier", told, Grade.MEASURED, evidence, do=_FASTER, metric=Metric.TTFT)


def hits_without_gain(view: LogView) -> Opinion | None:
    """Nearly all tokens come from a tier, and requests take nearly as long as without it."""
    share = max(view.values(lm.EXTERNAL_HIT_RATE), default=0.0)
    if share < MOSTLY:
        return None
    for quantity in (lm.TTFT, lm.WALL, lm.REQUEST_TIME):
        off = [s.value for s in view.of(quantity) if _TIER_OFF.search(words(s))]
        on = [s.value for s in view.of(quantity) if not _TIER_OFF.search(words(s))]
        if off and on and min(on) >= NO_GAIN * max(off) > 0:
            why = f"{percent(share)} of the prompts come from a tier, and it takes {duration(min(on))} in place of "
            why += f"{duration(max(off))} without: fetching costs as much as computing."
            evidence = (view.evidence("time with the tier over time without", min(on) / max(off), "x",
                                      threshold=NO_GAIN, of=(quantity,)),)  # fmt: skip
            return likely(
                Bound.OFFLOAD, "slow_tier", why, Grade.INFERRED, evidence, do=_FASTER, metric=Metric.TTFT
            )
    return None


def link(view: LogView, objective: Objective) -> Opinion | None:
    """A link gives a small part of what it is rated for, and the first token is late, or transfers are timed."""
    rated = view.values(lm.LINK_RATED)
    rate = [s.value for s in view.of(lm.TRANSFER_RATE) if _MOVING.search(words(s))]
    if not rate or not rated or max(rate) >= POOR_LINK * max(rated):
        return None
    late = max(view.values(lm.TTFT), default=0.0) >= objective.ttft_p95
    if not late and not view.of(lm.TRANSFER_TIME) and not view.flowing:
        return None
    why = f"The link gives {rate_bytes(max(rate))} of {rate_bytes(max(rated))}."
    evidence = (view.evidence("rate over the rated one", max(rate) / max(rated), "ratio", threshold=POOR_LINK,
                              of=(lm.TRANSFER_RATE, lm.LINK_RATED)),)  # fmt: skip
    do = "see which transport was chosen (RDMA, NVLink, TCP), then the size of the pieces and how many are in flight"
    return likely(Bound.NETWORK, "used_badly", why, Grade.INFERRED, evidence, do=do)


def demand(view: LogView) -> Opinion | None:
    """The prompts that should run at once need more tokens than the pool has, by arithmetic."""
    pool, prompt, clients = view.last(lm.POOL_TOKENS), view.last(lm.PROMPT_TOKENS), view.last(lm.CONCURRENCY)
    if view.of(lm.SHARED_PREFIX) or view.of(lm.REPEATED) or not pool or not prompt or not clients:
        return None
    at_once = min(clients, view.last(lm.MAX_RUNNING) or clients)
    if at_once * prompt < OUTRUN * pool:
        return None
    why = (
        f"{count(at_once)} prompts of {count(prompt)} tokens do not fit into a pool of {count(pool)} at once."
    )
    evidence = (view.evidence("tokens wanted over tokens of the pool", at_once * prompt / pool, "x", threshold=OUTRUN,
                              of=(lm.POOL_TOKENS, lm.PROMPT_TOKENS, lm.CONCURRENCY)),)  # fmt: skip
    do = "give the KV pool more room (GPU memory for it, fp8 KV, more cards), or let fewer or shorter sequences run"
    return likely(Bound.CAPACITY, "admission", why, Grade.INFERRED, evidence, do=do)


def less_than_expected(view: LogView) -> Opinion | None:
    """The prompts allow many more hits than there are."""
    could, rate = view.values(lm.EXPECTED_HIT_RATE), view.values(m.HITS_RATE_GAUGE)
    if not could or not rate or max(could) - max(rate) < HIT_DROP:
        return None
    why = f"{percent(max(rate))} of the prompt tokens hit, and {percent(max(could))} could."
    evidence = (view.evidence("hit rate", max(rate), "ratio", threshold=max(could) - HIT_DROP,
                              of=(m.HITS_RATE_GAUGE, lm.EXPECTED_HIT_RATE)),)  # fmt: skip
    do = "compare the token ids of two prompts that should share, and whether their blocks are evicted between them"
    return likely(Bound.HIT_RATE, None, why, Grade.MEASURED, evidence, do=do, metric=Metric.TTFT)


def before_the_engine(view: LogView, objective: Objective) -> Opinion | None:
    """Clients wait for first tokens while the engine knows of few of them and has no queue."""
    clients, ttft = view.last(lm.CONCURRENCY), view.values(lm.TTFT)
    if clients is None or view.running is None or view.waiting is None or view.waiting.peak > 0:
        return None
    known = view.running.peak
    if clients < OUTSIDE * max(known, 1.0) or max(ttft, default=0.0) < objective.ttft_p95:
        return None
    why = f"{count(clients)} requests are out, the engine runs {count(known)} and has no queue, and first tokens take "
    why += f"{duration(max(ttft))}: requests are held before the engine."
    evidence = (view.evidence("requests out over requests running", clients / max(known, 1.0), "x", threshold=OUTSIDE,
                              of=(lm.CONCURRENCY, m.RUNNING)),)  # fmt: skip
    do = "take stacks of the API processes (py-spy); more of them, native tokenizers, less work a request in them"
    return likely(Bound.HOST, None, why, Grade.INFERRED, evidence, do=do, metric=Metric.TTFT)


def uneven(view: LogView) -> Opinion | None:
    """One replica has a long queue while another has hardly any."""
    if view.usage is not None and view.usage.peak >= FULL:
        return None
    rows = [(_REPLICA.sub("", words(s)), s) for s in view.of(m.WAITING) if _REPLICA.search(words(s))]
    for stem in {stem for stem, _ in rows}:
        queues = [s.value for name, s in rows if name == stem]
        if len(queues) > 1 and max(queues) >= max(MANY, UNEVEN * min(queues)):
            long, short = count(max(queues)), count(min(queues))
            why = f"One replica has {long} waiting, another {short}: load is spread unevenly."
            evidence = (view.evidence("longest queue of a replica", max(queues), "requests",
                                      threshold=max(MANY, UNEVEN * min(queues)), of=(m.WAITING,)),)  # fmt: skip
            do = "route by load as well as by prefix"
            return likely(
                Bound.QUEUEING, "arrivals", why, Grade.INFERRED, evidence, do=do, metric=Metric.TTFT
            )
    return None


def at_the_limit(view: LogView) -> Opinion | None:
    """As many run as may, and others wait: the limit holds them, whatever else is short."""
    allowed, running, waiting = view.last(lm.MAX_RUNNING), view.running, view.waiting
    queued = max(view.values(lm.QUEUED_STEPS), default=0.0) if waiting is None else waiting.peak
    if not allowed or running is None or not queued or running.peak < allowed:
        return None
    if view.preemptions or (view.usage is not None and view.usage.peak >= FULL):
        return None
    others = (
        f"{count(queued)} wait" if waiting is not None else f"others wait in {percent(queued)} of the steps"
    )
    why = f"{count(running.peak)} run, as many as may, and {others}."
    evidence = (view.evidence("running over those that may", running.peak / allowed, "x", threshold=1.0,
                              of=(m.RUNNING, lm.MAX_RUNNING)),)  # fmt: skip
    do = "raise the limit on running sequences, as long as the steps stay short and the pool has room"
    return likely(Bound.QUEUEING, "admission_limit", why, Grade.INFERRED, evidence, do=do, metric=Metric.TTFT)


def no_direct_path(view: LogView) -> Opinion | None:
    """Cards of one group have no direct path, and they are not kept busy: they wait for one another."""
    busy = view.values(lm.GPU_BUSY)
    if (
        not view.of(lm.FAST_PATH_OFF)
        or max(view.values(lm.CARDS), default=1) < 2
        or not busy
        or min(busy) > IDLE_GPU
    ):
        return None
    why = f"A direct path between the cards is ruled out, and one of them runs only {percent(min(busy))} of the time."
    evidence = (view.evidence("GPU time with any kernel, least busy card", min(busy), "ratio", threshold=IDLE_GPU,
                              of=(lm.GPU_BUSY, lm.FAST_PATH_OFF, lm.CARDS)),)  # fmt: skip
    do = "a direct path (P2P, NVLink) between the cards, or fewer of them in one group"
    return likely(Bound.NETWORK, "tensor_parallel", why, Grade.INFERRED, evidence, do=do)


def tier_costs(view: LogView) -> Opinion | None:
    """With an outer tier several figures are worse and none is better: it costs, and brings nothing here."""
    worse: set[str] = set()
    for quantity in (
        lm.TTFT,
        lm.ITL,
        lm.WALL,
        lm.SERVED,
        lm.PREFILL_RATE,
        lm.GENERATION_RATE,
        lm.DECODE_RATE,
    ):
        rows = [s for s in view.of(quantity) if s.value > 0]
        on = [s.value for s in rows if TIER.search(words(s)) and not _TIER_OFF.search(words(s))]
        off = [s.value for s in rows if _TIER_OFF.search(words(s))]
        if len(on) != 1 or len(off) != 1:
            continue
        slower = on[0] / off[0] if quantity in (lm.TTFT, lm.ITL, lm.WALL) else off[0] / on[0]
        if slower < 1 / NOISE:
            return None
        worse |= {quantity.name} if slower >= NOISE else set()
    if len(worse) < 2:
        return None
    why = f"With the tier {count(len(worse))} figures are worse than without it, and none is better."
    evidence = (view.evidence("figures that are worse with the tier", len(worse), threshold=2),)
    return likely(Bound.OFFLOAD, "slow_tier", why, Grade.INFERRED, evidence, do=_FASTER)


def check(view: LogView, objective: Objective) -> tuple[Opinion, ...]:
    """Hold every pair against one another."""
    asked = (
        demand(view),
        no_direct_path(view),
        tier_costs(view),
        load_against_compute(view),
        hits_without_gain(view),
        less_than_expected(view),
        link(view, objective),
        before_the_engine(view, objective),
        uneven(view),
        at_the_limit(view),
    )
    return tuple(opinion for opinion in asked if opinion is not None)
