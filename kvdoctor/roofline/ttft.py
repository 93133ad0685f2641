"""The first token: the prefill of a miss and of a hit, and fetching a prefix against computing it again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from kvdoctor.roofline import prefill
from kvdoctor.roofline.hardware import DECODE_FRACTION, HBM_READ_FRACTION, PREFILL_FRACTION
from kvdoctor.roofline.machine import Card
from kvdoctor.roofline.prefill import PrefillFloor
from kvdoctor.roofline.question import Question
from kvdoctor.roofline.step import Machine
from kvdoctor.roofline.tiers import TIERS, FetchOrCompute, Tier, fetch_or_compute

# What a peer copy reaches of NVLink's rate: 276 of 300 GB/s on NVLink 3.
_PEER_FRACTION = 0.92


@dataclass(frozen=True, slots=True)
class FirstToken:
    """The prefill of one sequence of the context, and the floors on its TTFT; queueing comes on top.

    The last pass of a prefill yields the first token: no decode step comes on top.
    """

    tokens: float
    flops: float
    floor: PrefillFloor | None
    """None where no bandwidth is known."""
    expected_seconds: float | None
    """At the shares of the peak and of the bandwidth that engines reach; None where no peak is known."""
    miss_seconds: float | None
    """Without a cached prefix: the whole prefill."""
    hit_tokens: float
    """Tokens still computed on a hit: those of the last block."""
    hit_seconds: float | None
    """Where all other blocks are in HBM: one pass that reads the weights and the cached KV."""


def first_token(question: Question) -> FirstToken:
    """Work out the prefill of the context, as a miss and as a hit."""
    machine, tokens = question.machine, question.load.context
    fresh = min(tokens, float(question.storage.block_size))
    work = prefill.flops(question.shape, new=tokens)
    if machine is None:
        return FirstToken(tokens, work, None, None, None, fresh, None)
    floor = _floor(question, machine, tokens, 0.0)
    expected = _expected(question, machine, tokens, 0.0) if machine.peak else None
    hit = _floor(question, machine, fresh, tokens - fresh)
    return FirstToken(tokens, work, floor, expected, floor.seconds, fresh, hit.seconds)


def _floor(
    question: Question, machine: Machine, new: float, cached: float, efficiency: float = 1.0
) -> PrefillFloor:
    """The prefill's floor; without a known peak only its reads count."""
    return prefill.floor(
        question.shape,
        new=new,
        cached=cached,
        layout=question.layout,
        bandwidth=machine.bandwidth,
        peak=machine.peak or math.inf,
        storage=question.storage,
        efficiency=efficiency,
    )


def _expected(question: Question, machine: Machine, new: float, cached: float) -> float:
    """Seconds of a prefill at the shares of the peak and of the bandwidth that engines reach."""
    share = 1.0 if machine.is_of_steps else DECODE_FRACTION
    reached = replace(machine, bandwidth=machine.bandwidth * share)
    return _floor(question, reached, new, cached, PREFILL_FRACTION).seconds


def _added(question: Question, machine: Machine) -> Callable[[float], float]:
    """What computing a prefix adds to the pass over one more block, which reads the weights in any case."""
    block = float(question.storage.block_size)

    def added(length: float) -> float:
        whole = _expected(question, machine, length + block, 0.0)
        return max(0.0, whole - _expected(question, machine, block, length))

    return added


def tiers_of(card: Card) -> tuple[Tier, ...]:
    """Where a prefix may lie seen from this card: its own memory, its peers, its host, the network, a disk."""
    found = []
    for tier in TIERS:
        if card.is_host_memory and "PCIe" in tier.name:
            continue
        if tier.name == "HBM" and card.bandwidth:
            rate = card.bandwidth * (1.0 if card.basis.startswith("measured") else HBM_READ_FRACTION)
            name = "this memory" if card.is_host_memory else tier.name
            tier = replace(tier, name=name, line_rate=card.bandwidth, measured=rate, note="")
        if tier.name.startswith("NVLink"):
            link = card.gpu.nvlink_bytes_per_s if card.gpu else None
            if not link:
                continue
            tier = replace(tier, name="NVLink peer", line_rate=link, measured=link * _PEER_FRACTION)
        if "PCIe" in tier.name and not _own_generation(tier, card):
            continue
        found.append(tier)
    return tuple(found)


def _own_generation(tier: Tier, card: Card) -> bool:
    """Whether a PCIe tier is of the card's generation; all are shown where that is not known."""
    generation = card.gpu.pcie_gen if card.gpu else None
    known = [t for t in TIERS if "PCIe" in t.name]
    named = any(f"PCIe {generation}.0" in t.name for t in known)
    return not named or f"PCIe {generation}.0" in tier.name


def prefix_places(question: Question) -> tuple[FetchOrCompute, ...]:
    """Fetch against recompute of the whole context, tier by tier; empty where no peak is known."""
    machine = question.machine
    if machine is None or not machine.peak:
        return ()
    return tuple(
        fetch_or_compute(
            question.shape,
            tier,
            tokens=question.load.context,
            peak=machine.peak,
            efficiency=PREFILL_FRACTION,
            layout=question.layout,
            storage=question.storage,
            added=_added(question, machine),
        )
        for tier in tiers_of(question.card)
    )
