"""Whether a claimed rate is possible, and what would make it so."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline import weights
from kvdoctor.roofline.answer import Answer
from kvdoctor.roofline.change import changes_for
from kvdoctor.roofline.fit import fit_of, widened
from kvdoctor.roofline.quantity import tokens_per_s
from kvdoctor.roofline.question import Question
from kvdoctor.roofline.rates import decode_of
from kvdoctor.units import count, gb, gib, rate_bytes

Reading = Literal["per sequence", "total"]
# No published deployment of one replica is wider.
_WIDEST = 1024
_PER = re.compile(r"\s*(?:per|/|a)\s*(?:sequence|seq|user|request|stream)s?\s*$")
_TOTAL = re.compile(r"\s*(?:in\s+)?(?:total|all|aggregate)\s*$")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One reading of a claim against the ceiling of the same kind."""

    reading: Reading
    claimed: float
    ceiling: float
    expected: tuple[float, float]

    @property
    def possible(self) -> bool:
        """Whether the ceiling allows it."""
        return self.claimed <= self.ceiling


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim, judged: over every reading that its words allow."""

    text: str
    verdicts: tuple[Verdict, ...]
    """Most likely reading first."""
    fits: bool
    """Whether weights and batch fit the memory, where that is known."""
    remedies: tuple[str, ...]
    """What would make the reading that is nearest to possible so; each alone."""

    @property
    def possible(self) -> bool:
        """Whether any reading is possible."""
        return any(verdict.possible for verdict in self.verdicts)


def readings_of(text: str) -> tuple[float, tuple[Reading, ...]]:
    """The claimed rate in tokens/s, and whether it is per sequence, in total, or either.

    `85 tok/s` may be both, `85 tok/s total` and `85 tok/s per sequence` say which, `12 ms` is the time between
    two tokens of a sequence. Raises KvdoctorError for what is no rate.
    """
    low = text.strip().lower()
    if _PER.search(low):
        return tokens_per_s(_PER.sub("", low)), ("per sequence",)
    if _TOTAL.search(low):
        return tokens_per_s(_TOTAL.sub("", low)), ("total",)
    rate = tokens_per_s(low)
    if re.search(r"\d\s*(?:ms|us|s)\b", low):
        return rate, ("per sequence",)
    return rate, ("per sequence", "total")


def judge(answer: Answer, text: str) -> Claim:
    """Judge a claim. Raises KvdoctorError where no bandwidth is known or the claim is no rate."""
    rate, readings = readings_of(text)
    if not 0 < rate < math.inf:
        raise KvdoctorError(f"{text!r} claims no rate", "write 85 tok/s or 11.8 ms")
    decode, batch = answer.decode, answer.question.load.batch
    if decode.ceiling is None or decode.expected is None:
        raise KvdoctorError("a claim can't be judged without a bandwidth", "name the card: --gpu H100")
    verdicts = []
    for reading in readings if batch != 1 else readings[:1]:
        share = batch if reading == "per sequence" else 1.0
        low, high = decode.expected
        verdicts.append(Verdict(reading, rate, decode.ceiling / share, (low / share, high / share)))
    fits = not answer.fit.misfits
    remedies: tuple[str, ...] = ()
    if not fits or not any(verdict.possible for verdict in verdicts):
        nearest = min(verdicts, key=lambda verdict: verdict.claimed / verdict.ceiling)
        remedies = _remedies(answer, nearest, timed="total" not in readings)
    return Claim(text, tuple(verdicts), fits, remedies)


def _remedies(answer: Answer, verdict: Verdict, *, timed: bool) -> tuple[str, ...]:
    """What would lift the ceiling over the claim, and make room where that lacks: each alone."""
    question = answer.question

    def enough(changed: Question) -> bool:
        ceiling = decode_of(changed).ceiling or 0.0
        share = changed.load.batch if verdict.reading == "per sequence" else 1.0
        return ceiling / share >= verdict.claimed and _has_room(changed)

    lifts = not verdict.possible and _has_room(question)
    found = _bandwidth(answer, verdict) if lifts else []
    found += [*_wider(question, enough), *_changes(question, enough)]
    if lifts:
        found += _acceptance(question, verdict)
        found += _smaller_batch(question, enough) if timed else _batch(question, verdict)
    return tuple(found) or ("nothing that is modelled here, alone: it takes fewer bytes and more bandwidth",)


def _has_room(question: Question) -> bool:
    """Whether weights and one sequence fit; True where no memory is known."""
    fit = fit_of(question)
    return fit.sequences is None or fit.sequences >= min(1.0, question.load.batch)


def _bandwidth(answer: Answer, verdict: Verdict) -> list[str]:
    """The bandwidth a rank would need; none where compute stands in the way."""
    step, moved = answer.decode.step, answer.decode.bytes.total
    if step is None or answer.question.drafted:
        return []
    share = 1.0 if verdict.reading == "per sequence" else answer.question.load.batch
    seconds = share / verdict.claimed
    if step.seconds_by_part["compute"] > seconds:
        return []
    least = seconds * moved / step.seconds_floor
    return [
        f"{rate_bytes(moved / seconds)} of bandwidth a GPU, or {gb(least)} a step in place of {gb(moved)}"
    ]


def _wider(question: Question, enough: Callable[[Question], bool]) -> tuple[str, ...]:
    """The narrowest TP width that reaches the claim."""
    factor = 2
    while question.layout.tp * factor <= _WIDEST:
        changed = widened(question, factor)
        if enough(changed):
            size = weights.resident(changed.shape, layout=changed.layout).total
            return (f"{changed.layout.gpus} GPUs at TP {changed.layout.tp} ({gib(size)} of weights a rank)",)
        factor *= 2
    return ()


def _changes(question: Question, enough: Callable[[Question], bool]) -> list[str]:
    """Quantizations that reach the claim alone."""
    found = []
    for change in changes_for(question):
        if change.kind != "service" or "speculation" in change.name:
            continue
        changed = change.apply(question)
        if changed is not None and enough(changed):
            found.append(change.name)
    return found


def _acceptance(question: Question, verdict: Verdict) -> list[str]:
    """The accept length that speculation would need, its own reads left out."""
    needed = verdict.claimed / verdict.ceiling * question.accepted
    return [f"speculation that yields {needed:.2g} tokens a step or more"] if 1 < needed <= 8 else []


def _batch(question: Question, verdict: Verdict) -> list[str]:
    """The batch at which the claim holds as a total over all sequences."""
    load = question.load
    low, high = load.batch, load.batch
    while high < 1e6:
        high *= 2
        changed = replace(question, load=replace(load, batch=high))
        if (decode_of(changed).ceiling or 0.0) >= verdict.claimed:
            break
    else:
        return []
    while high / low > 1.01 and high - low > 1:
        middle = math.ceil((low + high) / 2)
        reached = (
            decode_of(replace(question, load=replace(load, batch=middle))).ceiling or 0.0
        ) >= verdict.claimed
        low, high = (low, float(middle)) if reached else (float(middle), high)
    batch = math.ceil(high)
    room = fit_of(replace(question, load=replace(load, batch=float(batch)))).sequences
    short = f"; only {count(room)} fit" if room is not None and room < batch else ""
    return [f"a batch of {count(batch)} sequences, the rate counted over all of them{short}"]


def _smaller_batch(question: Question, enough: Callable[[Question], bool]) -> list[str]:
    """The largest batch at which every sequence is as fast as claimed."""
    load = question.load
    low, high = 0, math.ceil(load.batch)
    while high - low > 1:
        middle = (low + high) // 2
        reached = enough(replace(question, load=replace(load, batch=float(middle))))
        low, high = (middle, high) if reached else (low, middle)
    return [f"a batch of at most {low:,}"] if low else []
