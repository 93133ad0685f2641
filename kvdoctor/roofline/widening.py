"""What twice the ranks does to a step, part by part: what halves, what does not, and what comes on top."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from kvdoctor.roofline import collective
from kvdoctor.roofline.hardware import COMPUTE_FRACTION, LAYER_LATENCY_S
from kvdoctor.roofline.question import Question
from kvdoctor.roofline.rates import Decode, decode_of
from kvdoctor.roofline.step import Limit, Machine, micro_batches, read_fractions, step_bytes

PartName = Literal[Limit, "draft"]
_READS: tuple[Limit, ...] = ("weights", "kv", "state")
_PARTS: tuple[PartName, ...] = (*_READS, "compute", "collectives", "latency", "draft")
# A loss below this share of the wider step is not worth a word.
_WORTH_A_WORD = 0.01


@dataclass(frozen=True, slots=True)
class PartChange:
    """One part of the expected step, before and after. The parts add up to the step."""

    name: PartName
    before_seconds: float
    """At best, as in the expectation: reads at the share of the bandwidth that is reached."""
    after_seconds: float
    lost_seconds: float
    """What the part takes more than half of what the narrow layout takes for the same batch."""
    before_bytes: float | None = None
    """Read by one rank; None of parts that are no reads."""
    after_bytes: float | None = None
    undivided_bytes: float | None = None
    """Of `after_bytes`, what is over half: read by every rank though another reads it too."""


@dataclass(frozen=True, slots=True)
class Widening:
    """The step to expect at best before and after, with as many sequences as fit on each side."""

    ranks: tuple[int, int]
    batches: tuple[float, float]
    before_seconds: float
    after_seconds: float
    parts: tuple[PartChange, ...]
    all_reduces: int
    """In a step of the wider layout; 0 where a rank holds its sequences' attention and experts alone."""
    message_bytes: float
    """Of one all-reduce."""
    link: float | None
    """Bytes/s between the ranks; None where unknown: then messages are not in the step."""
    layer_seconds: float
    """What launches and all-reduces add in each layer at best."""
    kv_reason: Literal["", "latent", "heads"]
    """Why KV does not halve: one latent for all heads, or fewer heads than ranks."""

    @property
    def losses(self) -> tuple[PartChange, ...]:
        """The parts that keep the step from halving, the largest first."""
        worth = [p for p in self.parts if p.lost_seconds > _WORTH_A_WORD * self.after_seconds]
        return tuple(sorted(worth, key=lambda part: -part.lost_seconds))


def widening_of(
    question: Question, wider: Question, *, fit: tuple[int | None, int | None]
) -> Widening | None:
    """Compare both layouts with the sequences of the batch that `fit`; None where rates or room are not known."""
    machine = question.machine
    if machine is None or 0 in fit:
        return None
    asked = question.load.batch
    now, then = (asked if n is None else min(asked, float(n)) for n in fit)
    before, after = _at(question, now), _at(wider, then)
    same = before if now == then else _at(question, then)
    parts = [_part(name, before, after, same) for name in _PARTS]
    return Widening(
        ranks=(question.layout.tp, wider.layout.tp),
        batches=(now, then),
        before_seconds=sum(before.seconds.values()),
        after_seconds=sum(after.seconds.values()),
        parts=tuple(part for part in parts if part.before_seconds or part.after_seconds),
        all_reduces=collective.all_reduce_count(wider.shape) if wider.layout.attention_tp > 1 else 0,
        message_bytes=_message(wider, then),
        link=machine.link,
        layer_seconds=LAYER_LATENCY_S,
        kv_reason=_kv_reason(wider),
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """Bytes and seconds of a step, by part."""

    seconds: dict[PartName, float]
    bytes: dict[PartName, float]


def _at(question: Question, batch: float) -> _Side:
    """The step at a batch. Reads count at the share of the bandwidth reached, or computing alone where that rules."""
    asked = replace(question, load=replace(question.load, batch=batch))
    machine, decode = asked.machine, decode_of(asked)
    if machine is None or decode.step is None:
        return _Side({}, {})
    moved = step_bytes(asked.shape, asked.load, asked.layout, asked.storage)
    sizes: dict[PartName, float] = {"weights": moved.weights, "kv": moved.kv, "state": moved.state}
    return _Side(_seconds(asked, machine, decode), sizes)


def _seconds(asked: Question, machine: Machine, decode: Decode) -> dict[PartName, float]:
    """Seconds to expect at best; they add up to the fast end of the expectation."""
    if decode.step is None:
        return {}
    alone = decode.step.seconds_by_part
    high, _ = read_fractions(asked.shape, machine, asked.layout, asked.load.batch)
    found: dict[PartName, float] = {part: alone[part] / high for part in _READS}
    compute = alone["compute"] / COMPUTE_FRACTION
    if compute > sum(found.values()):
        found = {"compute": compute}
    found |= {"collectives": alone["collectives"], "latency": alone["latency"], "draft": decode.draft_seconds}
    return found


def _part(name: PartName, before: _Side, after: _Side, same: _Side) -> PartChange:
    """One part on both sides; `same` is the narrow layout with the wide one's batch."""
    seconds = after.seconds.get(name, 0.0)
    size = after.bytes.get(name)
    return PartChange(
        name,
        before.seconds.get(name, 0.0),
        seconds,
        seconds - same.seconds.get(name, 0.0) / 2,
        before.bytes.get(name),
        size,
        None if size is None else max(0.0, size - same.bytes.get(name, 0.0) / 2),
    )


def _message(question: Question, batch: float) -> float:
    """Bytes of one all-reduce of a rank's tokens."""
    tokens = batch * (question.drafted + 1) / micro_batches(batch, question.layout)
    return collective.message_bytes(question.shape, tokens / max(1, question.layout.dp_attention))


def _kv_reason(wider: Question) -> Literal["", "latent", "heads"]:
    """Why the KV of a rank does not halve, if it does not."""
    caches = [layer.cache for layer in wider.shape.layers if layer.cache]
    if any(cache.latent for cache in caches):
        return "latent"
    few = any(cache.kv_heads < wider.layout.attention_tp for cache in caches)
    return "heads" if few else ""
