"""The truth beside a diagnosis."""

from __future__ import annotations

import json

import pytest

from kvdoctor.lab.faults import chosen, scene_of
from kvdoctor.lab.truth import Seen, lines, named, seen, truth


def contract(primary, subclass, contributing=(), state="bound"):
    others = [{"bound": bound, "subclass": sub} for bound, sub in contributing]
    ledger = {"ttft": {"seconds": 0.1}, "itl": None}
    return {
        "state": state,
        "primary": primary,
        "subclass": subclass,
        "contributing": others,
        "ledger": ledger,
        "findings": [
            {**each, "verdict": "likely"} for each in ({"bound": primary, "subclass": subclass}, *others)
        ],
    }


PREEMPTION, SCHEDULER = ("capacity", "preemption"), ("host", "scheduler")


@pytest.mark.parametrize(
    ("fault", "answer", "right"),
    [
        ("none", contract("healthy", None, state="healthy"), (True,)),
        ("none", contract("host", "contended"), (False,)),
        ("capacity", contract(*PREEMPTION), (True,)),
        ("capacity", contract("capacity", "admission"), (False,)),
        ("capacity", contract(*SCHEDULER, [PREEMPTION]), (False,)),
        ("capacity,host", contract(*SCHEDULER, [PREEMPTION]), (True, True)),
        ("capacity,host", contract(*PREEMPTION, [SCHEDULER]), (True, True)),
        ("capacity,host", contract(*PREEMPTION), (True, False)),
    ],
)
def test_a_fault_alone_must_be_the_primary_and_one_of_a_pair_may_contribute(fault, answer, right):
    assert named(chosen(fault), answer) == right


def test_only_what_fell_into_the_window_counts(tmp_path):
    records = tmp_path / "requests.jsonl"
    rows = [
        {"start": 9.0, "token_s": [0.5, 1.5], "error": None},
        {"start": 10.0, "token_s": [0.5, 0.7, 0.8], "error": None},
        {"start": 14.5, "token_s": [0.25, 1.0], "error": None},
        {"start": 11.0, "token_s": [], "error": "OSError: gone"},
    ]
    records.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = seen(records, 10.0, 5.0)
    assert (found.first_tokens, found.errors) == (2, 1)
    assert found.ttft_mean == pytest.approx(0.375)
    assert found.itl_mean == pytest.approx((1.0 + 0.2 + 0.1) / 3)


def test_an_empty_window_has_no_means(tmp_path):
    records = tmp_path / "requests.jsonl"
    records.write_text("")
    assert seen(records, 0.0, 5.0) == Seen(0, 0, None, None)


def test_the_truth_is_told_in_words_too():
    faults = chosen("capacity")
    told = truth(faults, scene_of(faults, 1), 1, contract(*SCHEDULER), Seen(10, 0, 0.2, 0.01))
    text = "\n".join(lines(told, contract(*SCHEDULER)))
    assert "capacity / preemption, NOT named" in text
    assert "--seed 1" in text
    assert "clients 200.0 ms, ledger 100.0 ms" in text


def told_of(fault, answer):
    faults = chosen(fault)
    return "\n".join(lines(truth(faults, scene_of(faults, 1), 1, answer, Seen(10, 0, 0.2, 0.01)), answer))


def test_a_machine_that_others_use_is_said_to_be_one():
    crowded = told_of("capacity", contract("host", "contended", [PREEMPTION]))
    assert "capacity / preemption, NOT named first, but among the likely causes" in crowded
    assert "run it again on an idle machine" in crowded
    assert "idle machine" not in told_of("capacity", contract(*PREEMPTION, [("host", "contended")]))
