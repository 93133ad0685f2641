"""What a report says of links: pieces, several of them, one transport against another."""

from __future__ import annotations

import re

from kvdoctor import logmetrics as lm
from kvdoctor.causes.logged.experiment import CHANGED, SAME, words
from kvdoctor.causes.logged.movement import NOTICED
from kvdoctor.causes.logged.opinion import Grade, Opinion, likely
from kvdoctor.logview import LogView
from kvdoctor.model import Bound
from kvdoctor.units import count, duration, percent, rate_bytes

MANY = 1000.0
"""Pieces of one transfer from which their number, not their bytes, sets its time: some 10 us each on a NIC."""
POOR, PARTLY = 0.25, 0.6
"""Share of its rated speed under which a link is used badly with many pieces, and where another use gives more."""
FAR = 10.0
"""A transfer over another of the same bytes, from which the path differs and not its load."""
_LINKS = re.compile(r"\b(?:mlx\d|nic|hca|rail|ib|eth|ens)[ _]?(\d{1,2})\b")
_WORDS = {"one": 1, "single": 1, "two": 2, "both": 2, "four": 4, "eight": 8}
_COUNTED = re.compile(
    r"\b(one|single|two|both|four|eight|\d{1,2}) ?x? (?:nics?|hcas?|rails?|links?|ports?)\b"
)
_QUANTILE = re.compile(r"\b(p\d\d|max\w*|min\w*|worst|tail|best)\b")
_PIECES = "fewer and larger pieces: whole pages or layers in one descriptor, KV of a request side by side"


def many_pieces(view: LogView) -> Opinion | None:
    """A link gives a small part of its speed, and a transfer is made of very many pieces."""
    pieces, rate, rated = view.values(lm.PIECES), view.values(lm.TRANSFER_RATE), view.values(lm.LINK_RATED)
    if not pieces or max(pieces) < MANY:
        return None
    share = max(rate) / max(rated) if rate and rated else min(view.values(lm.LINK_SHARE), default=1.0)
    if share >= POOR:
        return None
    why = f"A link gives {percent(share)} of its speed to transfers of {count(max(pieces))} pieces."
    evidence = (view.evidence("rate over the rated one", share, "ratio", threshold=POOR,
                              of=(lm.TRANSFER_RATE, lm.LINK_RATED, lm.PIECES)),)  # fmt: skip
    return likely(Bound.NETWORK, "used_badly", why, Grade.INFERRED, evidence, do=_PIECES)


def _links(text: str) -> int:
    told = _COUNTED.search(text)
    if told:
        return _WORDS.get(told[1]) or int(told[1])
    return len(set(_LINKS.findall(text)))


def more_links(view: LogView) -> Opinion | None:
    """Over several links together less is moved than over one: some of them lie far from the data."""
    rows = sorted(((_links(words(s)), s.value) for s in view.of(lm.TRANSFER_RATE)), key=lambda row: row[0])
    rows = [row for row in rows if row[0]]
    if len(rows) < 2 or rows[0][0] == rows[-1][0]:
        return None
    (few, one), (many, several) = rows[0], rows[-1]
    if several * SAME > one:
        return None
    why = f"{many} links move {rate_bytes(several)}, {few} of them {rate_bytes(one)}: some lie far from the data."
    evidence = (view.evidence("rate over few links over that over many", one / max(several, 1.0), "x", threshold=SAME,
                              of=(lm.TRANSFER_RATE,)),)  # fmt: skip
    do = "keep to the links that share a PCIe switch with the GPU (nvidia-smi topo -m), per card"
    return likely(Bound.NETWORK, "used_badly", why, Grade.INFERRED, evidence, do=do)


def one_way_or_another(view: LogView) -> Opinion | None:
    """The same link gives much more when it is used another way."""
    share, rates = view.values(lm.LINK_SHARE), view.values(lm.TRANSFER_RATE)
    if not share or min(share) >= PARTLY or len(rates) < 2 or max(rates) < CHANGED * min(rates):
        return None
    why = f"A link gives {percent(min(share))} of its speed one way and {max(rates) / max(min(rates), 1.0):.1f} times "
    why += "as much another way: how it is used sets its pace."
    evidence = (view.evidence("share of its rated speed", min(share), "ratio", threshold=PARTLY,
                              of=(lm.LINK_SHARE, lm.TRANSFER_RATE)),)  # fmt: skip
    do = "compare sizes of pieces and of registered regions, transport and path of both ways"
    return likely(Bound.NETWORK, "used_badly", why, Grade.INFERRED, evidence, do=do)


def another_path(view: LogView) -> Opinion | None:
    """A transfer takes many times as long one way, where a direct path is known to be missing."""
    told = [s for s in view.of(lm.TRANSFER_TIME) if not _QUANTILE.search(words(s))]
    if not view.of(lm.FAST_PATH_OFF) or len(told) < 2:
        return None
    low, high = min(s.value for s in told), max(s.value for s in told)
    if high < NOTICED or high < FAR * low:
        return None
    why = f"A transfer takes {duration(high)} where {duration(low)} can be had, and a direct path is missing."
    evidence = (view.evidence("a transfer takes, longest", high, "seconds", threshold=NOTICED,
                              of=(lm.TRANSFER_TIME, lm.FAST_PATH_OFF)),)  # fmt: skip
    do = "bring the instances onto a direct path (CUDA IPC, NVLink, RDMA): how memory was allocated decides it too"
    return likely(Bound.NETWORK, "used_badly", why, Grade.INFERRED, evidence, do=do)


def check(view: LogView) -> tuple[Opinion, ...]:
    """Ask of every use of a link."""
    asked = (many_pieces(view), more_links(view), one_way_or_another(view), another_path(view))
    return tuple(opinion for opinion in asked if opinion is not None)
