"""Why twice the ranks gain what they gain: the step part by part, and a sentence on what keeps it from halving."""

from __future__ import annotations

from kvdoctor.render import roofline_words as words
from kvdoctor.roofline.whatif import WhatIf
from kvdoctor.roofline.widening import PartChange, PartName, Widening
from kvdoctor.units import counted, duration, gb, rate_bytes

_NAMES: dict[PartName, str] = {"draft": "draft steps", **dict(words.PARTS.items())}
# A gain from which nothing is lost that is worth explaining; ranks only double.
_DOUBLED = 1.9


def widening_title(row: WhatIf) -> str:
    """The gain, what is compared, and for how many sequences where room changes that."""
    found = row.widening
    if found is None:
        return ""
    now, then = found.batches
    fit = "" if now == then else f"; {now:g} sequences fit now, {then:g} then"
    share = "" if row.gain is None else f" (x {row.gain / 2:.2f} a card)"
    return f"{row.change} by its parts: a step of one card to expect at best, {words.gain(row)}{share}{fit}"


def widening_head(found: Widening) -> tuple[str, ...]:
    """The columns of `part_rows`."""
    now, then = found.ranks
    return ("", f"TP {now} reads", "takes", f"TP {then} reads", "takes")


def part_rows(found: Widening) -> list[tuple[str, ...]]:
    """A row a part: bytes and seconds before and after; then the step."""
    rows = [
        (
            _NAMES[part.name],
            _size(part.before_bytes),
            words.seconds(part.before_seconds or None),
            _size(part.after_bytes),
            words.seconds(part.after_seconds or None),
        )
        for part in found.parts
    ]
    before, after = (sum(sizes) for sizes in (_sizes(found, "before"), _sizes(found, "after")))
    return [
        *rows,
        ("step", gb(before), duration(found.before_seconds), gb(after), duration(found.after_seconds)),
    ]


def _sizes(found: Widening, side: str) -> list[float]:
    """Bytes of all parts of one side."""
    every = [part.before_bytes if side == "before" else part.after_bytes for part in found.parts]
    return [size for size in every if size is not None]


def _size(size: float | None) -> str:
    """Bytes, or nothing where a part reads none."""
    return "" if size is None else gb(size)


def why_not_more(found: Widening) -> str:
    """What keeps the step from halving, the largest loss first; or that it halves."""
    reasons = [reason for part in found.losses if (reason := _reason(part, found))]
    unknown = "" if found.link else " Messages between the cards are not counted: no link is known (--link)."
    if not reasons:
        return f"Next to all of the step halves.{unknown}"
    return f"{_start(found)}: {'; '.join(reasons)}.{unknown}"


def _start(found: Widening) -> str:
    """What the reasons are of: a step that does not halve, or one of more sequences."""
    faster = found.before_seconds / found.after_seconds
    now, then = found.batches
    if now != then:
        longer = f"{1 / faster:.2f} times as long"
        return f"A step of {then:g} sequences in place of {now:g} takes {longer}"
    return f"A step is {faster:.2f} times as fast, not 2" if faster < _DOUBLED else "Of the rest"


def _reason(part: PartChange, found: Widening) -> str:
    """Why one part takes more than half of what it did."""
    takes = duration(part.after_seconds)
    if part.name == "latency":
        each = f"{duration(found.layer_seconds)} a layer"
        return f"launches and the start of all-reduces take {takes} at any width ({each}, as published runs show)"
    if part.name == "collectives":
        counts = f"{counted(found.all_reduces, 'all-reduce')} of {gb(found.message_bytes)}"
        messages = counts if found.all_reduces else "messages between ranks"
        return f"{messages} at {rate_bytes(found.link or 0.0)} take {takes}"
    name, lost = _NAMES[part.name], duration(part.lost_seconds)
    over = f"{gb(part.undivided_bytes)} and {lost}" if part.undivided_bytes else lost
    why = _KV_REASONS[found.kv_reason] if part.name == "kv" else ""
    return (
        f"{name} does not halve{why}, {over} over half"
        if part.name != "weights"
        else (f"not all weights are divided: {over} over half")
    )


_KV_REASONS = {
    "latent": " (MLA: each rank reads the whole latent)",
    "heads": " (fewer KV heads than ranks: copies)",
    "": "",
}
