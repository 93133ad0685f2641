"""One setting with two numbers: more of it is much better, so what it limits was short."""

from __future__ import annotations

import itertools
import re

from kvdoctor import logmetrics as lm
from kvdoctor.causes.logged.experiment import CHANGED, words
from kvdoctor.causes.logged.opinion import Grade, Opinion, likely
from kvdoctor.logview import LogView, Said
from kvdoctor.model import Bound
from kvdoctor.quantity import Quantity

_SETTINGS: tuple[tuple[Bound, str | None, str], ...] = (
    (Bound.QUEUEING, "admission_limit", r"max (?:num )?(?:seqs|sequences|running(?: requests)?|concurrent requests|"
     r"batch size|loras)|n(?:um)? parallel|(?:parallel|lora|server) slots?"),
    (Bound.HOST, None, r"(?:num )?(?:scheduler steps|multi steps?|steps? per schedule|stream interval|"
     r"api servers?(?: count)?|front ?ends?|cpu (?:cores?|threads?)|v?cpus?|cores?|"
     r"(?:de)?tokenizer (?:workers?(?: num)?|threads?|process(?:es)?|pool size)|"
     r"(?:http|api|(?:pre|post)process\w{0,3}|python|model) (?:workers?|threads?|process(?:es)?|instances?))"),
    (Bound.CAPACITY, "preemption", r"gpu memory util\w{0,10}|mem(?:ory)? fraction(?: static)?|"
     r"(?:num )?gpu blocks(?: override)?|kv (?:cache |pool )?(?:size|gb|memory)|free gpu mem(?:ory)? fraction"),
    (Bound.OFFLOAD, "small_pieces", r"(?:io|store|load|disk|offload|nvme|ssd|file|lmcache|retrieve) "
     r"(?:threads?|workers?|queue depth|streams?|chunk size|pages?)"),
    (Bound.NETWORK, "used_badly", r"(?:nixl|transfer|rdma|ucx|nccl|send|recv) (?:threads?|workers?|channels?|queues?|"
     r"streams?|rails?)|(?:max |min )?nchannels|qps? per connection"),
)  # fmt: skip
_NAMED = tuple(
    (bound, subclass, re.compile(rf"\b(?:{name})\b ?=? ?(\d{{1,7}}(?:\.\d{{1,3}})?)(?![\w.])"
                                 rf"|\b(\d{{1,7}}(?:\.\d{{1,3}})?) ?x? (?:{name})\b"))
    for bound, subclass, name in _SETTINGS
)  # fmt: skip
_TIMES: tuple[Quantity, ...] = (lm.TTFT, lm.WALL, lm.REQUEST_TIME, lm.ITL)
_RATES: tuple[Quantity, ...] = (lm.SERVED, lm.GENERATION_RATE, lm.DECODE_RATE, lm.PREFILL_RATE)
_DO = {
    Bound.QUEUEING: "raise the limit, as long as the steps stay short and the pool has room",
    Bound.HOST: "keep as many as help, then take stacks (py-spy) for what they do",
    Bound.CAPACITY: "give the KV pool more room",
    Bound.OFFLOAD: "keep as many as help: more at once and larger pieces hide the tier's latency",
    Bound.NETWORK: "keep as many as help: more in flight hides the link's latency",
}


def _sides(view: LogView, quantity: Quantity, pattern: re.Pattern[str]) -> list[tuple[float, str, Said]]:
    """(number, the name without it, figure) of the figures whose names tell the setting, fewest first."""
    found = []
    for said in view.of(quantity):
        told = pattern.search(words(said))
        if told and said.value > 0:
            rest = f"{words(said)[: told.start()]} {words(said)[told.end() :]}"
            found.append((float(told[1] or told[2]), " ".join(rest.split()), said))
    return sorted(found, key=lambda side: side[0])


def check(view: LogView) -> tuple[Opinion, ...]:
    """Compare the figures that differ in one number alone."""
    for (bound, subclass, pattern), quantity in itertools.product(_NAMED, (*_TIMES, *_RATES)):
        for (few, name, a), (many, other, b) in itertools.combinations(_sides(view, quantity, pattern), 2):
            gain = a.value / b.value if quantity in _TIMES else b.value / a.value
            if few < many and name == other and gain >= CHANGED:
                why = f"With {many:g} in place of {few:g} it is {gain:.1f} times better: {b.labels.get('as', '')}."
                evidence = (view.evidence("more of the setting over less", gain, "x", threshold=CHANGED,
                                          of=(quantity,)),)  # fmt: skip
                return (likely(bound, subclass, why, Grade.INFERRED, evidence, do=_DO[bound]),)
    return ()
