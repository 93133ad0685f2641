"""Which likely cause is named: the costliest of its metric, and what stands in for what."""

from __future__ import annotations

import pytest
from loads import case
from verdicts import judged, likely

from kvdoctor import naming as j
from kvdoctor.model import Bound, Finding, Metric, State, Verdict

LIKELY, POSSIBLE, RULED_OUT = Verdict.LIKELY, Verdict.POSSIBLE, Verdict.RULED_OUT


UNHEALTHY = {"ttft_mean": 1.0, "queue_mean": 0.5, "prefill_mean": 0.4, "e2e_mean": 1.5}


@pytest.mark.parametrize(
    ("seconds", "named"),
    [(j.NAMED - 0.001, False), (j.NAMED, True)],
    ids=["explains under 15% of TTFT", "explains 15% of TTFT"],
)
def test_a_cause_is_named_when_it_explains_enough_of_its_metric(seconds, named):
    cause = likely(Bound.QUEUEING, "admission_limit", Metric.TTFT, seconds)
    found = judged((cause,), **UNHEALTHY)
    assert found.state is (State.BOUND if named else State.INSUFFICIENT)
    assert found.finding is (cause if named else None)


def test_the_costliest_likely_cause_is_named():
    small = likely(Bound.COMPUTE, "prefill", Metric.TTFT, 0.3)
    large = likely(Bound.QUEUEING, "admission_limit", Metric.TTFT, 0.5)
    assert judged((small, large), **UNHEALTHY).finding is large


@pytest.mark.parametrize("verdict", [POSSIBLE, RULED_OUT, Verdict.NO_DATA])
def test_a_cause_that_is_not_likely_is_never_named(verdict):
    cause = Finding(Bound.QUEUEING, verdict, "arrivals", "", Metric.TTFT, 0.9)
    assert judged((cause,), **UNHEALTHY).state is State.INSUFFICIENT


@pytest.mark.parametrize(
    ("lost", "named"),
    [
        pytest.param(j.ROOT * 0.4 - 0.001, "prefill", id="explains under half of the prefill"),
        pytest.param(j.ROOT * 0.4, "fell", id="explains half of the prefill"),
    ],
)
def test_a_lost_hit_stands_in_for_the_prefill_that_it_causes(lost, named):
    causes = (
        likely(Bound.COMPUTE, "prefill", Metric.TTFT, 0.4),
        likely(Bound.HIT_RATE, "fell", Metric.TTFT, lost),
    )
    assert judged(causes, **UNHEALTHY).finding.subclass == named


def test_evicted_prefixes_stand_in_for_prefill_too():
    causes = (
        likely(Bound.COMPUTE, "prefill", Metric.TTFT, 0.4),
        likely(Bound.CAPACITY, "prefix_eviction", Metric.TTFT, 0.3),
    )
    assert judged(causes, **UNHEALTHY).finding.subclass == "prefix_eviction"


def test_a_lost_hit_does_not_stand_in_for_queueing():
    causes = (
        likely(Bound.QUEUEING, "admission_limit", Metric.TTFT, 0.5),
        likely(Bound.HIT_RATE, "fell", Metric.TTFT, 0.4),
    )
    assert judged(causes, **UNHEALTHY).finding.subclass == "admission_limit"


def test_each_metric_has_a_bound_of_its_own():
    causes = (
        likely(Bound.QUEUEING, "admission_limit", Metric.TTFT, 0.5),
        likely(Bound.BANDWIDTH, "kv_reads", Metric.ITL, 0.1),
    )
    found = judged(causes, **UNHEALTHY)
    assert {metric: f.bound for metric, f in found.by_metric.items()} == {
        Metric.TTFT: Bound.QUEUEING,
        Metric.ITL: Bound.BANDWIDTH,
    }
    assert found.finding is causes[0]


def test_of_the_named_bound_capacity_the_costliest_subclass_answers():
    causes = (
        likely(Bound.CAPACITY, "admission", Metric.TTFT, 0.5),
        likely(Bound.CAPACITY, "preemption", Metric.ITL, 2.0),
    )
    assert judged(causes, **UNHEALTHY).finding.subclass == "preemption"


@pytest.mark.parametrize(
    ("stall", "named"),
    [(j.THRASH * 0.8 - 0.001, "admission"), (j.THRASH * 0.8, "preemption")],
    ids=["stall under a quarter of the queue", "a quarter"],
)
def test_preemption_is_named_though_those_that_wait_for_the_preempted_wait_longer(stall, named):
    causes = (
        likely(Bound.CAPACITY, "admission", Metric.TTFT, 0.8),
        likely(Bound.CAPACITY, "preemption", Metric.ITL, stall),
    )
    assert judged(causes, **UNHEALTHY).finding.subclass == named


