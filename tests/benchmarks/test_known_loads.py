"""Recordings of a real engine under known load: the answer, and the milliseconds against the client's own.

`truth.json` holds what the load generator saw in each recording's window: means in seconds over the requests
whose first token fell in it, and the queue time that the engine told the client request by request.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.truth import Truth, compare_with
from kvdoctor.diagnose import diagnose
from kvdoctor.readers import read
from kvdoctor.render import json as as_json

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"
KNOWN = json.loads((RECORDINGS / "truth.json").read_text(encoding="utf-8"))


def truth_of(known):
    return Truth(
        start=known["start"],
        seconds=known["seconds"],
        first_tokens=known["first_tokens"],
        gaps=known["gaps"],
        errors=0,
        ttft={"mean": known["ttft_mean"]},
        itl={"mean": known["itl_mean"]},
        waiting_for_first=0.0,
        queue=known["queue_mean"],
        prefill=None,
    )


@pytest.fixture(scope="module", params=sorted(KNOWN), ids=lambda name: name.removeprefix("../../../"))
def run(request):
    """The diagnosis of one recording, as machines get it, and what is known of it."""
    answer = json.loads(as_json.render(diagnose(read([str(RECORDINGS / request.param)]))))
    return answer, KNOWN[request.param]


def test_the_bound_is_named(run):
    answer, known = run
    assert (answer["primary"], answer["subclass"]) == (known["primary"], known["subclass"])


def test_the_window_is_the_one_that_the_client_was_asked_about(run):
    answer, known = run
    assert (answer["window"]["start"], answer["window"]["seconds"]) == (known["start"], known["seconds"])


def test_the_ledger_agrees_with_the_client(run):
    answer, known = run
    checks = compare_with(answer, truth_of(known))
    assert [found.name for found in checks] == [
        "ttft mean",
        "ttft parts sum",
        "queue mean",
        "itl mean",
        "itl parts sum",
    ]
    assert [found for found in checks if found.ok is not True] == []


def test_as_many_first_tokens_are_counted_as_the_client_got(run):
    answer, known = run
    # a request or two lie between the scrape's own moment and the client's
    assert abs(answer["window"]["requests"] - known["first_tokens"]) <= 2
