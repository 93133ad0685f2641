"""KV in fewer bits that is slower: its kernel, not its bytes, sets the pace."""

from __future__ import annotations

import itertools
import re

from kvdoctor import logmetrics as lm
from kvdoctor.causes.logged.experiment import WORSE, words
from kvdoctor.causes.logged.opinion import Grade, Opinion, likely
from kvdoctor.logview import LogView, Said
from kvdoctor.model import Bound, Metric

_KV = re.compile(r"\bkv\b|\bcache (d ?type|type)|\bct[kv]\b")
_WIDE = re.compile(r"\b(fp16|bf16|f16|float16|bfloat16|auto|default|unquanti[sz]ed|full precision|16 ?bit)\b")
_NARROW = re.compile(
    r"\b(fp8( e4m3| e5m2)?|int8|int4|q8( 0)?|q4( [01])?|q5( [01])?|nvfp4|mxfp4|k8v4|k4v4|turbo ?quant\w{0,12}|kivi|"
    r"[48] ?bit|quanti[sz]ed)\b"
)


def _bare(said: Said) -> str:
    return " ".join(_NARROW.sub(" ", _WIDE.sub(" ", words(said).replace("_", " "))).split())


def check(view: LogView) -> tuple[Opinion, ...]:
    """Compare decode with KV in fewer bits and with KV in more."""
    for quantity in (lm.DECODE_RATE, lm.GENERATION_RATE, lm.ITL):
        rows = [s for s in view.of(quantity) if s.value > 0 and _KV.search(words(s).replace("_", " "))]
        narrow = [s for s in rows if _NARROW.search(words(s).replace("_", " "))]
        wide = [s for s in rows if s not in narrow and _WIDE.search(words(s))]
        for a, b in itertools.product(narrow, wide):
            slower = a.value / b.value if quantity is lm.ITL else b.value / a.value
            if _bare(a) == _bare(b) and slower >= WORSE:
                why = f"With KV in fewer bits decode is {slower:.2g} times slower: its kernel sets the pace."
                evidence = (view.evidence("fewer bits of KV over more, time of a token", slower, "x", threshold=WORSE,
                                          of=(quantity,)),)  # fmt: skip
                do = "another attention kernel or backend for that format, or KV in 16 bits where the pool allows it"
                return (likely(Bound.COMPUTE, None, why, Grade.INFERRED, evidence, do=do, metric=Metric.ITL),)
    return ()
