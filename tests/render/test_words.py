"""How the answer's names are said to people."""

from __future__ import annotations

import dataclasses
import math

import pytest
from diagnosis_bounds import NETWORK, QUEUEING
from diagnosis_capacity import CAPACITY
from diagnosis_states import HEALTHY, IDLE, INSUFFICIENT, LIFETIME

from kvdoctor.model import Basis, Bound, Diagnosis, Finding, State, Verdict
from kvdoctor.render import facts, words
from kvdoctor.service import Quantile

STALLED = dataclasses.replace(IDLE, state=State.STALLED)


@pytest.mark.parametrize(
    ("diagnosis", "said"),
    [
        (CAPACITY, "Bound by capacity / preemption (family capacity), high confidence"),
        (QUEUEING, "Bound by queueing / admission_limit (family other), medium confidence"),
        (HEALTHY, "Healthy, paced by compute, medium confidence"),
        (IDLE, "Idle, high confidence"),
        (INSUFFICIENT, "Not enough evidence to name a bound, low confidence"),
        (STALLED, "Stalled, high confidence"),
    ],
)
def test_the_headline_names_bound_family_and_confidence_or_the_state(diagnosis: Diagnosis, said: str) -> None:
    assert words.headline(diagnosis) == said


@pytest.mark.parametrize(
    ("diagnosis", "summary", "said"),
    [
        (
            CAPACITY,
            "Bound by capacity (preemption): the pool is full (high confidence).",
            "The pool is full.",
        ),
        (CAPACITY, "The pool is full: nobody fits.", "The pool is full: nobody fits."),
        (HEALTHY, "Healthy: objectives met.", "Objectives met."),
        (INSUFFICIENT, "I can't tell: too little.", "I can't tell: too little."),
        (CAPACITY, "", ""),
        (STALLED, "Stalled: no token came.", "No token came."),
        (
            STALLED,
            "Stalled for 8.00 s of 40.0 s: no token came.",
            "Stalled for 8.00 s of 40.0 s: no token came.",
        ),
    ],
)
def test_the_reason_does_not_say_the_headline_again(diagnosis: Diagnosis, summary: str, said: str) -> None:
    assert words.reason(dataclasses.replace(diagnosis, summary=summary)) == said


def test_a_latencys_sentence_does_not_say_its_name_again() -> None:
    told = dataclasses.replace(
        CAPACITY, sentences={"ttft": "TTFT 1.31 s in the mean.", "itl": "ITL: nothing."}
    )
    assert words.metric_sentence(told, "ttft") == "capacity / admission. 1.31 s in the mean."
    assert words.metric_sentence(told, "itl") == "capacity / preemption. nothing."


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.0, 0.01, "under 10.0 ms"),
        (0.01, 0.02, "10.0 ms to 20.0 ms"),
        (0.5, math.inf, "over 500 ms"),
        (0.02, 0.02, "20.0 ms"),
    ],
)
def test_a_quantile_is_told_by_its_bucket(low: float, high: float, said: str) -> None:
    assert words.quantile(Quantile(low, high)) == said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("kv_wait", "KV wait"),
        ("prefill_in_step", "prefill in step"),
        ("first_step", "first step"),
        ("x", "x"),
    ],
)
def test_a_part_is_named_for_people(name: str, said: str) -> None:
    assert words.part_name(name) == said


@pytest.mark.parametrize(
    ("verdict", "share", "recoverable", "said"),
    [
        (Verdict.LIKELY, 1.0, 0.5, "Explains 1.00 s of a request. Undoing it would give back 500 ms."),
        (Verdict.POSSIBLE, 0.0, None, ""),
        (Verdict.POSSIBLE, 0.0, 0.5, "Undoing it would give back 500 ms."),
    ],
)
def test_a_causes_weight_is_told_only_where_it_is_known(
    verdict: Verdict, share: float, recoverable: float | None, said: str
) -> None:
    finding = Finding(Bound.HOST, verdict, share_seconds=share, recoverable_seconds=recoverable)
    assert words.weight(finding) == said


def test_a_cause_without_a_sentence_is_ruled_out_by_its_first_number() -> None:
    evidence = CAPACITY.findings[0].evidence
    assert words.because(Finding(Bound.HOST, Verdict.RULED_OUT, evidence=evidence)) == (
        "(KV pool at its fullest 99.9%, threshold 95%)"
    )
    assert words.because(Finding(Bound.HOST, Verdict.RULED_OUT)) == ""


@pytest.mark.parametrize(
    ("gain", "basis", "said"),
    [
        (1.5, Basis.MODELLED, "Saves 1.50 s of a request (modelled)"),
        (1.5, Basis.UPPER_BOUND, "Saves at most 1.50 s of a request"),
        (None, Basis.MEASURED, "Gain unknown (measured)"),
    ],
)
def test_a_gain_says_how_it_is_known(gain: float | None, basis: Basis, said: str) -> None:
    advice = dataclasses.replace(CAPACITY.findings[0].advice[0], gain_seconds=gain, basis=basis)
    assert words.gain(advice) == said


def test_a_reading_alone_is_said_to_be_no_window() -> None:
    assert "every figure is a sum since the engine started, not a window" in facts.window(LIFETIME.window)
    assert "1 first token, 1 request finished" in facts.window(NETWORK.window)
    assert "1 restart inside" in facts.window(INSUFFICIENT.window)


def test_default_objectives_are_told_from_stated_ones() -> None:
    assert "the default" in facts.objective(HEALTHY)
    stated = dataclasses.replace(HEALTHY, objective=dataclasses.replace(HEALTHY.objective, stated=True))
    assert "as stated" in facts.objective(stated)


def test_a_sum_that_is_unknown_is_not_nothing() -> None:
    assert [amount for amount, _ in facts.sums(HEALTHY)] == ["118 ms", "unknown", "0 ms"]
    assert facts.sums(IDLE) == ()


@pytest.mark.parametrize(("low", "doubted"), [(2.90e12, False), (2.92e12, True)])
def test_a_step_faster_than_its_bytes_can_be_read_is_doubted(low: float, doubted: bool) -> None:
    assert CAPACITY.roofline is not None
    point = dataclasses.replace(CAPACITY.roofline, achieved_low=low)
    assert ("not possible" in facts.roofline(dataclasses.replace(CAPACITY, roofline=point))) is doubted
