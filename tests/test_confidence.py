"""How sure an answer is: each stated fact with the highest level that it allows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from loads import case

from kvdoctor import confidence as c
from kvdoctor.case import COST, OF_TTFT
from kvdoctor.judge import Judgement
from kvdoctor.model import Bound, Confidence, Finding, Gap, Metric, State, Verdict

LOW, MEDIUM, HIGH = Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH

# 97% of TTFT is measured, 49% of a request is queue, and Little's law agrees with the histogram.
SURE = {"ttft_mean": 1.0, "queue_mean": 0.6, "prefill_mean": 0.398, "e2e_mean": 1.2, "waiting": 4}
QUEUE = Finding(Bound.CAPACITY, Verdict.LIKELY, "admission", "because.", Metric.TTFT, 0.6, 0.6)


def judgement(
    finding: Finding | None = QUEUE,
    state: State = State.BOUND,
    metric: Metric = Metric.TTFT,
    others: Sequence[Finding] = (),
) -> Judgement:
    found = (finding,) if finding else ()
    return Judgement(state, metric, finding, {}, (), (*found, *others))


def level(
    answer: Judgement | None = None, restarts: int = 0, **numbers: object
) -> tuple[Confidence, tuple[str, ...]]:
    return c.confidence(case(**{**SURE, **numbers}), answer or judgement(), restarts)


def test_an_answer_with_nothing_against_it_is_sure():
    sure, reasons = level()
    assert sure is HIGH
    assert reasons == (
        "200 requests in the window",
        "99% of the TTFT ledger is measured",
        "queue histogram (600 ms) and Little's law (600 ms) agree",
        "the cause explains 52% of a request",
    )


@pytest.mark.parametrize(
    ("requests", "expected"),
    [(c.FEW - 1, LOW), (c.FEW, MEDIUM), (c.MANY - 1, MEDIUM), (c.MANY, HIGH)],
)
def test_requests_in_the_window(requests, expected):
    numbers = {"first_tokens": requests, "finished": requests, "waiting": 0.6 * requests / 30}
    e2e = {"e2e_mean": 1.2 if requests >= c.FEW else 0.6}
    found, reasons = level(**numbers, **e2e, ttft_buckets={1.0: requests})
    assert found is expected
    assert reasons[0] == f"{requests} requests in the window"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(c.SHORT_SECONDS - 0.1, LOW), (c.SHORT_SECONDS, HIGH)],
    ids=["short", "long enough"],
)
def test_length_of_the_window(seconds, expected):
    assert level(seconds=seconds, e2e_mean=0.9, waiting=0.6 * 200 / seconds)[0] is expected


@pytest.mark.parametrize(
    ("prefill", "expected"),
    [(c.MEASURED_MOST - 0.6 + 0.007, MEDIUM), (c.MEASURED_MOST - 0.6 + 0.009, HIGH)],
    ids=["under 80% measured", "over 80% measured"],
)
def test_measured_share_of_the_ledger(prefill, expected):
    # 8 ms of the prefill histogram are the first step, which is modelled.
    assert level(prefill_mean=prefill)[0] is expected


@pytest.mark.parametrize(
    ("waiting", "expected", "verb"),
    [
        pytest.param(4 * c.AGREE - 0.01, HIGH, "agree", id="a quarter apart"),
        pytest.param(4 * c.AGREE + 0.01, MEDIUM, "disagree", id="more than a quarter apart"),
        pytest.param(4 / c.AGREE + 0.01, HIGH, "agree", id="a quarter apart, the other way"),
        pytest.param(4 / c.AGREE - 0.01, MEDIUM, "disagree", id="more than that"),
    ],
)
def test_two_figures_for_the_queue(waiting, expected, verb):
    found, reasons = level(waiting=waiting)
    assert found is expected
    assert any(reason.endswith(verb) for reason in reasons)


@pytest.mark.parametrize(
    ("little", "compared"),
    [(c.COMPARABLE - 0.001, False), (c.COMPARABLE + 0.001, True)],
    ids=["under 50 ms", "over 50 ms"],
)
def test_short_queues_are_not_compared(little, compared):
    _, reasons = level(queue_mean=0.001, waiting=little * 200 / 30)
    assert any("Little's law" in reason for reason in reasons) is compared


def test_with_preemptions_littles_law_is_no_second_witness():
    assert not any("Little's law" in reason for reason in level(preemptions=3)[1])


@pytest.mark.parametrize(("restarts", "expected"), [(0, HIGH), (1, MEDIUM)])
def test_restarts(restarts, expected):
    assert level(restarts=restarts)[0] is expected


# A request of that load takes 1.152 s.
@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(c.CLEAR * COST * 1.152 - 1e-3, LOW, id="near the share at which it is named"),
        pytest.param(c.CLEAR * COST * 1.152 + 1e-3, HIGH, id="clear of it"),
    ],
)
def test_distance_to_the_threshold(seconds, expected):
    cause = Finding(Bound.CAPACITY, Verdict.LIKELY, "admission", "", Metric.TTFT, seconds)
    assert level(judgement(cause))[0] is expected


@pytest.mark.parametrize(
    ("seconds", "metric", "expected"),
    [
        pytest.param(
            c.CLEAR * OF_TTFT + 0.01, Metric.TTFT, HIGH, id="most of TTFT, little of a long request"
        ),
        pytest.param(c.CLEAR * OF_TTFT - 0.01, Metric.TTFT, LOW, id="less of TTFT"),
        pytest.param(c.CLEAR * OF_TTFT + 0.01, Metric.ITL, LOW, id="not of TTFT"),
    ],
)
def test_distance_to_the_threshold_of_ttft(seconds, metric, expected):
    cause = Finding(Bound.CAPACITY, Verdict.LIKELY, "admission", "", metric, seconds)
    assert level(judgement(cause), outputs=1300, e2e_mean=2.9)[0] is expected


def test_what_the_cause_itself_leaves_open():
    gap = Gap("link", "the rate of the link is unknown", "tell it")
    for subclass, expected in (("used_badly", MEDIUM), ("prefix_eviction", LOW)):
        cause = Finding(Bound.NETWORK, Verdict.LIKELY, subclass, "", Metric.TTFT, 0.6, gaps=(gap,))
        found, reasons = level(judgement(cause))
        assert found is expected
        assert gap.reason in reasons


@pytest.mark.parametrize(
    ("seconds", "verdict", "expected"),
    [(0.1, Verdict.POSSIBLE, MEDIUM), (0.0, Verdict.POSSIBLE, HIGH), (0.1, Verdict.RULED_OUT, HIGH)],
    ids=["a rival", "one that costs nothing", "ruled out"],
)
def test_a_hit_rate_that_may_be_behind_prefill(seconds, verdict, expected):
    cause = Finding(Bound.COMPUTE, Verdict.LIKELY, "prefill", "", Metric.TTFT, 0.6)
    rival = Finding(Bound.HIT_RATE, verdict, "prefix_mismatch", "", Metric.TTFT, seconds)
    assert level(judgement(cause, others=[rival]))[0] is expected


def test_without_a_model_a_queueing_verdict_is_at_most_medium():
    cause = Finding(Bound.QUEUEING, Verdict.LIKELY, "admission_limit", "", Metric.TTFT, 0.6)
    assert level(judgement(cause))[0] is MEDIUM


# -- states ------------------------------------------------------------------------------------------------


def test_healthy_without_a_ceiling_is_at_most_medium():
    found, reasons = level(judgement(None, State.HEALTHY))
    assert found is MEDIUM
    assert "bandwidth not judged: model or card unknown" in reasons


def test_healthy_with_a_ceiling_may_be_sure():
    assert level(judgement(None, State.HEALTHY), facts={"bandwidth": "3350"})[0] is HIGH


@pytest.mark.parametrize(
    ("objective", "expected"),
    [("0.9", MEDIUM), ("1.0", HIGH)],
    ids=["inside the bucket of p95", "at its end"],
)
def test_an_objective_inside_the_bucket_of_p95_leaves_health_open(objective, expected):
    facts = {"bandwidth": "3350", "slo_ttft": objective}
    assert level(judgement(None, State.HEALTHY), facts=facts)[0] is expected
    assert level(facts=facts)[0] is HIGH


def test_what_cannot_be_told_is_a_hint():
    assert level(judgement(None, State.INSUFFICIENT))[0] is LOW


def test_one_reading_is_a_hint():
    found, reasons = level(readings=1, seconds=0)
    assert found is LOW
    assert "one reading" in reasons[0]


QUIET = {"first_tokens": 0, "finished": 0, "step_tokens": None}


@pytest.mark.parametrize(
    ("seconds", "expected"), [(c.SHORT_SECONDS - 0.1, MEDIUM), (c.SHORT_SECONDS, HIGH)], ids=["short", "long"]
)
def test_idle_is_sure_after_a_while(seconds, expected):
    idle = judgement(None, State.IDLE)
    assert level(idle, **QUIET, seconds=seconds, running=0, waiting=0)[0] is expected


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        pytest.param({}, LOW, id="gauges and counters stand still"),
        pytest.param({"waiting": [4.0] * 30 + [5.0]}, HIGH, id="a gauge moved"),
        pytest.param({"queries": 500}, HIGH, id="a counter moved"),
    ],
)
def test_a_stall_that_only_standing_gauges_show_is_a_hint(numbers, expected):
    stalled = judgement(None, State.STALLED)
    assert level(stalled, **{**QUIET, **numbers})[0] is expected


@pytest.mark.parametrize(("source", "expected"), [("prompts", MEDIUM), ("load", LOW)])
def test_a_fall_under_another_load_is_a_hint(source, expected):
    gap = Gap(source, "counters cannot tell", "")
    lost = Finding(Bound.HIT_RATE, Verdict.LIKELY, "fell", "because.", Metric.TTFT, 0.6, 0.6, (), (gap,))
    assert level(judgement(lost))[0] is expected
