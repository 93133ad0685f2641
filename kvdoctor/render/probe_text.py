"""Results of probes as text: one line an operation, what it was measured on above, what to mind below."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from kvdoctor.render.probe_decode import body as decode_body
from kvdoctor.units import count, counted, duration, gb, gib, percent, rate_bytes

BUSY = 0.9
"""Share of the time on a processor below which other work held the memory probe up."""
WIDTH = 79
_WHOLE: Any = {"break_long_words": False, "break_on_hyphens": False}
"""Paths and addresses stay in one piece."""


def render(results: Sequence[Mapping[str, Any]]) -> str:
    """Return every result as a paragraph."""
    return "\n".join("\n".join(_paragraph(result)) + "\n" for result in results)


ENDINGS = {"not available": "not available", "refused": "refused", "ended": "ended while it ran"}
"""How a probe came to no result, for people; a result of an older version is refused."""


def ending(result: Mapping[str, Any]) -> tuple[str, str] | None:
    """Say why a probe has no rows, and the cure; None where it has some."""
    for key in ("refused", "failed"):
        if key in result:
            about = result[key]
            how = ENDINGS.get(str(about.get("how", key)), key)
            return f"{how}: {about['reason']}", str(about["cure"])
    return None


def heading(result: Mapping[str, Any]) -> str:
    """Name a probe and what it measured on what; refusals have a name only."""
    name = str(result["probe"])
    return f"{name}: {result['measures']} ({result['device']})" if "rows" in result else name


def _paragraph(result: Mapping[str, Any]) -> list[str]:
    name = str(result["probe"])
    if (end := ending(result)) is not None:
        said, cure = end
        lines = textwrap.wrap(f"{name} {said}", WIDTH, subsequent_indent="  ", **_WHOLE)
        return [*lines, *([f"  -> {cure}"] if cure else [])]
    lines = textwrap.wrap(heading(result), WIDTH, subsequent_indent="  ", **_WHOLE)
    lines += BODIES.get(name, _rows)(result)
    for note in notes(result):
        lines += textwrap.wrap(note, WIDTH, initial_indent="  ", subsequent_indent="    ", **_WHOLE)
    for gap in result.get("gaps", ()):
        what = f"not measured, {gap['source']}: {gap['reason']}"
        lines += textwrap.wrap(what, WIDTH, initial_indent="  ", subsequent_indent="    ")
        lines.append(f"    -> {gap['cure']}")
    return lines


def _rows(result: Mapping[str, Any]) -> list[str]:
    """One line a row: what, rate, spread of the repeats, latency of single blocks; a second where it went elsewhere."""
    lines, usual = [], result.get("conditions", {}).get("path")
    for row in result["rows"]:
        lines.append(_row(row))
        path = row["conditions"].get("path", usual)
        lines += [f"    ({path})"] if path != usual else []
    return lines


def _row(row: Mapping[str, Any]) -> str:
    whole = row["conditions"].get("of_bytes", 0)
    words = [row["op"], gib(row["block_bytes"]) + (f" of {gib(whole)}" if whole > row["block_bytes"] else "")]
    if row.get("queue_depth"):
        words.append(f"depth {row['queue_depth']}")
    if row.get("direction"):
        words.append(row["direction"])
    about = row["conditions"]
    for key, noun in (("threads", "thread"), ("streams", "stream")):
        if key in about:
            words.append(counted(about[key], noun))
    text = f"  {', '.join(words):<40} {rate_bytes(row['bytes_per_s']):>10}"
    found = row.get("latency_seconds")
    if found:
        text += f"  p50 {duration(found['p50'])}, p99 {duration(found['p99'])}"
    elif len(row["repeats"]) > 1:
        text += f"  {rate_bytes(min(row['repeats']))} to {rate_bytes(max(row['repeats']))}"
    return text


def notes(result: Mapping[str, Any]) -> list[str]:
    """What a reader must know to use the figures."""
    about = result.get("conditions", {})
    notes = []
    if result["probe"] == "hbm":
        notes.append("rates count payload; a copy moves each byte twice: read and written")
        notes += _caches(about)
        shares = [row["conditions"].get("on_processor", 1.0) for row in result["rows"]]
        if min(shares, default=1.0) < BUSY:
            notes.append(
                f"lower bounds: other work held the processors (ours {percent(min(shares))} of the time)"
            )
    if about.get("shared_with_others"):
        notes.append("beside the service: what it leaves over, not what the hardware can do")
    if result["probe"] == "network" and about.get("says"):
        notes.append(about["says"])
    if about.get("loopback"):
        notes.append("loopback never leaves this machine's memory: a network takes a --peer")
    if result["probe"] == "nvme":
        notes.append(f"{gib(about['file_bytes'])} of random data on {about['file_system']}, {about['path']}")
    return notes


def _caches(about: Mapping[str, Any]) -> list[str]:
    """Say how the buffers compare with the caches."""
    if about.get("possible_cache_reading"):
        return [
            f"the caches of this machine are not known: they may have answered a part of {gib(about['buffer_bytes'])}, "
            "so this is no ceiling; --size of 4 x its last-level cache is safe"
        ]
    cache = about.get("last_level_cache_bytes")
    return (
        [f"buffers of {about['buffer_bytes'] / cache:.0f} x the last-level caches, {gib(cache)}"]
        if cache
        else []
    )


def _request(result: Mapping[str, Any]) -> list[str]:
    """TTFT at the client, then what the hit saved of it and what the rest is made of."""
    lines = []
    for row in result["rows"]:
        cached = [each for each in row["cached_tokens"] if each is not None]
        said = (
            f"{count(min(cached))} of {count(row['prompt_tokens'] or 0)} tokens cached"
            if cached
            else "cached: not said"
        )
        lines.append(f"  {row['op']:<6} TTFT {duration(row['ttft_seconds']):>9}   {said}{_spread(row)}")
    for sentence in answer(result["answer"]) if "answer" in result else ():
        lines += textwrap.wrap(sentence, WIDTH, initial_indent="  ", subsequent_indent="    ")
    return lines


def _spread(row: Mapping[str, Any]) -> str:
    """Name the range of several repeats."""
    if len(row["repeats"]) < 2:
        return ""
    return f"   ({duration(min(row['repeats']))} to {duration(max(row['repeats']))})"


PARTS = {
    "queue": "waiting in the engine's queue",
    "prefill": "prefill of the tokens that were not cached",
    "front end": "the engine's front end: tokenizing, the way to the scheduler and back",
    "engine": "the rest within the engine",
    "client": "between the engine and this client",
    "unexplained": "not told apart: the engine counts no TTFT of its own",
}
"""Parts of a hit's TTFT, for people."""


