"""What a report says in words: who is held by what, where weights lie, what is reserved; all of it is inferred."""

from __future__ import annotations

import re

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.causes.logged.experiment import CHANGED, words
from kvdoctor.causes.logged.hits import NO_HITS
from kvdoctor.causes.logged.machine import SEVERAL
from kvdoctor.causes.logged.opinion import Grade, Opinion, likely
from kvdoctor.logview import LogView
from kvdoctor.model import Bound, Metric
from kvdoctor.service import Objective
from kvdoctor.units import count

SLOW_STREAM = 20.0
"""Tokens a second of one stream at the usual ITL objective of 50 ms; weights on the GPU seldom give less."""
_HOST_MEMORY = re.compile(r"\b(stream|triad|host|system|cpu|ddr\d?|lpddr\w*|channels?)\b")
_ROOM = "give the KV pool more room (GPU memory for it, fp8 KV, more cards), or let fewer or shorter sequences run"
_SETTING = re.compile(
    r"\b(num|n|max) (ctx|context|model len|seq len)( length| len| size)? ?=? ?(\d{3,8})(k?)\b"
)
_SHORT = re.compile(
    r"\b(prompts?|prefix|prefixes|inputs?|context|sequences?)\b.{0,20}\b(shorter|smaller|less|below|under|fewer)\b"
    r"( than)? (the )?(\d{2,7}|block|page|chunk)|\b(less|fewer) than (a|one|\d{2,7}) (full )?(tokens?|block|page|chunk)"
)


def prefill_blocks(view: LogView) -> Opinion | None:
    """Tokens are seen to stop while a long prompt is computed (rule 12)."""
    if not view.of(lm.PREFILL_BLOCKS) or view.of(lm.STALL_BESIDE):
        return None
    evidence = (view.evidence("tokens stop while a prompt is computed", 1.0, of=(lm.PREFILL_BLOCKS,)),)
    why = "Other requests get no token while a prompt is computed."
    do = "chunked prefill with a smaller budget of tokens a step, or prefill on cards of its own"
    return likely(Bound.COMPUTE, "interference", why, Grade.INFERRED, evidence, do=do)


def serial_loads(view: LogView, objective: Objective) -> Opinion | None:
    """Loads follow one another, and first tokens wait for them: a tier that serves one at a time."""
    if not view.of(lm.SERIAL_LOADS) or view.of(lm.TRANSFER_TIME):
        return None
    if not view.of(lm.TTFT) and not view.of(lm.LOAD_TIME) and not view.of(lm.LOAD_RATE):
        return None
    evidence = (view.evidence("loads follow one another", 1.0, of=(lm.SERIAL_LOADS,)),)
    why = (
        "Loads of KV are served one after the other: the first tokens of requests that hit wait in that line."
    )
    do = "load several requests at once, in larger pieces and beside the compute"
    return likely(Bound.OFFLOAD, "no_overlap", why, Grade.INFERRED, evidence, do=do, metric=Metric.TTFT)


def weights_outside(view: LogView) -> Opinion | None:
    """Weights lie outside the GPU's memory and one stream is slow: each step reads them from there."""
    rates = [*view.values(lm.DECODE_RATE), *view.values(lm.GENERATION_RATE)]
    several = (view.running is not None and view.running.peak >= SEVERAL) or (
        view.mean(lm.CONCURRENCY) or 0
    ) >= SEVERAL
    if not view.of(lm.WEIGHTS_OUTSIDE) or not rates or min(rates) > SLOW_STREAM or several:
        return None
    if view.of(lm.TTFT) and not view.of(lm.DECODE_RATE) and not view.of(lm.GENERATION_RATE):
        return None
    evidence = (view.evidence("tokens a second", min(rates), "tokens/s", threshold=SLOW_STREAM,
                              of=(lm.DECODE_RATE, lm.GENERATION_RATE, lm.WEIGHTS_OUTSIDE)),)  # fmt: skip
    told = f"Weights lie outside the GPU's memory, and a stream gets {min(rates):.3g} tokens a second: "
    if any(_HOST_MEMORY.search(words(s)) for s in view.of(lm.REACHABLE)):
        why = told + "the memory that holds them sets the pace."
        do = "fewer bytes (weights in 4 bits), more of them on the GPU, or faster memory"
        return likely(Bound.BANDWIDTH, "weights", why, Grade.INFERRED, evidence, do=do, metric=Metric.ITL)
    why = told + "each step reads them from there."
    do = "fewer bytes so that all weights fit the GPU (4 bits, a smaller model), or more cards"
    return likely(Bound.OFFLOAD, "slow_tier", why, Grade.INFERRED, evidence, do=do, metric=Metric.ITL)


