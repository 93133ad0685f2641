"""Several figures under one name, `TTFT without / with offload`: the whole name of each."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from kvdoctor import logmetrics as lm
from kvdoctor.readers.rows import named, normal

_SIDE = re.compile(
    r"^(on|off|with|without|before|after|enabled|disabled|old|new)$|^[A-Za-z]{0,4}=?[\d.]+[kKmM]?$",
    re.IGNORECASE,
)
_MOVES = frozenset((lm.LOAD_TIME, lm.LOAD_RATE, lm.STORE_TIME, lm.STORE_RATE))
"""What `offload` or `store` would stand for alone; behind a comma they are the side of another figure."""
_OPPOSITE = re.compile(r"\b(with|without)\b", re.IGNORECASE)


def whole_names(names: Sequence[str], kinds: Collection[str]) -> list[str]:
    """Return each part's whole name: what a part lacks is taken from the first or the last.

    `kinds` are those of the figures, by which a name is known to stand for something.
    """
    names = [name.strip() for name in names]
    first, last = names[0], names[-1]
    if named(normal(first), kinds):
        return [f"{first} {_tail(first, last)}".strip(), *(_sided(part, first, kinds) for part in names[1:])]
    whole = [*(_headed(part, last, kinds) for part in names[:-1]), last]
    return [whole[0], *(_stemmed(part, first, kinds) for part in whole[1:])]


def _headed(part: str, last: str, kinds: Collection[str]) -> str:
    """`prompt / generation throughput`: the last part has what the others are of."""
    head = last.split(" ", 1)
    return part if named(normal(part), kinds) or len(head) < 2 else f"{part} {head[1]}"


def _stemmed(part: str, first: str, kinds: Collection[str]) -> str:
    """`offload, first / second run`: what stands before the comma belongs to every part."""
    stem = first.rpartition(",")[0]
    full = f"{stem}, {part}"
    return full if stem and named(normal(full), kinds) == named(normal(part), kinds) else part


def _sided(part: str, first: str, kinds: Collection[str]) -> str:
    """`TTFT cold / warm`, `TTFT, turn 1 / turn 2`: the first part has what the others are of, up to its own side."""
    stem, comma, _ = first.rpartition(",")
    alone = named(normal(part), kinds)
    side = bool(_SIDE.match(part.split(" ", 1)[0]))
    if alone and not side and not (comma and alone <= _MOVES):
        return part
    if _OPPOSITE.fullmatch(part) and _OPPOSITE.search(first):
        full = _OPPOSITE.sub(part, first)
    elif comma and not (side and _SIDE.match(first.split()[-1])):
        full = f"{stem}, {part}"
    else:
        head, setting = first.rpartition(" ")[0], part.rpartition(" ")[0]
        full = f"{head.removesuffix(setting).strip()} {part}".strip()
    return full if named(normal(full), kinds) == named(normal(first), kinds) else part


def _tail(first: str, last: str) -> str:
    """`without / with offload`: what follows the last side belongs to the first too, where both are such words."""
    side, _, rest = last.partition(" ")
    return rest if _SIDE.match(first.split()[-1]) and _SIDE.match(side) else ""
