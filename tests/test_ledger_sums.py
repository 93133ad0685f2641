"""Whatever comes, the parts of a ledger sum to the whole and none is negative."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import H100
from loads import case

from kvdoctor import ledger
from kvdoctor.histogram import Histogram
from kvdoctor.machine import Machine, machine
from kvdoctor.traffic import Traffic

INF = math.inf


MODELLED = machine(H100, None)
SECONDS = st.floats(0, 100)
EDGES = (0.001, 0.01, 0.1, 1.0, 10.0, INF)


@st.composite
def histograms(draw, count: float | None = None) -> Histogram:
    """Counts and a sum that may or may not fit them: cut texts and races give such."""
    counts = draw(st.tuples(*[st.integers(0, 1000)] * len(EDGES)))
    number = float(sum(counts)) if count is None else count
    return Histogram(EDGES, tuple(map(float, counts)), draw(SECONDS) * number, number)


@st.composite
def traffics(draw) -> Traffic:
    base = draw(st.sampled_from(BASES))
    first = float(draw(st.integers(1, 500)))
    kinds = {"ttft": histograms(first), "itl": histograms(), "queue": histograms(), "prefill": histograms()}
    drawn = {name: draw(st.none() | kind) for name, kind in kinds.items()}
    return dataclasses.replace(
        base,
        **drawn,
        e2e=draw(histograms()),
        first_tokens=first,
        finished=float(draw(st.integers(0, 500))),
        generated=float(draw(st.integers(0, 10_000))),
        preemptions=float(draw(st.integers(0, 3))),
        computed=draw(st.none() | st.floats(0, 1e6)),
        prefill_guess=draw(st.none() | SECONDS),
        seconds=draw(st.floats(1, 3600) | st.just(math.nan)),
    )


BASES = tuple(
    case(waiting=w, deferred=d, running=r).traffic for w, d, r in ((0, 0, 1), (20, 0, 4), (20, 15, 9))
)


@settings(max_examples=80, deadline=None)
@given(traffics(), st.sampled_from((Machine(), MODELLED)), SECONDS, st.none() | SECONDS)
def test_parts_sum_to_the_whole_and_none_is_negative(traffic, known, load, transfer):
    for found in (
        ledger.ttft_ledger(traffic, load=load, transfer=transfer),
        ledger.itl_ledger(traffic, known),
    ):
        if found is None:
            continue
        assert sum(p.seconds for p in found.top()) == pytest.approx(found.seconds, rel=1e-12, abs=1e-15)
        assert all(p.seconds >= 0 for p in found.parts)
        for part in found.parts:
            if part.parent is not None:
                assert part.seconds <= found.part(part.parent) * (1 + 1e-9)


@settings(max_examples=50, deadline=None)
@given(traffics())
def test_a_stall_needs_preemptions_and_lies_within_the_tail(traffic):
    stall = ledger.preemption_stall(traffic)
    assert stall >= 0
    if not traffic.preemptions or traffic.tail is None:
        assert stall == 0
    elif traffic.itl.count:
        assert stall <= traffic.tail.excess / traffic.itl.count
