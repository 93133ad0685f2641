"""What a report's figures show over one condition: the prompt's length, the cards, the offered load, a repeat."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Sequence

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.causes.logged.experiment import CHANGED, COLD, HIT, HIT_DROP, SAME, WORSE, words
from kvdoctor.causes.logged.hits import LOW
from kvdoctor.causes.logged.opinion import OF_TTFT, Grade, Opinion, likely
from kvdoctor.causes.logged.turns import turns
from kvdoctor.logview import LogView
from kvdoctor.model import Bound, Metric
from kvdoctor.quantity import Quantity
from kvdoctor.service import Objective
from kvdoctor.units import count, duration, percent
from kvdoctor.waiting import FULL

POINTS, SPAN = 3, 4.0
"""Lengths of the prompt from which a course is one, and the longest over the shortest."""
STEEP = 1.2
"""The same for two lengths alone: attention grows with the square, a queue or a load does not."""
LINEAR = 0.8
"""Growth of log TTFT over log length from which the prompt's tokens set it: computing them is linear at least."""
FLAT, JUMP = 1.25, 10.0
"""Change of ITL up to which the steps are the same, and rise of TTFT that then lies before the first of them."""
OUTRUN = 1.2
"""Offered over served from which the queue grows as long as it lasts (queueing's rise)."""
USUAL = 1024.0
"""Sequences that run at once at most where no limit is told: vLLM's largest default."""
TWICE = 2.0
"""Clients over the batch's limit from which a request waits as long as it runs."""


_CLIENTS = re.compile(r"concurren|clients|users|parallel|at once")


def _points(view: LogView, quantity: Quantity) -> list[tuple[float, float]]:
    """(length of the prompt, figure) of the rows that tell both and speak of no hit, shortest first."""
    found: dict[float, list[float]] = {}
    for said in view.of(quantity):
        if said.labels.get("length") and not HIT.search(words(said)):
            found.setdefault(max(1.0, float(said.labels["length"])), []).append(said.value)
    return sorted((length, statistics.median(values)) for length, values in found.items())


def _course(points: Sequence[tuple[float, float]]) -> bool:
    lengths = {length for length, _ in points}
    return len(lengths) >= POINTS and min(lengths) > 0 and max(lengths) >= SPAN * min(lengths)


def long_prompts(view: LogView, objective: Objective) -> Opinion | None:
    """TTFT grows with the prompt as its computing does."""
    points = _points(view, lm.TTFT)
    if len(points) < 2 or points[0][1] <= 0 or points[-1][1] < objective.ttft_p95:
        return None
    (short, first), (long, last) = points[0], points[-1]
    growth = math.log(last / first) / math.log(long / short) if long >= SPAN * short else 0.0
    if growth < (LINEAR if _course(points) else STEEP):
        return None
    why = (
        f"From {count(short)} to {count(long)} tokens of the prompt TTFT grows from {duration(first)} to "
        f"{duration(last)}, as computing them does."
    )
    evidence = (view.evidence("TTFT of the longest prompt", last, "seconds", threshold=objective.ttft_p95,
                              of=(lm.TTFT,)),)  # fmt: skip
    do = "reuse what prompts share, shorter prompts, or more compute for prefill"
    return likely(Bound.COMPUTE, "prefill", why, Grade.INFERRED, evidence, do=do, metric=Metric.TTFT)


_OTHERS: tuple[Quantity, ...] = (
    m.WAITING, m.RUNNING, m.HITS_RATE_GAUGE, m.KV_CACHE_USAGE, lm.OFFERED, lm.SERVED, lm.QUEUED,
    lm.REPEATED, lm.VOLATILE, lm.BATCH_CACHED, lm.SHARED_PREFIX, lm.EXTERNAL_HIT_RATE, lm.LOAD_TIME, lm.TRANSFER_TIME,
    lm.PREFILL_RATE, lm.TRANSFER_RATE, lm.HOST_TIME, lm.CPU_BUSY, lm.GPU_BUSY, lm.GPU_IDLE,
)  # fmt: skip
"""What else may hold a first token, or tells better of it."""


