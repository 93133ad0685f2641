"""Engines of several models on one page are judged each by its own series."""

from __future__ import annotations

from dataclasses import replace

import pytest
from loads import Page, endpoint, process, write_rank
from readings import judged

from kvdoctor.engines.dynamo import FRONTEND
from kvdoctor.model import State
from kvdoctor.models import several
from kvdoctor.recording import Column, Source

QUEUED = {
    "ttft_mean": 3.0,
    "queue_mean": 2.8,
    "prefill_mean": 0.1,
    "e2e_mean": 2.9,
    "waiting": 18.7,
    "running": 4,
}


def two(first: dict[str, object], second: dict[str, object], names: tuple[str, str] = ("a", "b")) -> Page:
    page = Page()
    for name, numbers in zip(names, (first, second), strict=True):
        page.labels = {"model_name": name, "engine": "0"}
        write_rank(page, **numbers)
    return process(page)


def test_the_one_that_queues_is_answered_for_and_the_other_named_beside_it():
    found = judged(two({}, QUEUED))
    assert (found.primary_name, found.subclass) == ("queueing", "admission_limit")
    assert [target.model for target in found.targets] == ["b", "a"]
    assert found.window.requests == 200
    assert "vllm at http://host-0:8000 for a, beside b on one page: healthy" in found.notes


def test_nothing_of_one_lies_in_the_ledger_of_the_other():
    alone, beside = judged(endpoint(**QUEUED)), judged(two({"itl_mean": 0.2}, QUEUED))
    assert {name: ledger.parts for name, ledger in beside.ledgers.items()} == {
        name: ledger.parts for name, ledger in alone.ledgers.items()
    }


@pytest.mark.parametrize(
    ("page", "targets"),
    [
        pytest.param(two({}, {}, ("a", "A")), 2, id="two names of an engine that keeps their case"),
        pytest.param(two({}, {}, ("a", "undefined")), 1, id="a label without a name"),
        pytest.param(endpoint(ranks=({}, {})), 1, id="two ranks of one"),
        pytest.param(two({}, {}), 2, id="two"),
    ],
)
def test_only_names_that_differ_make_two_engines(page, targets):
    found = judged(page)
    assert (len(found.targets), found.state) == (targets, State.HEALTHY)


def test_names_that_differ_in_case_alone_are_two_where_the_engine_keeps_it():
    found = judged(two({}, QUEUED, ("llama", "Llama")))
    assert [target.model for target in found.targets] == ["Llama", "llama"]
    assert found.window.requests == 200


def test_an_engine_that_writes_one_name_in_two_spellings_has_one_model():
    both = tuple(
        Column(name, (("model", model),), "counter")
        for name, model in (
            ("dynamo_frontend_requests_total", "Qwen/Q"),
            ("dynamo_frontend_queued", "qwen/q"),
        )
    )
    assert not several(Source("s", "page", columns=list(both)), FRONTEND)
    kept = replace(FRONTEND, folds_case=False)
    assert several(Source("s", "page", columns=list(both)), kept)


def test_a_model_that_idles_leaves_the_other_its_answer():
    idle = {"first_tokens": 0, "finished": 0, "running": 0}
    assert judged(two(idle, {})).state is State.HEALTHY