@pytest.mark.parametrize(
    ("queue", "step", "follows"),
    [
        pytest.param(j.NAMED - 0.001, Bound.COMPUTE, False, id="too short a queue"),
        pytest.param(j.NAMED, Bound.COMPUTE, True, id="compute-bound step"),
        pytest.param(j.NAMED, Bound.BANDWIDTH, True, id="bandwidth-bound step"),
        pytest.param(j.NAMED, Bound.HOST, False, id="another step"),
    ],
)
def test_a_queue_before_a_full_step_is_its_symptom(queue, step, follows):
    causes = (
        likely(step, "interference", Metric.ITL, 0.1),
        Finding(Bound.QUEUEING, POSSIBLE, "admission_limit", "", Metric.TTFT, queue),
    )
    found = judged(causes, **UNHEALTHY)
    assert (found.by_metric[Metric.TTFT] is causes[0]) is follows
    assert (j.symptom(case(**UNHEALTHY), causes[0], causes) is causes[1]) is follows


GAPS = {0.01: 3000.0, 0.5: 800.0}


@pytest.mark.parametrize(
    ("prefill", "named"),
    [(0.5 * 30 / 200 + 0.001, "prefill"), (0.5 * 30 / 200 - 0.001, "interference")],
    ids=["prefill fills half of the time", "less than half"],
)
def test_interference_is_prefill_when_prefill_fills_the_time(prefill, named):
    causes = (
        likely(Bound.COMPUTE, "prefill", Metric.TTFT, 0.06),
        likely(Bound.COMPUTE, "interference", Metric.ITL, 1.2),
    )
    numbers = {"itl_buckets": GAPS, "itl_sum": 3000 * 0.008 + 800 * 0.3, "prefill_mean": prefill}
    assert judged(causes, "itl", **numbers).finding.subclass == named


def test_a_metric_without_a_cause_leaves_the_answer_to_the_other():
    cause = likely(Bound.QUEUEING, "admission_limit", Metric.TTFT, 0.5)
    found = judged((cause,), "itl", **UNHEALTHY)
    assert (found.finding, found.metric) == (cause, Metric.TTFT)
    assert found.by_metric[Metric.ITL] is State.HEALTHY


def test_a_metric_that_misses_its_objective_without_a_cause_cannot_be_told():
    found = judged((), itl_mean=0.06)
    assert found.by_metric == {Metric.TTFT: State.HEALTHY, Metric.ITL: State.INSUFFICIENT}
    assert found.state is State.INSUFFICIENT


@pytest.mark.parametrize(
    ("ttft", "state"),
    [
        pytest.param(1.0, State.BOUND, id="TTFT is met as well"),
        pytest.param(4.0, State.INSUFFICIENT, id="TTFT misses its objective for no reason that is seen"),
    ],
)
def test_a_metric_that_misses_its_objective_is_not_answered_for_by_one_that_is_fine(ttft, state):
    stall = likely(Bound.CAPACITY, "preemption", Metric.ITL, 1.0)
    buckets = {ttft * 1.1: 100.0}
    found = judged(
        (stall,), ttft_mean=ttft, ttft_buckets=buckets, queue_mean=0.9 * ttft, outputs=101, itl_mean=0.02
    )
    assert isinstance(found.by_metric[Metric.ITL], Finding)
    assert found.state is state


@pytest.mark.parametrize(
    ("numbers", "state"),
    [
        pytest.param({}, State.INSUFFICIENT, id="ITL is even, TTFT is a wait that nothing explains"),
        pytest.param({"itl_mean": 0.06}, State.BOUND, id="ITL misses its objective"),
        pytest.param({"itl_buckets": {0.025: 9700.0, 0.15: 300.0}}, State.BOUND, id="ITL has a tail"),
    ],
)
def test_what_paces_an_even_itl_does_not_answer_for_a_wait_before_the_first_token(numbers, state):
    reads = likely(Bound.BANDWIDTH, "weights", Metric.ITL, 1.0)
    loads = {
        "ttft_mean": 0.5,
        "queue_mean": 0.4,
        "outputs": 101,
        "itl_mean": 0.02,
        "step_tokens": 100,
        **numbers,
    }
    assert judged((reads,), **loads).state is state


def test_a_queue_at_one_rank_alone_is_put_down_to_the_router():
    limit = likely(Bound.QUEUEING, "admission_limit", Metric.TTFT, 1.0)
    for share, bound in ((0.9, Bound.EXTERNAL), (0.2, Bound.QUEUEING)):
        router = likely(Bound.EXTERNAL, "router", Metric.TTFT, share)
        found = judged((limit, router), ttft_mean=4.0, ttft_buckets={5.0: 200.0}, queue_mean=3.0, waiting=20)
        assert found.finding is not None
        assert found.finding.bound is bound
