"""Sentences and figures of the roofline, the same in every format."""

from __future__ import annotations

import math

from kvdoctor.render.text import clean
from kvdoctor.roofline.answer import Answer
from kvdoctor.roofline.claim import Claim, Verdict
from kvdoctor.roofline.machine import Card
from kvdoctor.roofline.report import Report
from kvdoctor.roofline.step import Limit, Step
from kvdoctor.roofline.tiers import FetchOrCompute
from kvdoctor.roofline.whatif import WhatIf
from kvdoctor.units import UNDEFINED, count, duration, gb, gib, rate_bytes

# What rules the step, in words that name the cure's direction.
LIMITS: dict[Limit, str] = {
    "weights": "Reading the weights",
    "kv": "Reading the KV",
    "state": "Reading and writing recurrent state",
    "compute": "Computing",
    "collectives": "Sending messages between ranks",
    "latency": "Latency of launches and all-reduces",
}
PARTS: dict[Limit, str] = {
    "weights": "weights",
    "kv": "KV",
    "state": "state",
    "compute": "compute",
    "collectives": "collectives",
    "latency": "latency",
}


GAIN = "Gain: tokens/s to expect at best of the sequences that fit, after over before."
# What a floor on TTFT leaves out where nothing gives a peak.
UNCOUNTED = "for its reads; computing is not counted (--peak TFLOPS)"
_ONLY = {"total": "over the whole batch only", "per sequence": "for a sequence only", "": ""}


def rate(tokens_per_s: float | None) -> str:
    """Tokens per second: 3,330 or 24.4."""
    return UNDEFINED if tokens_per_s is None else count(_rounded(tokens_per_s))


def _rounded(value: float) -> float:
    """Four significant figures from 1,000 on: a model is not more exact."""
    return float(f"{value:.4g}")


def seconds(value: float | None) -> str:
    """A time, or a dash where it is not known."""
    return "-" if value is None or not math.isfinite(value) else duration(value)


def flops(value: float) -> str:
    """FLOPs in the largest unit of which there is one."""
    for scale, unit in ((1e15, "PFLOP"), (1e12, "TFLOP")):
        if value >= scale:
            return f"{value / scale:.4g} {unit}"
    return f"{value / 1e9:.4g} GFLOP"


def part_seconds(step: Step | None, part: Limit) -> str:
    """Seconds of one part alone; a dash where it is not known, as computing is without a peak."""
    return seconds((step.seconds_by_part[part] or None) if step else None)


def both(size: float) -> str:
    """Bytes in the units of memory and of data sheets."""
    return f"{gib(size)} ({gb(size)})"


def title(answer: Answer) -> str:
    """Model and machine."""
    question = answer.question
    return f"{clean(question.shape.name)}{_place(question.card, question.layout.gpus)}"


def _place(card: Card, ranks: int) -> str:
    """What the ranks run on: cards by their name, or the processors whose memory a probe measured."""
    if card.is_host_memory:
        return " on a machine's CPUs" if ranks == 1 else f" on the CPUs of {ranks} machines"
    if not card.name and not card.bandwidth:
        return ", no card named" if ranks == 1 else f" on {ranks} GPUs, no card named"
    return f" on {ranks} x {clean(card.name) or 'GPU of the bandwidth below'}"


def hit_name(answer: Answer) -> str:
    """A hit of KV that need not be fetched, by where it lies."""
    return "hit in memory" if answer.question.card.is_host_memory else "hit in HBM"


def model_line(answer: Answer) -> str:
    """Parameters and formats."""
    shape, parameters = answer.question.shape, answer.parameters
    dtype = answer.question.storage.dtype or shape.kv_dtype
    used = f", {millions(parameters.active)} active" if parameters.active < parameters.total else ""
    return (
        f"{millions(parameters.total)} parameters{used}; {len(shape.layers)} layers ({clean(shape.family)}); weights "
        f"{clean(weight_name(shape.weight_format))}, KV {dtype}; {clean(shape.basis)}"
    )


def weight_name(form: str) -> str:
    """A weight format for people: the bytes a weight of a file are rounded."""
    return f"{float(form[4:]):.3g} bytes each" if form.startswith("bpw:") else form


def machine_line(answer: Answer) -> str:
    """Layout and rates."""
    question, layout, machine = answer.question, answer.question.layout, answer.question.machine
    widths = {
        "TP": layout.tp,
        "PP": layout.pp,
        "EP": layout.ep,
        "DP attention": layout.dp_attention,
        "DCP": layout.dcp,
    }
    spread = ", ".join(f"{name} {size}" for name, size in widths.items() if size > 1 or name == "TP")
    if machine is None:
        return spread
    peak = f", {machine.peak / 1e12:,.0f} TFLOPS dense" if machine.peak else ""
    memory = f", {gib(question.card.memory)}" if question.card.memory else ""
    what = "the machine's memory" if question.card.is_host_memory else "a GPU"
    return f"{spread}; {what}: {rate_bytes(machine.bandwidth)} ({clean(question.card.basis)}){peak}{memory}"


def elsewhere_line(answer: Answer) -> str:
    """Say that the bandwidth is another card's than the one that is named; empty where it is not."""
    card = answer.question.card
    if card.measured is None or card.gpu is None or card.measured.is_of(card.gpu.name):
        return ""
    return f"Every rate below is that of {clean(card.measured.device) or 'a machine of no name'}, where it was measured"


