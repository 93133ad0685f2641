"""Whether a request of the `request` probe hit: what the server's `usage` says, and what the engine's counters do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kvdoctor import metrics as m
from kvdoctor.commands.probe_counted import rise_of

LEAST_HIT = 16.0
"""Cached tokens from which a prompt hit: vLLM's smallest usual block. A cache by the token finds fewer in any prompt:
its BOS token and some first digits.
"""
ALONE = 1.5
"""First tokens that the engine may have given during our request, before others are taken to run beside it."""
USAGE, COUNTER = "usage", "the engine's counter"


@dataclass(frozen=True, slots=True)
class Cached:
    """The cached tokens of one request."""

    tokens: float | None
    """None where nobody tells, or where the two that tell contradict each other."""
    by: str = ""
    usage: int | None = None
    counter: float | None = None
    """What may be told by the counters: None where they hold the hits of others too."""
    others: bool = False
    """Other requests ran meanwhile."""
    elsewhere: bool = False
    """The counters saw no request at all: they are of another engine than the one that answered."""
    prompt: float | None = None

    @property
    def hit(self) -> bool | None:
        """Say whether it hit; None where that is not known."""
        if self.tokens is None:
            return None
        return self.tokens >= min(LEAST_HIT, (self.prompt or 2 * LEAST_HIT) / 2)

    @property
    def disputed(self) -> bool:
        """Say whether `usage` tells of no hit, and a counter that is ours alone of one."""
        return self.usage == 0 and bool(self.counter)


def cached(row: Mapping[str, Any]) -> Iterator[Cached]:
    """Yield what is known of each request of a row."""
    each = row.get("counted_each") or [row["counted"]] * len(row["cached_tokens"])
    for usage, counted in zip(row["cached_tokens"], each, strict=True):
        yield _one(usage, counted, row["prompt_tokens"])


def _one(usage: int | None, counted: Mapping[str, float], prompt: float | None) -> Cached:
    first, queries = rise_of(counted, m.TTFT), rise_of(counted, m.PREFIX_QUERIES)
    elsewhere = first == 0
    others = (first or 0.0) > ALONE or (prompt is not None and (queries or 0.0) > prompt)
    counter = None if elsewhere else _counter(counted, prompt, others)
    about: dict[str, Any] = {"usage": usage, "counter": counter, "others": others, "elsewhere": elsewhere}
    about["prompt"] = prompt
    if usage == 0 and counter:
        return Cached(None, **about)
    if usage is not None:
        return Cached(float(usage), USAGE, **about)
    return Cached(counter, COUNTER if counter is not None else "", **about)


def _counter(counted: Mapping[str, float], prompt: float | None, others: bool) -> float | None:
    """Return the tokens by which the hits rose, from the engine's own memory and from tiers below it.

    None of anybody's are none of ours; some are ours only where no other request ran.
    """
    told = [rise_of(counted, quantity) for quantity in (m.PREFIX_HITS, m.EXTERNAL_HITS)]
    if told[0] is None:
        return None
    rise = sum(each for each in told if each is not None)
    if rise and (others or (prompt is not None and rise > prompt)):
        return None
    return rise