def answer(found: Mapping[str, Any]) -> list[str]:
    """Say in sentences what the hit saved, where there was one, and what the rest of TTFT is made of."""
    hit = found["saved_seconds"] is not None
    told = ", ".join(f"{duration(part['seconds'])} {PARTS[part['part']]}" for part in found["parts"])
    left = duration(sum(part["seconds"] for part in found["parts"]))
    rest = [f"What is left, {left} in the mean: {told}." if hit else f"A repeat, {left} in the mean: {told}."]
    if found["others_ran"]:
        rest.append("Other requests ran meanwhile: the engine's parts are means over theirs too.")
    return [_saved(found) if hit else _unsaved(found), *rest]


def _saved(found: Mapping[str, Any]) -> str:
    """Say what the repeats that hit saved."""
    tokens, cached, some = found["prompt_tokens"], found["cached_tokens"], ""
    if found.get("outcome") == "some":
        some = f"{found['requests_that_hit']} of {found['requests']} repeats hit. "
    if found["saved_seconds"] <= 0:
        miss = duration(found["miss_seconds"])
        return f"{some}The hit saved nothing of TTFT: {miss} as a miss, no less as a hit."
    share = f"{duration(found['saved_seconds'])} of {duration(found['miss_seconds'])}"
    of = f" of {count(tokens)}" if tokens else ""
    why = "" if cached is None else f": {count(round(cached))}{of} tokens were not computed again"
    return f"{some}The hit saved {share} ({percent(found['saved_share'])}) of TTFT{why}."


UNSAVED = {
    "none": "There was no hit: {all} computed each time.",
    "unknown": "Whether the repeats hit is not known.",
    "miss hit": "There was no miss: the first request hit too.",
}
"""What is said of repeats whose saving is not."""


def _unsaved(found: Mapping[str, Any]) -> str:
    """Say what came of them instead, and that the difference of both TTFTs is no saving."""
    tokens = found["prompt_tokens"]
    first = UNSAVED[found["outcome"]].format(
        all=f"all of {count(tokens)} tokens were" if tokens else "the prompt was"
    )
    miss, hit = duration(found["miss_seconds"]), duration(found["hit_seconds"])
    return f"{first} TTFT was {miss} at first and {hit} repeated; no saving follows from that."


def _tiers(result: Mapping[str, Any]) -> list[str]:
    """One line a tier and length."""
    about = result["conditions"]
    what = (
        f"{about['model']}, {gb(about['kv_bytes_per_token'])} of KV a token and rank; "
        f"recompute {about['recompute']}"
    )
    lines = [
        *textwrap.wrap(what, WIDTH, initial_indent="  ", subsequent_indent="    "),
        f"  {'tier':<30} {'tokens':>8} {'fetch':>10} {'compute':>10}  fetch wins",
    ]
    for row in result["rows"]:
        compute = duration(row["recompute_seconds"]) if row["recompute_seconds"] is not None else "?"
        line = f"  {row['tier']:<30.30} {count(row['tokens']):>8} {duration(row['fetch_seconds']):>10} {compute:>10}"
        lines.append(f"{line}  {wins(row)}".rstrip())
    return lines


def wins(row: Mapping[str, Any]) -> str:
    """Say from how many tokens on a fetch is faster; empty where computing was not known."""
    if row["recompute_seconds"] is None:
        return ""
    even = row["break_even_tokens"]
    if even is None:
        return "never"
    return "always" if even <= 1 else f"from {count(round(even))}"


BODIES = {"decode": decode_body, "request": _request, "tiers": _tiers}