def one_long_prompt(view: LogView, objective: Objective) -> Opinion | None:
    """The first token of one long prompt is late, and nothing but its computing is told to take the time."""
    ttft, prompt = view.values(lm.TTFT), view.last(lm.PROMPT_TOKENS)
    if any(_AGAIN.search(words(said)) for said in view.of(lm.TTFT)):
        return None
    if not prompt or prompt < LONG_PROMPT or len(ttft) != 1 or ttft[0] < objective.ttft_p95:
        return None
    if any(view.of(q) for q in _OTHERS) or max([0, *view.values(lm.CONCURRENCY)]) > 1:
        return None
    if max(view.values(lm.CARDS), default=1) > 1:
        return None
    if not SLOWEST <= prompt / ttft[0] <= FASTEST:
        return None
    why = f"The first token of {count(prompt)} tokens takes {duration(ttft[0])}, as computing them may."
    evidence = (view.evidence("tokens of the prompt a second", prompt / ttft[0], "tokens/s", threshold=FASTEST,
                              of=(lm.TTFT, lm.PROMPT_TOKENS)),)  # fmt: skip
    do = "reuse what prompts share, shorter prompts, or more compute for prefill"
    return likely(Bound.COMPUTE, "prefill", why, Grade.INFERRED, evidence, do=do, metric=Metric.TTFT)


_AGAIN = re.compile(r"\b(hits?|cached?|warm|turns?|follow|second|again|restart|resum\w*|session|repeat\w*)\b")
LONG_PROMPT = 8192.0
"""Tokens of a prompt from which its computing is a matter of seconds on most cards."""
SLOWEST, FASTEST = 100.0, 20_000.0
"""Tokens a second at which one prompt is computed: a large model on one card, a small one on a new card."""


def long_contexts(view: LogView) -> Opinion | None:
    """Decode slows down as contexts grow: a step reads all their KV. A measured read rate has the word over it."""
    if view.of(lm.REACHED) or view.of(lm.DRAM_ACTIVE) or view.of(lm.ACCEPT_LENGTH):
        return None
    for quantity in (lm.DECODE_RATE, lm.GENERATION_RATE, lm.ITL):
        points = _points(view, quantity)
        costs = [value if quantity is lm.ITL else 1 / value for _, value in points if value > 0]
        if not _course(points) or len(costs) < len(points) or costs[-1] < CHANGED * costs[0]:
            continue
        if any(b < a / SAME for a, b in itertools.pairwise(costs)):
            continue
        why = (
            f"From {count(points[0][0])} to {count(points[-1][0])} tokens of context a token takes "
            f"{costs[-1] / costs[0]:.1f} times as long: each step reads the KV of all of them."
        )
        evidence = (view.evidence("time of a token, longest context over shortest", costs[-1] / costs[0], "x",
                                  threshold=CHANGED, of=(quantity,)),)  # fmt: skip
        do = "fewer bytes of KV: quantized KV, fewer KV heads, shorter contexts; or faster memory"
        return likely(Bound.BANDWIDTH, "kv", why, Grade.INFERRED, evidence, do=do, metric=Metric.ITL)
    return None


def before_the_first_step(view: LogView, objective: Objective) -> Opinion | None:
    """TTFT grows many times over while a token takes as long as before: requests wait before their first step."""
    told = [s for s in view.of(lm.TTFT) if not s.labels.get("length") and not HIT.search(words(s))]
    told = [s for s in told if not COLD.search(words(s))]
    pace = view.of(lm.ITL)
    if len(told) < 2 or len({s.labels.get("as") for s in pace}) < 2 or view.of(lm.TRANSFER_TIME):
        return None
    low, high = min(s.value for s in told), max(s.value for s in told)
    steps = [s.value for s in pace]
    if low <= 0 or high < max(JUMP * low, objective.ttft_p95) or max(steps) > FLAT * min(steps):
        return None
    why = f"TTFT grows from {duration(low)} to {duration(high)}, and a token takes as long as before: requests wait."
    evidence = (
        view.evidence("TTFT, worst over best", high / low, "x", threshold=JUMP, of=(lm.TTFT,)),
        view.evidence("ITL, worst over best", max(steps) / min(steps), "x", threshold=FLAT, of=(lm.ITL,)),
    )
    return likely(Bound.QUEUEING, None, why, Grade.INFERRED, evidence, do=_ROOM, metric=Metric.TTFT)


_ROOM = (
    "see whether the pool or the limit on running sequences holds them; then raise that one, or add replicas"
)