def reserved(view: LogView) -> Opinion | None:
    """Room is reserved for the longest answer that may come, and others wait for it."""
    if not view.of(lm.RESERVES) or not view.of(lm.OTHERS_HELD):
        return None
    evidence = (
        view.evidence("room is reserved for the longest answer", 1.0, of=(lm.RESERVES, lm.OTHERS_HELD)),
    )
    why = "Room in the pool is reserved for the longest answer that may come, and other requests wait for it."
    do = "admit by what is used (TensorRT-LLM: MAX_UTILIZATION), a lower limit on output tokens, or more room"
    return likely(Bound.CAPACITY, "admission", why, Grade.INFERRED, evidence, do=do, metric=Metric.TTFT)


def longer_setting(view: LogView) -> Opinion | None:
    """The same prompt is slower the longer the context that was set: what is reserved leaves no room for weights."""
    for quantity in (lm.DECODE_RATE, lm.GENERATION_RATE):
        rows = [(found, s) for s in view.of(quantity) if (found := _SETTING.search(words(s)))]
        points = sorted((float(f[4]) * (1000 if f[5] else 1), s.value) for f, s in rows if s.value > 0)
        if len({length for length, _ in points}) < 2 or points[0][1] < CHANGED * points[-1][1]:
            continue
        (short, fast), (long, slow) = points[0], points[-1]
        why = f"With a context of {count(long)} set in place of {count(short)} it gives {slow:.3g} tokens a second in "
        why += f"place of {fast:.3g}: what is reserved for KV pushes other data out of the GPU's memory."
        evidence = (view.evidence("rate with the shortest setting over that with the longest", fast / slow, "x",
                                  threshold=CHANGED, of=(quantity,)),)  # fmt: skip
        do = (
            "set the context no longer than it is used, KV in 8 or 4 bits, or a smaller format of the weights"
        )
        return likely(Bound.CAPACITY, "admission", why, Grade.INFERRED, evidence, do=do, metric=Metric.ITL)
    return None


def fewer_blocks(view: LogView) -> Opinion | None:
    """The pool has fewer blocks than the engine has requests: not all can hold even one."""
    blocks, taken = view.last(lm.POOL_BLOCKS), max(view.values(lm.IN_FLIGHT), default=0.0)
    known = max(
        taken, (view.running.peak if view.running else 0) + (view.waiting.peak if view.waiting else 0)
    )
    if not blocks or known <= blocks:
        return None
    why = f"The engine has {count(known)} requests, and its pool {count(blocks)} blocks: not all can hold even one."
    evidence = (view.evidence("requests over blocks of the pool", known / blocks, "x", threshold=1.0,
                              of=(lm.POOL_BLOCKS, lm.IN_FLIGHT, m.RUNNING, m.WAITING)),)  # fmt: skip
    return likely(Bound.CAPACITY, "admission", why, Grade.MEASURED, evidence, do=_ROOM, metric=Metric.TTFT)


def too_short_to_hit(view: LogView) -> Opinion | None:
    """Nothing hits for prompts that are shorter than a piece that can."""
    found = [
        s for s in (*view.of(m.HITS_RATE_GAUGE), *view.of(lm.BATCH_CACHED))
        if s.value < NO_HITS and _SHORT.search(words(s))
    ]  # fmt: skip
    if not found or view.last(lm.CACHING) == 0.0:
        return None
    why = f"Nothing hits for short prompts ({found[0].labels.get('as', '')}): they are shorter than a piece that can."
    evidence = (view.evidence("hit rate of short prompts", found[0].value, "ratio", threshold=NO_HITS,
                              of=(m.HITS_RATE_GAUGE,)),)  # fmt: skip
    do = "longer shared prefixes, or a model, a release or a setting with a smaller unit to match"
    return likely(Bound.HIT_RATE, "short_prefix", why, Grade.INFERRED, evidence, do=do, metric=Metric.TTFT)


def computed_again(view: LogView) -> Opinion | None:
    """Tokens that were computed before are known to be computed again."""
    if not view.of(lm.COMPUTED_AGAIN):
        return None
    evidence = (view.evidence("tokens are computed a second time", 1.0, of=(lm.COMPUTED_AGAIN,)),)
    why = "Tokens that were computed before are known to be computed again: what was made is not kept or not found."
    do = "see which of a request's tokens enter the cache when it ends (prompt, output), and under which key"
    return likely(
        Bound.HIT_RATE, "promised_not_delivered", why, Grade.INFERRED, evidence, do=do, metric=Metric.TTFT
    )


def check(view: LogView, objective: Objective) -> tuple[Opinion, ...]:
    """Ask what is said in words."""
    asked = (
        prefill_blocks(view),
        serial_loads(view, objective),
        weights_outside(view),
        reserved(view),
        longer_setting(view),
        fewer_blocks(view),
        too_short_to_hit(view),
        computed_again(view),
    )
    return tuple(opinion for opinion in asked if opinion is not None)
