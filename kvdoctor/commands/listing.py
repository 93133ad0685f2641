"""Targets and permissions as lines of at most 80 columns; text from outside is shown, never obeyed."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from kvdoctor.model import Gap
from kvdoctor.render.text import clean
from kvdoctor.target.describe import Target
from kvdoctor.target.fingerprint import LABELS
from kvdoctor.target.namespaces import Namespaces
from kvdoctor.target.permission import Held, Permission

WIDTH = 80
_LABEL = 12
_PERMISSION = 18
_COMMAND = 200
_ROLES = {
    "api_server": "API server",
    "engine_core": "engine core",
    "dynamo_worker": "Dynamo worker",
    "program": "the user's own program",
}
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def title_line(target: Target) -> str:
    """Say in one line what a target is: pid, engine and version, uptime, how sure."""
    info = target.info
    engine = LABELS.get(info.engine, info.engine)
    words = [f"pid {info.pid}", f"{engine} {info.version}" if info.version else engine]
    if info.role:
        words.append(f"{info.role} side")
    if info.uptime_seconds is not None:
        words.append(f"up {duration(info.uptime_seconds)}")
    if not target.is_sure:
        words.append("perhaps")
    if not target.is_serving:
        words.append("no sign of serving")
    return clean("  ".join(words))


def short_line(target: Target) -> str:
    """Say what tells targets apart, behind the option that names one: engine, model, address."""
    info = target.info
    words = (LABELS.get(info.engine, info.engine), info.model or "", info.url or "")
    return clean(f"--pid {info.pid}: {', '.join(word for word in words if word)}")


def target_lines(target: Target) -> Iterator[str]:
    """Yield the lines of one target, with its gaps and their cures."""
    facts = dict(target.facts)
    yield title_line(target)
    yield from _row("model", _model(target, facts))
    yield from _row("ranks", _ranks(target, facts))
    yield from _row("GPUs", _cards(target))
    yield from _row("options", _options(facts))
    yield from _row("metrics", _page(target))
    yield from _row("lives in", _place(target.place))
    yield from _row("sign", target.sign)
    yield from _row("command", textwrap.shorten(clean(target.command), _COMMAND, placeholder=" ..."))
    for gap in target.gaps:
        yield from gap_lines(gap)


def gap_lines(gap: Gap, indent: str = "  ") -> Iterator[str]:
    """Yield a gap, and its cure on a line of its own, never broken: it is there to be pasted."""
    yield from _wrapped(f"{indent}! {gap.source}: {clean(gap.reason)}", indent + "  ")
    if gap.cure:
        yield f"{indent}  -> {clean(gap.cure)}"


def permission_lines(rows: Sequence[Permission]) -> Iterator[str]:
    """Yield the table of permissions, each one that we lack with the line that grants it."""
    for row in rows:
        mark = {Held.YES: "yes", Held.NO: "no", Held.UNKNOWN: "?"}[row.held]
        head = f"  {row.name:<{_PERMISSION}}{mark:<5}"
        yield from _wrapped(head + clean(row.why), " " * len(head))
        if row.cure:
            yield f"    -> {clean(row.cure)}"


def duration(seconds: float) -> str:
    """Write an uptime: `42 s`, `7 min`, `3 h 12 min`, `5 d 2 h`."""
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} min"
    if seconds < _DAY:
        return f"{seconds // _HOUR:.0f} h {seconds % _HOUR // _MINUTE:.0f} min"
    return f"{seconds // _DAY:.0f} d {seconds % _DAY // _HOUR:.0f} h"


def _row(label: str, text: str) -> Iterator[str]:
    if text:
        yield from _wrapped(f"  {label:<{_LABEL - 2}}{text}", " " * _LABEL)


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _model(target: Target, facts: dict[str, str]) -> str:
    served = facts.get("served_model_name")
    name = facts.get("model", "")
    formats = [facts[key] for key in ("dtype", "quantization") if key in facts]
    formats += [f"KV {facts['kv_dtype']}"] if "kv_dtype" in facts else []
    words = clean(name) + (f" as {clean(served)}" if served and served != name else "")
    known = "its config.json was read" if "model_config" in facts else ""
    return "; ".join(filter(None, (words, ", ".join(map(clean, formats)), known))) if words else ""


def _ranks(target: Target, facts: dict[str, str]) -> str:
    sizes = [f"{key.upper()} {facts[key]}" for key in ("tp", "pp", "dp") if key in facts]
    counts = Counter(_ROLES.get(m.role, m.role) for m in target.family.members)
    members = ", ".join(f"{number} x {role}" if number > 1 else role for role, number in counts.items())
    total = len(target.family.members)
    return "; ".join((*sizes, f"{total} process{'es' if total > 1 else ''}: {members}"))


def _cards(target: Target) -> str:
    cards = target.family.cards
    if not cards:
        return "none that can be seen"
    return ", ".join(clean(f"{card.index} {card.name or card.uuid}".strip()) for card in cards)


def _page(target: Target) -> str:
    url = target.info.url
    if url is None:
        return "none that may be read"
    return url if target.page.readable else f"{url} (not read from here)"


def _options(facts: dict[str, str]) -> str:
    names = (
        "block_size",
        "max_num_seqs",
        "max_num_batched_tokens",
        "max_model_len",
        "gpu_memory_utilization",
        "prefix_caching",
        "kv_connector",
        "kv_role",
        "kv_offloading_size",
        "cpu_offload_gb",
        "speculative",
        "speculative_tokens",
    )
    return clean(", ".join(f"{name} {facts[name]}" for name in names if name in facts))


def _place(place: Namespaces) -> str:
    return place.words()
