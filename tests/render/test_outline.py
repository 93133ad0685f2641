"""What is shown in which order."""

from __future__ import annotations

import dataclasses
import math

from diagnosis_capacity import CAPACITY
from diagnosis_parts import NO_HOST
from diagnosis_states import HEALTHY

from kvdoctor.model import Advice, Basis, Bound, Finding, Ledger, Metric, Part, Verdict
from kvdoctor.render import outline


def ledger(*parts: Part, seconds: float = 1.0) -> Ledger:
    """Return a TTFT ledger of these parts."""
    return Ledger(Metric.TTFT, seconds, 10, parts)


def test_parts_stand_under_the_one_they_lie_in_however_they_came() -> None:
    source = ledger(
        Part("wire", 0.1, Basis.MODELLED, "wait"),
        Part("queue", 0.6, Basis.MEASURED),
        Part("prefill", 0.4, Basis.MEASURED),
        Part("wait", 0.5, Basis.MEASURED, "queue"),
    )
    shown = [(row.number, row.depth, row.part.name) for row in outline.rows(source)]
    assert shown == [("1", 0, "queue"), ("1.1", 1, "wait"), ("1.1.1", 2, "wire"), ("2", 0, "prefill")]


def test_a_part_whose_parent_is_missing_or_itself_comes_last_and_is_not_lost() -> None:
    odd = (Part("a", 0.1, Basis.MEASURED, "nowhere"), Part("b", 0.1, Basis.MEASURED, "b"))
    rows = outline.rows(ledger(*odd, Part("queue", 1.0, Basis.MEASURED)))
    assert [row.part.name for row in rows] == ["queue", "a", "b"]
    assert [row.number for row in rows] == ["1", "", ""]


def test_a_share_of_nothing_is_none() -> None:
    part = Part("queue", 0.0, Basis.MEASURED)
    assert outline.rows(ledger(part, seconds=0.0))[0].share is None
    assert outline.rows(ledger(Part("queue", math.nan, Basis.MEASURED)))[0].share is None
    assert outline.rows(ledger(Part("queue", 0.25, Basis.MEASURED)))[0].share == 0.25


def test_advice_comes_by_gain_and_unknown_gains_last() -> None:
    gains = [item.gain_seconds for _, item in outline.advice(CAPACITY)]
    assert gains == [8.9, 4.1, 2.9, None]


def test_what_two_findings_advise_stands_once_where_it_buys_most() -> None:
    small, large = (Advice("a larger pool", "expect", Basis.MODELLED, gain) for gain in (1.0, 3.0))
    found = tuple(
        Finding(bound, Verdict.LIKELY, advice=(item,))
        for bound, item in ((Bound.CAPACITY, small), (Bound.HIT_RATE, large))
    )
    (pair,) = outline.advice(dataclasses.replace(HEALTHY, findings=found))
    assert (pair[0].bound, pair[1].gain_seconds) == (Bound.HIT_RATE, 3.0)


def test_an_undefined_gain_is_as_unknown_as_none() -> None:
    items = tuple(Advice("do", "expect", Basis.MODELLED, gain) for gain in (math.nan, 1.0))
    finding = Finding(Bound.HOST, Verdict.LIKELY, advice=items)
    diagnosis = dataclasses.replace(HEALTHY, findings=(finding,))
    gains = [item.gain_seconds for _, item in outline.advice(diagnosis)]
    assert gains[0] == 1.0


def test_a_gap_of_several_findings_is_told_once() -> None:
    assert outline.gaps(CAPACITY) == (NO_HOST,)
    assert len(outline.gaps(HEALTHY)) == 3
