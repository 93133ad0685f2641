"""Whether a service is well: just under and just over each line of the healthy rule."""

from __future__ import annotations

import math

import pytest
from loads import case, endpoint, load
from otherpages import Served, sglang, tgi, trt
from readings import judged

from kvdoctor import health as h
from kvdoctor.diagnose import diagnose
from kvdoctor.histogram import Histogram
from kvdoctor.model import Bound, Finding, Metric, State, Verdict

INF = math.inf


def lost_hit(seconds: float, verdict: Verdict = Verdict.LIKELY) -> Finding:
    """A finding that so much of a request's prefill could be avoided."""
    return Finding(Bound.HIT_RATE, verdict, "fell", "because.", Metric.TTFT, seconds, seconds)


# A request is TTFT 0.1 s and 19 gaps of 8 ms: 0.252 s.
REQUEST = 0.1 + 19 * 0.008


@pytest.mark.parametrize(
    ("queue", "healthy"),
    [(h.WAITS * REQUEST - 1e-5, True), (h.WAITS * REQUEST + 1e-5, False)],
    ids=["under 5%", "over 5%"],
)
def test_waits_of_a_twentieth_of_a_request_are_not_healthy(queue, healthy):
    assert (h.unhealthy(case(queue_mean=queue), ()) == ()) is healthy


@pytest.mark.parametrize(
    ("lost", "healthy"),
    [
        pytest.param(0.0499, True, id="under 50 ms"),
        pytest.param(0.0501, False, id="over 50 ms and 10%"),
    ],
)
def test_avoidable_prefill_counts_from_fifty_milliseconds(lost, healthy):
    assert lost > h.AVOIDABLE * REQUEST
    assert (h.unhealthy(case(), (lost_hit(lost),)) == ()) is healthy


@pytest.mark.parametrize(
    ("share", "healthy"), [(h.AVOIDABLE - 0.001, True), (h.AVOIDABLE + 0.001, False)], ids=["9.9%", "10.1%"]
)
def test_avoidable_prefill_counts_from_a_tenth_of_a_request(share, healthy):
    long, lost = case(ttft_mean=1.0, outputs=100), share * (1.0 + 99 * 0.008)
    assert (h.unhealthy(long, (lost_hit(lost),)) == ()) is healthy


def test_avoidable_prefill_that_is_only_possible_does_not_count():
    assert h.unhealthy(case(), (lost_hit(0.2, Verdict.POSSIBLE),)) == ()


def itl(middle: float, high: float) -> Histogram:
    """97 gaps in the bucket up to `middle`, 3 in the one that begins at `high`."""
    return Histogram((middle, high, INF), (97.0, 0.0, 3.0), 1.0, 100.0)


@pytest.mark.parametrize(
    ("histogram", "tailed"),
    [
        pytest.param(itl(0.01, 0.03), True, id="p99 begins at three times the end of p50"),
        pytest.param(itl(0.01, 0.0299), False, id="just under"),
        pytest.param(Histogram((0.01, INF), (97.0, 3.0), 1.0, 100.0), False, id="may lie anywhere above"),
        pytest.param(Histogram((0.01, INF), (0.0, 0.0), 0.0, 0.0), False, id="nothing observed"),
        pytest.param(Histogram((0.01, INF), (3.0, 0.0), 1.0, 10.0), False, id="more counted than bucketed"),
        pytest.param(None, False, id="no histogram"),
    ],
)
def test_a_tail_is_only_what_lies_beyond_three_times_p50_wherever_in_the_buckets(histogram, tailed):
    assert h.tail(histogram) is tailed


@pytest.mark.parametrize(
    ("objective", "missed"), [("0.0991", False), ("0.0989", True)], ids=["just met", "just missed"]
)
def test_an_objective_is_missed_when_the_estimated_p95_is_over_it(objective, missed):
    assert pytest.approx(0.099) == 0.08 + 0.95 * 0.02
    found = case(facts={"slo_ttft": objective}, ttft_buckets={0.1: 200.0}, ttft_mean=0.09)
    assert (h.unhealthy(found, ()) != ()) is missed


def test_a_metric_without_observations_misses_nothing():
    assert Metric.ITL not in h.misses(case(outputs=1))


@pytest.mark.parametrize(
    ("bounds", "counts", "mean", "estimate"),
    [
        pytest.param(
            (10.0, INF), (100, 0), 0.02, 0.0599, id="one wide bucket holds the mean too: 3 x the mean"
        ),
        pytest.param((0.1, 0.5, INF), (50, 50, 0), 0.12, 0.3595, id="the bucket of p95 holds the mean"),
        pytest.param((0.1, 0.5, INF), (80, 20, 0), 0.05, 0.4, id="the mean lies below it: spread evenly"),
        pytest.param((0.02, 0.5, INF), (98, 2, 0), 0.019, 0.0194, id="a narrow one: spread evenly"),
    ],
)
def test_p95_in_a_wide_bucket_is_held_against_the_mean(bounds, counts, mean, estimate):
    histogram = Histogram(bounds, counts, mean * sum(counts), sum(counts))
    assert h._p95(histogram) == pytest.approx(estimate, abs=1e-4)


SINGLE = {"outputs": 1, "ttft_mean": 0.12, "prefill_mean": 0.06, "e2e_mean": 0.12}


@pytest.mark.parametrize(
    ("queue", "healthy"), [(0.049, True), (0.051, False)], ids=["nobody notices", "over 50 ms"]
)
def test_waits_of_requests_with_one_token_must_be_long_enough_to_be_noticed(queue, healthy):
    assert (h.unhealthy(case(**SINGLE, queue_mean=queue), ()) == ()) is healthy


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(endpoint(**SINGLE, queue_mean=0.04), id="vllm"),
        pytest.param(
            trt(Served(outputs=1, gap=0.0, ttft=0.12, queue=0.04, prefill=0.07, e2e=0.12)), id="trt"
        ),
        pytest.param(sglang(Served(outputs=1, ttft=0.12)), id="sglang"),
    ],
)
def test_a_service_of_single_tokens_is_judged_by_ttft_alone(page):
    found = judged(page)
    assert found.state is State.HEALTHY
    assert (
        found.sentences["itl"]
        == "ITL: there is none, as requests end with their first token; TTFT alone is judged."
    )


def test_a_service_of_single_tokens_that_is_late_has_its_cause():
    found = judged(endpoint(**{**SINGLE, "ttft_mean": 4.0, "prefill_mean": 3.9, "e2e_mean": 4.0}))
    assert (found.primary_name, found.subclass) == ("compute", "prefill")


@pytest.mark.parametrize(
    ("e2e", "state"),
    [
        pytest.param(1.1, State.HEALTHY, id="what the parts add up to"),
        pytest.param(2.5, State.HEALTHY, id="more, but less than TTFT may take"),
        pytest.param(4.5, State.INSUFFICIENT, id="seconds that no part holds"),
    ],
)
def test_a_ttft_put_together_is_held_against_the_requests_own_clock(e2e, state):
    found = judged(tgi(Served(e2e=e2e)))
    assert found.state is state
    assert ("by their own clock" in found.summary) is (state is State.INSUFFICIENT)


def test_where_ttft_is_told_the_rest_of_a_request_is_not_held_against_it():
    assert judged(endpoint(e2e_mean=9.0)).state is State.HEALTHY


@pytest.mark.parametrize(("took", "state"), [(4.9, State.HEALTHY), (5.1, State.INSUFFICIENT)])
def test_a_front_end_that_hangs_for_five_seconds_is_not_well(took, state):
    recording = load(running=4)
    recording.sources[0].took[7] = took
    assert diagnose(recording).state is state
