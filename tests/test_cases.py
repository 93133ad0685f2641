"""Labelled public cases: each attachment against what it alone supports, each case's figures against its label."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import cases
from kvdoctor.model import Confidence

SHARED = Path(os.environ.get("KVDOCTOR_SHARED", Path(__file__).resolve().parents[1] / ".." / "shared"))
FOLDER = SHARED / "cases"

needs_cases = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the labelled cases are not beside this checkout"
)


@pytest.mark.parametrize(
    ("named", "scored"),
    [
        ("capacity", "right"),
        ("queueing", "acceptable"),
        ("hit_rate", "harmful"),
        ("insufficient_evidence", "miss"),
        ("host", "wrong"),
    ],
)
def test_an_answer_is_scored_by_the_label(named, scored):
    assert cases.score(named, "capacity", ("queueing",), ("hit_rate",)) == scored


def test_always_saying_that_it_cannot_be_told_is_never_right_where_it_can():
    answer = cases.Answer("a", "a.log", "host", Confidence.LOW, "host", (), (), "", "", ())
    assert cases.tally([answer], always=True) == Counter({"miss": 1})


ASKED = [
    pytest.param(cases.attachments, id="attachments"),
    pytest.param(cases.evidence, id="evidence"),
]


@needs_cases
@pytest.mark.parametrize("ask", ASKED)
def test_those_that_can_be_decided_are_mostly_right_and_never_harmful(ask):
    answers = [a for a in ask(FOLDER) if a.decidable]
    scores = cases.tally(answers)
    assert scores["right"] >= 0.65 * len(answers)
    assert scores["right"] + scores["acceptable"] >= 0.85 * len(answers)
    assert scores["harmful"] == 0
    assert not [a.case for a in answers if a.score == "wrong" and a.confidence is Confidence.HIGH]


@needs_cases
@pytest.mark.parametrize("ask", ASKED)
def test_those_that_cannot_be_decided_say_so_and_name_a_measurement(ask):
    answers = [a for a in ask(FOLDER) if not a.decidable]
    assert answers
    for answer in answers:
        assert answer.named == cases.UNDECIDED, answer.case
        assert answer.next_measurement, answer.case


WORDS = {
    "preemptions": "preempt",
    "process_start_time_seconds": "process_start_time_seconds",
    "scrapes": "difference",
    "cached": "cached",
    "token ids": "token ids",
    "hit": "hit",
    "reused": "reused",
    "running": "running",
    "py-spy": "py-spy",
}
"""What a case may name, and the word by which an answer names the same."""


@needs_cases
@pytest.mark.parametrize("ask", ASKED)
def test_the_measurement_is_among_those_that_the_case_names(ask):
    for answer in (a for a in ask(FOLDER) if not a.decidable):
        wanted = " ".join(answer.wanted)
        named = [word for key, word in WORDS.items() if key in wanted]
        assert any(word in answer.next_measurement for word in named), (answer.case, answer.next_measurement)


@needs_cases
@pytest.mark.parametrize("ask", ASKED)
def test_no_answer_without_latencies_is_sure(ask):
    assert not [a.case for a in ask(FOLDER) if a.confidence is Confidence.HIGH]
