"""The forms in which one row states several figures: `A / B`, `A vs B`, `2 s of 3 s`, `on: 3 s, off: 9 s`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kvdoctor import logmetrics as lm
from kvdoctor import metrics as m
from kvdoctor.quantity import Quantity
from kvdoctor.readers.figures import figures, unit_kind
from kvdoctor.readers.rows import normal, quantity_of
from kvdoctor.readers.sides import whole_names

_AGAINST = re.compile(r" (?:vs\.?|versus|against) ")
_BARE = re.compile(r"[~<>≈]?\s?\d[\d.,]*[kKM]?")
_UNIT = re.compile(r"\d\s?([A-Za-zµμ%]+(?:/[A-Za-z]+)?)\s*$")
_NAMED_UNIT = re.compile(
    r"(?:\(|\bin |[_ ])(ms|sec|secs|seconds|us|µs|[KMGT]i?B/s|Gbps|tok/s|tokens/s|req/s|%)\)?$"
    r"|\((s|min)\)$|\bin (s)$|^(tok/s|tokens/s|req/s)(?= )"
    r"|_(seconds|ms)(?= (?:mean|avg|average|median|max|p\d\d)$)"
)
_BEHIND = re.compile(r"([~<>≈]?\s?\d[\d.,]*\s?[A-Za-zµμ%]+(?:/[A-Za-z]+)?)\s+\(?([A-Za-z][^()]{0,60}?)\)?")
_AHEAD = re.compile(r"([A-Za-z#][^:=]{0,60}?)\s?[:=]\s?([~<>≈]?\s?\d[^:=]{0,40})")
_LED = re.compile(r"([A-Za-z][^\d:=()]{0,60}?) ([~<>≈]?\d[\d.,]*[kKM]?\s?[A-Za-zµμ%]+(?:/[A-Za-z]+)?)")
_AT = re.compile(
    r"([A-Za-z][^\d:=()]{0,40} ?(?:at|with|for) [A-Za-z ]{0,20}=?\s?\d[\d.]{0,9}[kK]?) "
    r"([~<>≈]?\d[\d.,]{0,12}\s?[A-Za-zµμ%]{1,8}(?:/[A-Za-z]{1,8})?)"
)
"""`TTFT at rate=50 5.9 s`."""
_PLAINLY = re.compile(r"[~<>≈]?\s?\d[\d.,]{0,12}[kKM]?\s?[A-Za-z]{1,10}/[A-Za-z]{1,10}")
"""A rate that stands alone beside figures that the value names."""
_WORD = re.compile(r"[A-Za-z]{3}")
_COUNT = re.compile(r"\s?[~<>≈]?\d[\d.,]{0,12}[kKM]?\s?[A-Za-z%]{0,10}\s?")
_CUT = re.compile(r"; |, | / | -> | → | while | whereas | but | and ")
_DIGIT = re.compile(r"\d")
_WHOLE = re.compile(r" (?:out )?of (?:the |about |a |~)?(?=\d)")
MOST = 16
"""Sides that a row may tell at most; more are a list of something else."""
LINE = 4
"""Sides from which a value is a line of a log, in which other things may stand too."""
_SHARES = {
    lm.QUEUED: lm.QUEUE_SHARE,
    lm.PREFILL_TIME: lm.PREFILL_SHARE,
    lm.HOST_TIME: lm.HOST_SHARE,
    lm.NETWORK_TIME: lm.NETWORK_SHARE,
    lm.LOAD_TIME: lm.MOVE_SHARE,
    lm.STORE_TIME: lm.MOVE_SHARE,
    lm.GPU_TIME: lm.KERNEL_SHARE,
}
"""What a time is of its whole."""
_POOL = re.compile(
    r"\b(kv|cache|pool)\b.*\b(used|in use|occupied|allocated|blocks|pages)\b|\b(blocks|pages) (used|in use|allocated)\b"
)


def parts(name: str, value: str, note: str) -> list[tuple[str, str]]:
    """Split a row into figures with a whole name each; one pair where it is one figure."""
    name, value = (_AGAINST.sub(" / ", text) for text in (name, _united(name, value, note)))
    names, values = (re.split(r"\s+/\s+", text) for text in (name, value))
    if len(names) == 1 and len(values) == 1:
        names, values = _close(name, value)
    if len(values) > 1:
        values = [_united(name, one, note) for one in _same_unit(values)]
    if len(names) == len(values) and len(names) > 1:
        counted = _counted(names)
        if counted:
            return list(zip(counted, values, strict=True))
        kinds = {figure.kind for text in values for figure in figures(text)} or {""}
        return list(zip(whole_names(names, kinds), values, strict=True))
    sides = re.split(r"\s+/\s+", note)
    if len(names) == 1 and len(sides) == len(values) > 1:
        return [(f"{name}, {side}", one) for side, one in zip(sides, values, strict=True)]
    return _labelled(name, value) or [(name, value)]


def _close(name: str, value: str) -> tuple[list[str], list[str]]:
    """`Running/Pending: 1/3`: sides without blanks between them, as many in the name as in the value."""
    names, values = name.split("/"), value.split("/")
    several = 1 < len(names) == len(values) <= MOST
    if several and all(_WORD.search(one) for one in names) and all(_COUNT.fullmatch(one) for one in values):
        return names, values
    return [name], [value]


def _counted(names: Sequence[str]) -> list[str]:
    """`TTFT at 1k / 8k / 32k prompt`: what stands before and behind the numbers belongs to all; else nothing."""
    words = [name.split() for name in names]
    tail = words[-1][1:]
    fits = [i for i, word in enumerate(words[0]) if _DIGIT.search(word) and words[0][i + 1 :] in ([], tail)]
    if not tail or not fits or not fits[0]:
        return []
    place = fits[0]
    head = words[0][:place]
    if (
        not all(_DIGIT.search(each[0]) and each[1:] in ([], tail) for each in words[1:] if each)
        or [] in words
    ):
        return []
    return [
        " ".join((*head, number, *tail)) for number in (words[0][place], *(each[0] for each in words[1:]))
    ]


def _united(name: str, value: str, note: str) -> str:
    """Give a bare number the unit that its name or its note has: `TTFT (ms)`."""
    if not _BARE.fullmatch(value.strip()):
        return value
    told = _NAMED_UNIT.search(name)
    unit = (
        note.strip() if unit_kind(note) else next((one for one in told.groups() if one), "") if told else ""
    )
    return f"{value} {unit}" if unit else value


def _same_unit(values: Sequence[str]) -> list[str]:
    """`20 / 55 ms`: bare numbers before one with a unit have it too."""
    told = _UNIT.search(values[-1])
    return [f"{one} {told[1]}" if told and _BARE.fullmatch(one.strip()) else one for one in values]


def _labelled(name: str, value: str) -> list[tuple[str, str]]:
    """`4 s with, 1 s without`, `on: 4 s; off: 1 s`: sides that the value names."""
    pieces = _CUT.split(value)
    found = [_side(piece.strip()) for piece in pieces[: MOST + 1]]
    told = [side for side in found if side is not None]
    several = 1 < len(pieces) <= MOST and len(told) >= min(len(pieces), LINE)
    plain = any(not label for label, _ in told)
    if not several or len({label for label, _ in told}) < len(told) or (plain and not _rate_and_time(told)):
        return []
    return [(f"{name}, {label}" if label else name, one) for label, one in told]


def _rate_and_time(told: Sequence[tuple[str, str]]) -> bool:
    """Say whether a rate stands alone beside one time that is named: `158 tok/s, TTFT 9 s`."""
    return len(told) == 2 and any(label and figures(one)[0].kind == "seconds" for label, one in told)


def _side(piece: str) -> tuple[str, str] | None:
    ahead, behind = _LED.fullmatch(piece) or _AT.fullmatch(piece), _BEHIND.fullmatch(piece)
    ahead = _AHEAD.fullmatch(piece) or ahead if not _AT.fullmatch(piece) else ahead
    if _PLAINLY.fullmatch(piece):
        return "", piece
    if ahead and len(figures(ahead[2])) == 1:
        return ahead[1], ahead[2]
    if behind and len(figures(behind[1])) == 1 and figures(behind[1])[0].kind:
        return behind[2], behind[1]
    return None


def of_whole(name: str, value: str, kind: str) -> Iterable[tuple[Quantity, float]]:
    """Yield what `2 s of 3 s` or `2.7 TB/s of 3.4 TB/s` says; nothing for another form."""
    left, _, right = _WHOLE.sub("\0", value, count=1).partition("\0")
    part, whole = figures(left), figures(right)
    if not part or not whole or part[-1].kind not in ("", whole[0].kind) or whole[0].value <= 0:
        return
    scale = figures(f"{left} {right}")[len(part) - 1].value if not part[-1].kind else part[-1].value
    yield from _of(normal(name), kind, whole[0].kind, scale, whole[0].value)


def _of(name: str, kind: str, unit: str, part: float, whole: float) -> Iterable[tuple[Quantity, float]]:
    quantity = quantity_of(name, unit, kind)
    if unit == "seconds" and quantity in _SHARES:
        yield _SHARES[quantity], part / whole
    elif unit == "bytes/s" and quantity in (lm.REACHED, lm.REACHABLE):
        yield from ((lm.REACHED, part), (lm.REACHABLE, whole))
    elif unit == "bytes/s" and quantity in (lm.TRANSFER_RATE, lm.LINK_RATED):
        yield from ((lm.TRANSFER_RATE, part), (lm.LINK_RATED, whole))
    elif quantity is lm.BATCH_CACHED:
        yield from ((lm.BATCH_CACHED, part), (lm.PROMPT_TOKENS, whole))
    elif unit != "seconds" and _POOL.search(name) and part <= whole:
        yield m.KV_CACHE_USAGE, part / whole
