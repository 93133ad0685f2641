"""What a report's variants say: fewer bytes, more processes, more threads, a draft model, one setting changed."""

from __future__ import annotations

import itertools
import re

from kvdoctor import logmetrics as lm
from kvdoctor.causes.logged.experiment import CHANGED, SAME, WORSE, words
from kvdoctor.causes.logged.features import feature_of
from kvdoctor.causes.logged.machine import SEVERAL
from kvdoctor.causes.logged.opinion import Grade, Opinion, likely
from kvdoctor.logview import LogView, Said
from kvdoctor.model import Bound, Metric
from kvdoctor.quantity import Quantity
from kvdoctor.units import duration

_FORMATS = (
    (32, re.compile(r"\b(fp32|f32|float32|32 ?bit)\b")),
    (16, re.compile(r"\b(fp16|bf16|f16|float16|bfloat16|16 ?bit)\b")),
    (8, re.compile(r"\b(fp8|int8|w8a8|w8a16|q8( 0)?|8 ?bit)\b")),
    (4, re.compile(r"\b(int4|w4a16|awq|gptq|q4( [k0-9]( [ms])?)?|nvfp4|mxfp4|4 ?bit)\b")),
)
"""Bits of a weight, by what names say."""
_PROCESSES = re.compile(
    r"\b(one|two|four|eight|\d{1,3}) ?x? (api servers?|front ?ends?|(de)?tokenizers?|"
    r"(tokenizer|api|http|preprocess\w*) (workers?|process\w*|threads?)|cpu cores?|cpus?|vcpus?|cores?)\b"
)
_THREADS = re.compile(r"\b(\d{1,3}) threads?\b|\bthreads? ?=? ?(\d{1,3})\b")
_COUNTS = {"one": 1.0, "two": 2.0, "four": 4.0, "eight": 8.0}
_DRAFT = re.compile(r"\b(mtp|spec(ulat\w*)?|draft|eagle\w*|n ?gram)\b")
_PLAIN = re.compile(r"\b(no|off|without|plain|baseline|disabled|none)\b")
_RATES: tuple[Quantity, ...] = (lm.DECODE_RATE, lm.GENERATION_RATE, lm.ITL)
THREADS, SPREAD = 3, 1.5
"""Numbers of threads from which a course is one, and the most over the fewest."""


def _slower(quantity: Quantity, a: Said, b: Said) -> float:
    """How much slower the first is."""
    if min(a.value, b.value) <= 0:
        return 0.0
    return a.value / b.value if quantity is lm.ITL else b.value / a.value


def _format(said: Said) -> tuple[int, str] | None:
    """Return the bits that a name tells, and the name without them; None without any or with several."""
    told = [(bits, pattern) for bits, pattern in _FORMATS if pattern.search(words(said))]
    if len(told) != 1 or re.search(r"\bkv\b", words(said)):
        return None
    bits, pattern = told[0]
    return bits, " ".join(pattern.sub(" ", words(said)).split())


def fewer_bytes(view: LogView) -> Opinion | None:
    """One stream is quicker with the same weights in fewer bits: reading them sets the pace."""
    clients = view.mean(lm.CONCURRENCY) or (view.running.peak if view.running else 1.0)
    if clients >= SEVERAL:
        return None
    for quantity in (lm.DECODE_RATE, lm.ITL):
        rows = [(form, s) for s in view.of(quantity) if (form := _format(s)) and not s.labels.get("load")]
        for ((wide, name), a), ((narrow, other), b) in itertools.permutations(rows, 2):
            ratio = _slower(quantity, a, b)
            if wide > narrow and name == other and ratio >= CHANGED:
                why = f"With {narrow} in place of {wide} bits a weight a token takes {ratio:.1f} times less: "
                why += "reading weights sets the pace."
                evidence = (view.evidence("more bits over fewer, time of a token", ratio, "x", threshold=CHANGED,
                                          of=(quantity,)),)  # fmt: skip
                do = "fewer bytes: weights in 8 or 4 bits; faster memory; or more requests at once"
                return likely(
                    Bound.BANDWIDTH, "weights", why, Grade.INFERRED, evidence, do=do, metric=Metric.ITL
                )
    return None


def more_processes(view: LogView) -> Opinion | None:
    """More processes or cores on the host make it quicker: they were short."""
    for quantity in (lm.SERVED, lm.TTFT, *_RATES):
        rows = [(found[1], s) for s in view.of(quantity) if (found := _PROCESSES.search(words(s)))]
        known = sorted(((_COUNTS.get(n) or float(n), s) for n, s in rows if n in _COUNTS or n.isdigit()),
                       key=lambda row: row[0])  # fmt: skip
        for (few, a), (many, b) in itertools.combinations(known, 2):
            gain = (
                a.value / b.value
                if quantity in (lm.TTFT, lm.ITL) and b.value
                else b.value / max(a.value, 1e-9)
            )
            alike = _PROCESSES.sub("", words(a)).strip() == _PROCESSES.sub("", words(b)).strip()
            if few < many and alike and gain >= CHANGED:
                why = f"With {many:g} in place of {few:g} processes or cores of the host it is {gain:.1f} times better."
                evidence = (
                    view.evidence("more of them over fewer", gain, "x", threshold=CHANGED, of=(quantity,)),
                )
                do = "keep as many as help, then take stacks (py-spy) for what they do"
                return likely(Bound.HOST, None, why, Grade.INFERRED, evidence, do=do)
    return None


