"""What each change would buy this service, sorted: fewer bytes where bandwidth is short, room where room is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvdoctor.roofline import weights
from kvdoctor.roofline.change import Change, Kind, changes_for, keeps_kv
from kvdoctor.roofline.fit import fit_of
from kvdoctor.roofline.question import Question
from kvdoctor.roofline.rates import Decode, decode_of
from kvdoctor.roofline.tiers import fetched_bytes, transfer_seconds
from kvdoctor.roofline.widening import Widening, widening_of
from kvdoctor.units import duration, percent

# A gain below this is within what rounding and kernels move.
_NOTICEABLE = 1.05
# Host to GPU where the card's generation is not known: PCIe 4.0 x16 as measured.
_HOST_RATE = 26e9


@dataclass(frozen=True, slots=True)
class Side:
    """A service before or after a change."""

    step_bytes: float
    """Bytes of one rank in a step of the whole batch."""
    step_seconds: float | None
    """Floor on the step of the whole batch."""
    ceiling: float | None
    """Tokens/s over the batch, if it fitted."""
    sequences: int | None
    """Sequences of the context that fit; None where no pool is known."""
    served: float | None
    """Tokens/s to expect at best of as many of the batch's sequences as fit."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One change, before and after."""

    change: str
    kind: Kind
    before: Side
    after: Side
    gain: float | None
    """`served` after over before; None where it can't be stated, infinite where nothing fitted before."""
    advised: bool
    """Whether it helps this service noticeably."""
    note: str
    widening: Widening | None = None
    """Of more ranks: the step part by part, so that a gain below theirs is explained."""


def side_of(question: Question) -> Side:
    """What a service does at a question."""
    fit, decode = fit_of(question), decode_of(question)
    return Side(
        decode.bytes.total,
        decode.seconds_floor,
        decode.ceiling,
        fit.sequences,
        _served(question, decode, fit.sequences),
    )


def _served(question: Question, decode: Decode, sequences: int | None) -> float | None:
    """Tokens/s of the sequences that can run at once: what does not fit waits."""
    if decode.expected is None:
        return None
    if sequences is None or sequences >= question.load.batch:
        return decode.expected[1]
    if sequences == 0:
        return 0.0
    fewer = decode_of(replace(question, load=replace(question.load, batch=float(sequences))))
    return fewer.expected[1] if fewer.expected else None


def what_ifs(question: Question) -> tuple[WhatIf, ...]:
    """Every change that applies: remedies by what they gain, then what only changes the load."""
    before = side_of(question)
    rows = [row for change in changes_for(question) if (row := _row(change, question, before))]
    if not question.card.is_host_memory:
        rows += [row for row in (_offload_kv(question, before), _offload_weights(question, before)) if row]
    return tuple(sorted(rows, key=_rank))


def _rank(row: WhatIf) -> tuple[bool, bool, float, float]:
    """Remedies first; of these the advised; of these the largest gain, or what is served where nothing was."""
    return row.kind == "load", not row.advised, -(row.gain or 0.0), -(row.after.served or 0.0)


def _row(change: Change, question: Question, before: Side) -> WhatIf | None:
    """One change, or None where it does not apply."""
    changed = change.apply(question)
    if changed is None:
        return None
    after = side_of(changed)
    gain = _gain(before.served, after.served)
    advised = change.kind != "load" and gain is not None and gain >= _NOTICEABLE
    wider = changed.layout.tp != question.layout.tp
    parts = widening_of(question, changed, fit=(before.sequences, after.sequences)) if wider else None
    return WhatIf(change.name, change.kind, before, after, gain, advised, change.note, parts)


def _gain(before: float | None, after: float | None) -> float | None:
    """The factor; None where a side is unknown or both serve nothing."""
    if before is None or after is None or (before == 0 and after == 0):
        return None
    return float("inf") if before == 0 else after / before


def is_short_of_room(question: Question, before: Side) -> bool:
    """Whether capacity limits this service: its batch does not fit the pool, though something does."""
    return before.sequences is not None and 0 < before.sequences < question.load.batch


def _offload_kv(question: Question, before: Side) -> WhatIf | None:
    """Move the KV of idle sequences to host memory: room for others, never a faster step."""
    if not keeps_kv(question):
        return None
    size = fetched_bytes(
        question.shape,
        tokens=question.load.context,
        layout=question.layout,
        storage=question.storage,
        per_rank=True,
    )
    back = duration(transfer_seconds(size, rate=host_rate(question), start=0.0))
    gain = _gain(before.served, _unlimited(question)) if is_short_of_room(question, before) else None
    advised = gain is not None and gain >= _NOTICEABLE
    return WhatIf(
        "offload idle KV", "service", before, before, gain, advised, _offload_note(before, gain, back)
    )


def _unlimited(question: Question) -> float | None:
    """Tokens/s to expect at best if the whole batch had room."""
    expected = decode_of(question).expected
    return expected[1] if expected else None


def _offload_note(before: Side, gain: float | None, back: str) -> str:
    """Why offloading idle sequences helps this service, or why not."""
    if before.sequences is None:
        return f"room only, never a faster step; no pool is known. A return costs {back}"
    if before.sequences == 0:
        return "not one sequence fits: nothing is idle"
    if gain is None:
        return f"the batch fits: it makes no step faster, and each return costs {back}"
    if gain < _NOTICEABLE:
        return f"more sequences would not be faster: bandwidth rules. A return costs {back}"
    return f"at most, if idle sequences make room for the batch; each return costs {back}"


def _offload_weights(question: Question, before: Side) -> WhatIf | None:
    """Leave in host memory the weights that do not fit: each step fetches them."""
    fit = fit_of(question)
    if fit.usable is None or fit.weights < fit.usable or before.step_seconds is None:
        return None
    live = min(fit.live, fit.usable / 2)
    over = fit.weights + live - fit.usable
    step = before.step_seconds + over / host_rate(question)
    rate = question.load.batch * question.accepted / step
    moved = percent(over / weights.resident(question.shape, layout=question.layout).total)
    note = f"{moved} of the weights cross PCIe in every step"
    return WhatIf(
        "offload weights",
        "service",
        before,
        Side(before.step_bytes, step, rate, before.sequences, rate),
        None,
        False,
        note,
    )


def host_rate(question: Question) -> float:
    """Bytes/s from host memory to one GPU."""
    gpu = question.card.gpu
    return (gpu.pcie_bytes_per_s if gpu else None) or _HOST_RATE
