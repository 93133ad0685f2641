"""How people name what they measured: from the name of a figure in a report to a quantity."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.quantity import Quantity
from kvdoctor.readers.vocabulary import BY_KIND, LATE, NAMES, SETUP, TIME, UNIT_ALONE

_REPEATS = re.compile(
    r"\b(identical|repeated|exact same|same|known|shared|common) ([\w.]+ ){0,2}"
    r"(prompts?|requests?|prefix|prefixes|messages?|system|documents?|context|questions?|conversation|calls?|turns?)\b"
    r"|\b(sent|run|asked|issued|submitted) (again|twice|(three|\d+) times)\b|\b(re ?sent|replay\w*)\b"
)
_ALONE = re.compile(
    r"^(none|no|not|false|0|never|different|distinct|unique|all (distinct|different|unique))\b"
)
_MEASURED = ("benchmark", "metric", "log")
"""Kinds of rows whose 0 is a figure and no answer."""
_ANEW = re.compile(r"full prompt re ?process|re ?process\w* (of )?the (full|whole|entire) prompt")
_DIFFER = re.compile(r"\b(differ\w*|mismatch\w*|not (equal|the same|identical)|unequal)\b")
_FRONT = re.compile(
    r"system (prompt|message)|\btool (definitions?|lists?|schemas?)|chat template"
    r"|(front|beginning|start|head) of (the|each|every) prompt|prompt (prefix|head|start)"
)
_CHANGES = re.compile(
    r"\b(time ?stamp|date ?time|clock|(current|time of) (time|day|date)|"
    r"uuid|nonce|salt|session id|request id|random|counter)\b.*"
    r"\b(every|each|per) (request|turn|call|second|minute|prompt|message)"
    r"|\b(changes|differs|is new|is different|re ?ordered|shuffled|regenerated|rewritten)\b.*"
    r"\b(every|each|per|between|on every) (request|turn|call|second|minute)"
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
MAX_WORDS = 400
"""Characters of a row's name and value in which such words are looked for."""
_ON_PURPOSE = re.compile(r"\b(bust\w*|avoid\w*|prevent\w*|defeat\w*|on purpose|never hit|no reuse)\b")
_KEY = re.compile(r"hash|\bkeys?\b|token ids?|template")
_TRANSPORT = re.compile(
    r"\b(custom all ?reduce|protocol|ucx\w*|nixl|transport|rdma|nccl|lanes?|mooncake|infiniband|roce|ibv?)\b"
)
_TCP = re.compile(
    r"\brma\w*\(tcp|\bno rdma\b|fall\w* ?back to tcp|\btcp only|net/socket|no ib\b"
    r"|^tcp\b(?!.*\b(rc|dc|ud|ib|rdma)\b)"
)
_FROZEN = re.compile(
    r"\b(frozen|stays? (at )?(0|zero)|never (increments?|increases?|grows?|instantiated)|always (0|zero))\b"
)
_NO_ROOM = re.compile(
    r"\b(kv|cache)\b.{0,60}\b(out of (free )?(pages|blocks|memory|space)|exhausted|oversubscribed)\b"
    r"|\b(no|not enough) (free |available )?(kv )?(cache )?(blocks|pages|space)\b"
)
_COUNTED = re.compile(r"\d|\b(never|without|no|none|false|not)\b(?! (free|available|enough|room|space))")
"""What makes words of a want a count of it, or the denial of it."""
_FREE = re.compile(
    r"(?<!no )\b(free|available) (\w+ )?(kv |gpu )?(cache )?(blocks?|pages?)\b|\b(blocks?|pages?) (free|available)\b"
)
_OFF = re.compile(r"(disabled|not (supported|available|found)|no nvlinks?)")
_YES = re.compile(r"^(true|set|yes|on|1|enabled)?$")
_NO = re.compile(
    r"^((false|off|no|0|disabled)$"
    r"|(disabled|unsupported|not (supported|available|enabled|active))( (for|on|by|in|with)\b|$))"
)
_ABSENT = re.compile(
    r"^(none|no|not|never|nothing|nil|zero|absent|without|ruled out|false|off|disabled|n/?a|unknown|\?+)\b"
    r"(?! (enough|free|available|room|space))|^[-?]*$"
)
"""Values that deny what a name says, or leave it open."""


def normal(text: str) -> str:
    """Return a name in lower case with blanks between its words."""
    return re.sub(r"[\s_:,#-]+", " ", _THOUSANDS.sub("", text.lower())).strip()


@lru_cache(maxsize=512)
def quantity_of(name: str, kind: str, row: str = "", *, alone: bool = True) -> Quantity | None:
    """Return the quantity that a name, the kind of its figure and the kind of its row stand for.

    Unless `alone` is False a unit that leaves no choice is enough.
    """
    if row in SETUP and kind in TIME:
        return None
    for known in (*BY_KIND.get(row, ()), *NAMES, *LATE, *(UNIT_ALONE if alone else ())):
        unless = known.unless
        if kind in known.kinds and known.pattern.search(name) and not (unless and unless.search(name)):
            return known.quantity
    return None


def named(name: str, kinds: Collection[str]) -> frozenset[Quantity]:
    """Return every quantity that a name may stand for with figures of these kinds."""
    return frozenset(q for kind in kinds if (q := quantity_of(name, kind, alone=False)) is not None)


def facts(kind: str, name: str, value: str) -> Iterable[tuple[Quantity, float]]:
    """Return what a row says in words rather than in figures."""
    words = normal(value)
    absent = bool(value) and bool(_ABSENT.match(words))
    if _KEY.search(name) and _DIFFER.search(words):
        yield lm.KEYS_DIFFER, 1.0
    if _TRANSPORT.search(name):
        if _TCP.search(value.lower()):
            yield lm.TCP, 1.0
        elif _OFF.search(words):
            yield lm.FAST_PATH_OFF, 1.0
    if _REPEATS.search(f"{name} {words}"[:MAX_WORDS]) and not (_ALONE.match(words) and kind not in _MEASURED):
        yield lm.REPEATED, 1.0
    told = "" if absent else f"{name} {words}"[:MAX_WORDS]
    if _FRONT.search(told) and _CHANGES.search(told) and not _ON_PURPOSE.search(told):
        yield lm.VOLATILE, 1.0
    if _ANEW.search(told):
        yield lm.REPROCESSED, 1.0
    if _FREE.search(name) and re.fullmatch(r"0(\.0+)?", words):
        yield m.KV_CACHE_USAGE, 1.0
    if kind in ("log", "metric", "report") and _NO_ROOM.search(told) and not _COUNTED.search(words):
        yield lm.NO_SPACE, 1.0
    if re.search(r"\b(hits|cached tokens)\b", name) and _FROZEN.search(words):
        yield lm.HITS, 0.0
    if "cache prompt" in name and (_NO.match(words) or words.startswith("not s")):
        yield lm.CACHING, 0.0
    if "prefix caching" in name and "no enable" not in name:
        yield from (
            ((lm.CACHING, 1.0),) if _YES.match(words) else ((lm.CACHING, 0.0),) if _NO.match(words) else ()
        )
    elif re.search(r"no enable prefix caching|disable radix cache", name) and _YES.match(words):
        yield lm.CACHING, 0.0
    if kind == "log" and re.search(r"\bis preempted\b|\bretract requests\b", words):
        yield m.PREEMPTIONS, 1.0
    elif absent:
        return
    elif kind in ("log", "metric") and re.search(r"preempt|retract", name) and not re.search(r"\d", value):
        yield m.PREEMPTIONS, 1.0
        if "swap" in words:
            yield lm.SWAPS, 1.0