def outrun(view: LogView, objective: Objective) -> Opinion | None:
    """More arrives than is served (a fixed number of clients never sends more), or more ask than the batch may hold."""
    if view.usage is not None and view.usage.peak >= FULL:
        return None
    offered, served, ttft = view.last(lm.OFFERED), view.last(lm.SERVED), view.values(lm.TTFT)
    slow = bool(ttft) and max(ttft) >= objective.ttft_p95
    clients, allowed = view.last(lm.CONCURRENCY), view.last(lm.MAX_RUNNING) or (USUAL if slow else None)
    loads = [float(s.labels.get("load", 0)) for s in view.of(lm.TTFT) if _CLIENTS.search(words(s)) and slow]
    asked = max([clients or 0.0, *loads])
    if clients is None and offered and served and offered >= OUTRUN * served and slow:
        why = f"{offered:g} requests a second arrive, {served:g} are served: the queue grows as long as that lasts."
        evidence = (view.evidence("offered over served", offered / served, "x", threshold=OUTRUN,
                                  of=(lm.OFFERED, lm.SERVED)),)  # fmt: skip
        do = "add replicas, or shed load at the door"
        return likely(Bound.QUEUEING, "arrivals", why, Grade.INFERRED, evidence, do=do, metric=Metric.TTFT)
    if asked and allowed and asked >= TWICE * allowed:
        why = f"{count(asked)} requests at once, and {count(allowed)} may run: the others wait."
        evidence = (view.evidence("requests at once over those that may run", asked / allowed, "x",
                                  threshold=TWICE, of=(lm.CONCURRENCY, lm.MAX_RUNNING)),)  # fmt: skip
        return likely(
            Bound.QUEUEING, "admission_limit", why, Grade.INFERRED, evidence, do=_ROOM, metric=Metric.TTFT
        )
    return None


def repeat_is_no_quicker(view: LogView, objective: Objective) -> Opinion | None:
    """A prompt that is known to repeat brings its first token no sooner the second time, and no hit is told."""
    rates = [*view.values(m.HITS_RATE_GAUGE), *view.values(lm.EXTERNAL_HIT_RATE)]
    if not view.of(lm.REPEATED) or view.last(lm.CACHING) == 0.0 or max(rates, default=0.0) >= LOW:
        return None
    pairs = [
        (a, b) for turns in turns(view.of(lm.TTFT)).values() if (a := turns.get(1)) and (b := turns.get(2))
    ]
    if not pairs or any(b < a / SAME or b > WORSE * a for a, b in pairs):
        return None
    if min(a for a, _ in pairs) < OF_TTFT * objective.ttft_p95:
        return None
    first, again = pairs[0]
    why = f"A repeated prompt takes {duration(again)} to its first token, {duration(first)} when new: nothing hits."
    evidence = (view.evidence("TTFT of the repeat over that of the first", again / first, "x", threshold=1 / SAME,
                              of=(lm.TTFT,)),)  # fmt: skip
    do = "compare the unit that can hit (block, chunk) with the shared length, then the token ids of both prompts"
    return likely(Bound.HIT_RATE, None, why, Grade.INFERRED, evidence, do=do, metric=Metric.TTFT)


def hits_under_load(view: LogView) -> Opinion | None:
    """The hit rate falls as more clients ask: what one finds again, many push out or never share."""
    told = view.of(m.HITS_RATE_GAUGE)
    rates = sorted((float(s.labels["load"]), s.value) for s in told if s.labels.get("load"))
    if len({load for load, _ in rates}) < 2 or rates[0][1] - rates[-1][1] < HIT_DROP:
        return None
    (few, before), (many, now) = rates[0], rates[-1]
    why = f"From a load of {few:g} to one of {many:g} the hit rate falls from {percent(before)} to {percent(now)}."
    evidence = (view.evidence("hit rate at the highest load", now, "ratio", threshold=before - HIT_DROP,
                              of=(m.HITS_RATE_GAUGE,)),)  # fmt: skip
    do = "see whether blocks are evicted between turns (the pool against all live prompts): then more room or a tier"
    return likely(Bound.HIT_RATE, "fell", why, Grade.INFERRED, evidence, do=do, metric=Metric.TTFT)


def check(view: LogView, objective: Objective) -> tuple[Opinion, ...]:
    """Ask every course."""
    asked = (
        repeat_is_no_quicker(view, objective),
        hits_under_load(view),
        outrun(view, objective),
        before_the_first_step(view, objective),
        long_prompts(view, objective),
        one_long_prompt(view, objective),
        long_contexts(view),
    )
    return tuple(opinion for opinion in asked if opinion is not None)
