"""How long requests wait to be scheduled, and for their KV: the histogram where its cohort fits, else Little's law."""

from __future__ import annotations

import pytest
from ledgers import EARLY, basis, ttft
from loads import Page, case, endpoint

from kvdoctor.model import Basis
from kvdoctor.queue_wait import kv_wait, queue_wait
from kvdoctor.traffic import COHORT_REQUESTS


@pytest.mark.parametrize(
    ("finished", "e2e", "seconds"),
    [
        pytest.param(COHORT_REQUESTS - 1, 1.2, 3.0, id="too few finished: Little"),
        pytest.param(COHORT_REQUESTS, 1.2, 0.5, id="enough finished: histogram"),
        pytest.param(COHORT_REQUESTS, 14.99, 0.5, id="e2e under half the window: histogram"),
        pytest.param(COHORT_REQUESTS, 15.0, 3.0, id="e2e half the window: Little"),
    ],
)
def test_the_queue_comes_from_its_histogram_only_where_the_cohort_fits(finished, e2e, seconds):
    found = ttft(ttft_mean=4.0, queue_mean=0.5, prefill_mean=3.3, waiting=20, finished=finished, e2e_mean=e2e)
    assert found.part("queue") == pytest.approx(seconds)
    assert basis(found, "queue") is Basis.MEASURED


# Little: 20 waiting x 30 s / 200 first tokens = 3 s. Requests of 4 s are not short against 30 s.
GROWING = {"ttft_mean": 4.0, "queue_mean": 1.0, "waiting": 20, "e2e_mean": 4.0}


@pytest.mark.parametrize(
    ("numbers", "queue", "basis_"),
    [
        pytest.param({"prefill_mean": 2.7}, 1.0, Basis.MEASURED, id="under a tenth of TTFT left over"),
        pytest.param({"prefill_mean": 2.5}, 1.5, Basis.RESIDUAL, id="more than that: what prefill leaves"),
        pytest.param({"prefill_mean": 0.1}, 3.0, Basis.RESIDUAL, id="never over Little's figure"),
        pytest.param({"prefill_mean": 0.1, "e2e_mean": 2.9}, 1.0, Basis.MEASURED, id="short requests"),
        pytest.param({"prefill_mean": 0.1, "waiting": 5}, 1.0, Basis.MEASURED, id="nobody more waits now"),
    ],
)
def test_a_queue_histogram_of_earlier_requests_gives_way_to_what_prefill_leaves(numbers, queue, basis_):
    found = ttft(**{**GROWING, **numbers})
    assert found.part("queue") == pytest.approx(queue)
    assert basis(found, "queue") is basis_


@pytest.mark.parametrize(
    ("numbers", "queue", "basis_"),
    [
        pytest.param({"prefill_mean": 3.0}, 1.0, Basis.RESIDUAL, id="what prefill leaves"),
        pytest.param({"prefill_mean": 0.1}, 3.0, Basis.RESIDUAL, id="never over Little's figure"),
        pytest.param({"prefill_mean": 5.0}, 0.0, Basis.RESIDUAL, id="prefill leaves nothing"),
        pytest.param({"finished": 0, "before": 0.0}, 3.0, Basis.UPPER_BOUND, id="nothing ever finished"),
    ],
)
def test_with_preemptions_littles_law_only_bounds_the_queue(numbers, queue, basis_):
    # The preempted wait again, so those that wait are not all waiting for the first time.
    seen = case(**{**EARLY, **numbers}, preemptions=3).traffic
    found = queue_wait(seen)
    assert (found.seconds, found.basis) == (pytest.approx(queue), basis_)


# -- the wait for KV (rule 14) -----------------------------------------------------------------------------


def nixl(page: Page, seconds: float, number: float) -> Page:
    return page.histogram("vllm:nixl_xfer_time_seconds", {5.0: number}, seconds * number)


def test_the_wait_for_kv_is_nested_in_the_queue():
    found = ttft(ttft_mean=4.0, queue_mean=3.0, waiting=20, deferred=10, external_hits=1000)
    (part,) = (p for p in found.parts if p.name == "kv_wait")
    assert (part.parent, part.seconds) == ("queue", pytest.approx(1.5))
    assert part not in found.top()


def test_the_wait_for_kv_is_never_longer_than_the_queue():
    assert (
        ttft(ttft_mean=4.0, queue_mean=1.0, waiting=20, deferred=20, external_hits=1000).part("kv_wait")
        == 1.0
    )


@pytest.mark.parametrize(
    ("number", "seconds"),
    [
        pytest.param(200, 0.5, id="one transfer a request"),
        pytest.param(800, 0.5, id="four ranks side by side"),
        pytest.param(20, 0.05, id="one request in ten"),
    ],
)
def test_transfers_of_a_request_run_side_by_side(number, seconds):
    told = nixl(endpoint(ttft_mean=4.0, queue_mean=3.0), 0.5, number)
    assert ttft(told).part("kv_wait") == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("external", "waiting", "seconds"),
    [
        pytest.param(0.91, 0, 0.5, id="from elsewhere, and nobody waits otherwise"),
        pytest.param(0.89, 0, 0.05, id="a tenth is computed here"),
        pytest.param(0.91, 1, 0.05, id="somebody waits for another reason"),
    ],
)
def test_a_queue_without_another_reason_is_the_wait_for_kv_that_comes_from_elsewhere(
    external, waiting, seconds
):
    prompts = 200 * 500
    numbers = {
        "external": external * prompts,
        "external_hits": external * prompts,
        "hits": 0,
        "waiting": waiting,
    }
    seen = case(ttft_mean=0.6, queue_mean=0.5, prefill_mean=0.05, **numbers).traffic
    assert kv_wait(seen, 0.5, 0.05).seconds == pytest.approx(seconds)


def test_deferred_requests_wait_for_no_kv_where_none_comes_from_outside():
    assert ttft(ttft_mean=4.0, queue_mean=3.0, waiting=20, deferred=10).part("kv_wait") == 0