def millions(number: float) -> str:
    """A count of parameters: 8.03 B, 124.4 M."""
    return f"{number / 1e9:.4g} B" if number >= 1e9 else f"{number / 1e6:.4g} M"


def load_name(answer: Answer) -> str:
    """Batch and mean context."""
    load = answer.question.load
    noun = "sequence" if load.batch == 1 else "sequences"
    return f"{load.batch:g} {noun} of {count(load.context)} tokens"


def kv_name(answer: Answer) -> str:
    """What sequences keep: KV, recurrent state, or both."""
    if not answer.state_per_sequence:
        return "KV"
    return "KV and state" if answer.kv_per_token else "state"


def memory_name(answer: Answer) -> str:
    """The memory that weights and KV share."""
    return "the memory" if answer.question.card.is_host_memory else "the card"


def load_line(answer: Answer) -> str:
    """Batch and context, with the mix that the context is the mean of."""
    mix = answer.question.load.mix
    shares = ", ".join(f"{n:,.0f}: {share:.0%}" for n, share in mix)
    return load_name(answer) + (f" in the mean ({shares})" if mix else "")


def headline(answer: Answer) -> str:
    """The rates: ceiling and expectation, always together."""
    decode, batch = answer.decode, answer.question.load.batch
    if decode.ceiling is None or decode.expected is None or decode.step is None:
        return "Rates are not known without a bandwidth."
    each = "" if batch == 1 else f", {rate(decode.ceiling / batch)} a sequence"
    low, high = decode.expected
    start = "If it all fitted: ceiling" if answer.fit.misfits else "Ceiling"
    text = (
        f"{start} {rate(decode.ceiling)} tok/s{each} (step of {duration(decode.seconds_floor or 0)}); "
        f"expect {rate(low)} to {rate(high)}."
    )
    return f"{text} {fitting_line(answer)}".rstrip()


def fitting_line(answer: Answer) -> str:
    """The rates of the sequences that run at once, where the batch does not fit; else nothing."""
    fitting = answer.fitting
    if fitting is None or fitting.ceiling is None or fitting.expected is None:
        return ""
    low, high = fitting.expected
    return (
        f"With the {answer.fit.sequences or 0:,} that fit at once: ceiling {rate(fitting.ceiling)} tok/s; "
        f"expect {rate(low)} to {rate(high)}."
    )


def limit_line(answer: Answer) -> str:
    """What rules the step and where that changes."""
    step, ridges, batch = answer.decode.step, answer.ridges, answer.question.load.batch
    if step is None or ridges is None:
        return ""
    found = [f"{LIMITS[step.limit]} rules the step."]
    if ridges.kv_batch is not None:
        context = count(answer.question.load.context)
        found.append(f"KV outweighs weights from batch {ridges.kv_batch:,.3g} on at {context} tokens,")
        if ridges.kv_context is not None:
            found.append(f"or from {ridges.kv_context:,.0f} tokens on at batch {batch:g}.")
        else:
            found[-1] = found[-1][:-1] + "."
    if ridges.compute_batch is not None:
        found.append(
            f"Computing the weights' products outlasts reading them from batch {ridges.compute_batch:,.0f} on."
        )
    return " ".join(found)


def what_ifs_title(report: Report) -> str:
    """Changes by what they help; without rates, by what they read."""
    known = any(row.before.step_seconds is not None for row in report.what_ifs)
    return "What would help this service most" if known else "What each change would read in a step"


def gain(row: WhatIf) -> str:
    """How many times faster this service would be."""
    if row.gain is None:
        return "-"
    return "fits" if math.isinf(row.gain) else f"x {row.gain:.2f}"


def fetch_title(answer: Answer) -> str:
    """What is fetched, and what computing it again takes."""
    sizes = {place.tier.per_rank: place.bytes for place in answer.places}
    size = gib(sizes.get(True, 0.0))
    if sizes.get(False, sizes.get(True)) != sizes.get(True):
        size += f" a rank ({gib(sizes[False])} where ranks share a link)"
    again = seconds(answer.places[0].recompute_seconds)
    return f"Fetch {size}, or compute it again, which adds {again} to the pass of a hit"


def even_rate(place: FetchOrCompute) -> str:
    """GB/s at which fetching this prefix takes as long as computing it."""
    value = place.break_even_bytes_per_s / 1e9
    return f"{value:,.3g}" if math.isfinite(value) else "-"


def break_even(place: FetchOrCompute) -> str:
    """From which length on fetching wins."""
    if place.break_even_tokens is None:
        return "never"
    return "always" if place.break_even_tokens < 1 else f"{place.break_even_tokens:,.0f}"


def verdict_line(verdict: Verdict) -> str:
    """One reading of a claim against its ceiling."""
    low, high = verdict.expected
    word = "possible" if verdict.possible else "impossible"
    if verdict.possible and verdict.claimed > high:
        word = "possible, though above what is expected"
    ratio = verdict.claimed / verdict.ceiling
    share = f"{ratio:.0%} of the ceiling" if ratio < 2 else f"{ratio:.1f} times the ceiling"
    return (
        f"{verdict.reading}: {word}. {rate(verdict.claimed)} tok/s is {share} of "
        f"{rate(verdict.ceiling)}; expect {rate(low)} to {rate(high)}."
    )


def claim_title(claim: Claim) -> str:
    """The verdict over all readings, memory included."""
    if not claim.possible:
        return f"{clean(claim.text)} is impossible here."
    return (
        f"{clean(claim.text)} is possible."
        if claim.fits
        else f"{clean(claim.text)} is impossible: it does not fit."
    )