def more_threads(view: LogView) -> Opinion | None:
    """Decode on CPUs is no quicker with more threads: the memory that they share sets the pace."""
    found: dict[float, float] = {}
    for said in view.of(lm.ITL):
        told = _THREADS.search(words(said))
        if told:
            threads = float(told[1] or told[2])
            found[threads] = min(said.value, found.get(threads, said.value))
    if len(found) < THREADS or max(found) < SPREAD * min(found) or not min(found.values()):
        return None
    spread = max(found.values()) / min(found.values())
    if spread > SAME * SAME:
        return None
    why = f"From {min(found):g} to {max(found):g} threads a token takes as long: the memory they share sets the pace."
    evidence = (view.evidence("time of a token, longest over shortest", spread, "x", threshold=SAME * SAME,
                              of=(lm.ITL,)),)  # fmt: skip
    do = "fewer bytes of weights, memory with more channels, or the GPU"
    return likely(Bound.BANDWIDTH, "weights", why, Grade.INFERRED, evidence, do=do, metric=Metric.ITL)


def draft_costs(view: LogView) -> Opinion | None:
    """Speculation makes decode slower: what is drafted and thrown away costs more than it brings."""
    for quantity in (lm.DECODE_RATE, lm.GENERATION_RATE, lm.ITL):
        rows = [s for s in view.of(quantity) if s.labels.get("row")]
        on = [s for s in rows if _DRAFT.search(words(s)) and not _PLAIN.search(words(s))]
        off = [s for s in rows if _PLAIN.search(words(s))]
        for a, b in itertools.product(on, off):
            rest = (words(a).split(), words(b).split())
            differ = [
                w for w in {*rest[0]} ^ {*rest[1]} if not _DRAFT.fullmatch(w) and not _PLAIN.fullmatch(w)
            ]
            ratio = _slower(quantity, a, b)
            if ratio >= WORSE and not set(differ) - {"on", "with", "k", "1", "decoding", "decode"}:
                why = (
                    f"With speculation decode is {ratio:.2f} times slower: drafts cost more than they bring."
                )
                evidence = (view.evidence("with speculation over without", ratio, "x", threshold=WORSE,
                                          of=(quantity, lm.ACCEPT_LENGTH)),)  # fmt: skip
                do = "fewer draft tokens, a draft that is accepted more often, or none"
                return likely(
                    Bound.COMPUTE, "speculation", why, Grade.INFERRED, evidence, do=do, metric=Metric.ITL
                )
    return None


def setting_changed(view: LogView) -> Opinion | None:
    """One setting was changed, and a figure got much better: what the setting governs was short."""
    for said in view.of(lm.CHANGED_BY):
        found = feature_of(words(said))
        if said.value >= CHANGED and found is not None:
            bound, subclass = found
            why = f"A figure got {said.value:.3g} times better with a change of: {words(said)}."
            evidence = (
                view.evidence("before over after", said.value, "x", threshold=CHANGED, of=(lm.CHANGED_BY,)),
            )
            do = "keep the change, and look for what else the same resource holds up"
            return likely(bound, subclass, why, Grade.INFERRED, evidence, do=do)
    return None


_BY_PREFIX = re.compile(r"\b(cache|prefix|kv) ?aware|\b(sticky|session affinity|affinity)\b")
_BLIND = re.compile(r"\b(round robin|random|least (loaded|requests?|busy)|load aware)\b")


def routing(view: LogView) -> Opinion | None:
    """Requests are quicker where they are spread, or where they go to the replica that holds their prefix."""
    for quantity in (lm.TTFT, lm.REQUEST_TIME):
        by_prefix = [
            s for s in view.of(quantity) if _BY_PREFIX.search(words(s)) and not _BLIND.search(words(s))
        ]
        blind = [s for s in view.of(quantity) if _BLIND.search(words(s)) and not _BY_PREFIX.search(words(s))]
        for a, b in itertools.product(by_prefix, blind):
            low, high = sorted((a.value, b.value))
            if low <= 0 or high < CHANGED * low:
                continue
            evidence = (view.evidence("one way of routing over the other", high / low, "x", threshold=CHANGED,
                                      of=(quantity,)),)  # fmt: skip
            told = (
                f"{duration(b.value)} where requests are spread, {duration(a.value)} where they go by prefix."
            )
            if a.value < b.value:
                do = "route by prefix"
                return likely(
                    Bound.HIT_RATE, "routing", told, Grade.INFERRED, evidence, do=do, metric=Metric.TTFT
                )
            do = "route by load as well as by prefix"
            return likely(
                Bound.QUEUEING, "arrivals", told, Grade.INFERRED, evidence, do=do, metric=Metric.TTFT
            )
    return None


def check(view: LogView) -> tuple[Opinion, ...]:
    """Ask every kind of variant."""
    asked = (
        routing(view),
        setting_changed(view),
        more_processes(view),
        fewer_bytes(view),
        more_threads(view),
        draft_costs(view),
    )
    return tuple(opinion for opinion in asked if opinion is not None)
