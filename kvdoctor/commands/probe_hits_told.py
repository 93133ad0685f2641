"""What the repeats of the `request` probe came to, and what keeps it from saying what a hit saves, with the cure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from kvdoctor import metrics as m
from kvdoctor.commands.probe_counted import rise_of, setting_of
from kvdoctor.commands.probe_hits import Cached
from kvdoctor.units import count

Outcome = Literal["all", "some", "none", "unknown", "miss hit"]
"""How many of the repeats hit; `miss hit` where what was sent as a miss found its prompt too."""
Seen = Mapping[str, Sequence[Cached]]
"""What is known of the requests of each row, by its `op`."""
SAVING = "what a hit saves"
EVICTED = "--url of one replica, and a quiet moment: kvdoctor diagnose --url tells of evictions"
CACHING = "start it with prefix caching: vLLM --enable-prefix-caching, SGLang without --disable-radix-cache"
SAY_IT = "vLLM: --enable-prompt-tokens-details, SGLang: --enable-cache-report; or --url of the engine itself"


def outcome(seen: Seen) -> Outcome:
    """Say what the repeats came to."""
    hits = [each.hit for each in seen["hit"]]
    if any(each.hit for each in seen["miss"]):
        return "miss hit"
    if all(hits):
        return "all"
    if any(hits):
        return "some"
    return "none" if all(hit is False for hit in hits) else "unknown"


def gaps(
    how: Outcome, seen: Seen, settings: Mapping[str, Mapping[str, str]], row: Mapping[str, Any]
) -> list[dict[str, str]]:
    """Return what is not told and why; `row` is that of the repeats, `settings` what the engine tells of itself."""
    return [
        {"source": what, "reason": why, "cure": cure} for what, why, cure in _gaps(how, seen, settings, row)
    ]


def _gaps(
    how: Outcome, seen: Seen, settings: Mapping[str, Mapping[str, str]], row: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    hits = seen["hit"]
    if how == "miss hit":
        found = max(each.tokens or 0.0 for each in seen["miss"])
        yield (
            SAVING,
            f"what was sent as a miss, behind a fresh first word, found {count(round(found))} tokens cached: "
            "there is no miss to hold the hits against",
            "--prompt-file of a text that the engine has not seen",
        )
    elif how == "none":
        yield SAVING, *_why_none(hits, settings, row)
    elif how == "unknown":
        yield SAVING, _why_unknown(hits), SAY_IT
    elif how == "some":
        missed, open_ = sum(each.hit is False for each in hits), sum(each.hit is None for each in hits)
        told = [f"{missed} found nothing (evicted meanwhile, or answered by another replica)"] * bool(missed)
        told += [f"of {open_} nobody tells"] * bool(open_)
        yield f"the other {missed + open_} of {len(hits)} repeats", " and ".join(told), EVICTED
    if how in ("all", "some"):
        yield from _contradiction(hits)


def _why_none(
    hits: Sequence[Cached], settings: Mapping[str, Mapping[str, str]], row: Mapping[str, Any]
) -> tuple[str, str]:
    """Return why nothing hit, as far as it is known, and the cure."""
    each, tokens = row.get("counted_each") or [row["counted"]], row["prompt_tokens"]
    if setting_of(settings, each[0], "enable_prefix_caching").lower() == "false":
        return "nothing hit: prefix caching is off at this engine", CACHING
    block = setting_of(settings, each[0], "block_size")
    if block.isdecimal() and tokens and tokens <= int(block):
        size = count(int(block))
        why = f"nothing hit: {count(tokens)} tokens are no more than a block of {size}, and a hit leaves one over"
        return why, f"--prompt-file of more than {size} tokens"
    if all(rise_of(one, m.PREFIX_QUERIES) == 0 for one in each) and not any(one.elsewhere for one in hits):
        return (
            "nothing hit: the engine looks nothing up in a prefix cache, so it has none or it is off",
            CACHING,
        )
    others = any(one.others for one in hits)
    evicted = "other requests ran meanwhile and may have evicted it" if others else "it was evicted"
    why = f"nothing hit, and nothing tells why: {evicted}, each repeat went to another replica, or caching is off"
    return why, EVICTED


def _why_unknown(hits: Sequence[Cached]) -> str:
    """Return why nobody tells whether the repeats hit."""
    if any(each.disputed for each in hits):
        return "the server's usage says that nothing hit, and the engine's counters that something did"
    if any(each.others for each in hits):
        return (
            "the server's usage does not say what hit, and the engine's counters hold the hits of others too"
        )
    if any(each.elsewhere for each in hits):
        return "the server's usage does not say what hit, and the counters are of an engine that answered none of it"
    return "neither the server's usage nor a counter says what hit"


def _contradiction(hits: Sequence[Cached]) -> Iterator[tuple[str, str, str]]:
    """Yield what the counters say otherwise than `usage`, which is believed: it is told of this very request."""
    told = [each for each in hits if each.hit and each.usage]
    if told and all(each.elsewhere for each in told):
        why = "the counters are of an engine that answered none of these requests; only usage tells of hits"
        yield "the engine's counters", why, "--url of the engine that answers, without a router before it"
    elif told and all(each.counter == 0 for each in told):
        why = "usage tells of hits, and the counters of none: they may not count the tier that it comes from"
        yield "the engine's counters", why, "--url of the engine that answers; counters of its KV connector"
