"""The sentences of a report."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hosts import view
from loads import case

from kvdoctor import story
from kvdoctor.case import Case
from kvdoctor.confidence import confidence
from kvdoctor.judge import Judgement, judge
from kvdoctor.model import FAMILY, Bound, Confidence, Finding, Gap, Metric, Part, State, Verdict

GAP = Gap("link", "its rate is unknown", "give --link")
OTHER = Gap("prompts", "not seen", "compare prompts")
QUEUE = Finding(Bound.QUEUEING, Verdict.LIKELY, "admission_limit", "Requests wait.", Metric.TTFT, 0.5)
PREEMPTION = Finding(Bound.CAPACITY, Verdict.LIKELY, "preemption", "The pool runs full.", Metric.ITL, 0.5)
OFFLOAD = Finding(Bound.OFFLOAD, Verdict.LIKELY, "slow_tier", "Loads are slow.", Metric.TTFT, 0.5)


def judgement(
    state: State = State.BOUND,
    finding: Finding | None = None,
    findings: tuple[Finding, ...] = (),
    unhealthy: tuple[str, ...] = (),
    **by_metric: Finding | State,
) -> Judgement:
    named = {Metric(name): value for name, value in by_metric.items()}
    return Judgement(state, Metric.TTFT, finding, named, unhealthy, findings)


def said(answer: Judgement, of: Case | None = None) -> str:
    return story.summary(of or case(), answer, Confidence.MEDIUM)


# -- the summary -------------------------------------------------------------------------------------------


def test_a_bound_is_named_with_its_share_and_the_confidence():
    # 0.126 s of 0.252 s.
    finding = Finding(Bound.QUEUEING, Verdict.LIKELY, "admission_limit", "Requests wait.", Metric.TTFT, 0.126)
    assert said(judgement(finding=finding)) == (
        "Bound by queueing (admission_limit): Requests wait. "
        "It explains 50% of a request's time (medium confidence)."
    )


@pytest.mark.parametrize(
    ("finding", "family"), [(OFFLOAD, True), (PREEMPTION, False), (QUEUE, False)], ids=lambda x: str(x)[:20]
)
def test_the_family_is_named_where_it_is_another_word(finding, family):
    text = said(judgement(finding=finding))
    assert (f"family {FAMILY[finding.bound]}" in text) is family


@pytest.mark.parametrize(
    ("state", "start"),
    [(State.IDLE, "Idle:"), (State.STALLED, "Stalled:"), (State.HEALTHY, "Healthy:"),
     (State.INSUFFICIENT, "I can't tell:")],
)  # fmt: skip
def test_a_state_begins_the_sentence(state, start):
    assert said(judgement(state)).startswith(start)


@pytest.mark.parametrize(
    ("facts", "open_"), [({}, True), ({"bandwidth": "3350"}, False)], ids=["none", "told"]
)
def test_health_without_a_ceiling_says_that_bandwidth_was_not_judged(facts, open_):
    assert ("Bandwidth was not judged" in said(judgement(State.HEALTHY), case(facts=facts))) is open_


def test_what_cannot_be_told_says_what_speaks_against_health():
    assert "ITL has a tail" in said(judgement(State.INSUFFICIENT, unhealthy=("ITL has a tail",)))


def test_one_reading_names_nothing():
    assert said(judgement(State.INSUFFICIENT), case(readings=1, seconds=0)).startswith("One reading only")


# -- one sentence a metric ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "end"),
    [
        (QUEUE, "queueing (admission_limit) costs it most."),
        (State.HEALTHY, "the objective is met."),
        (State.INSUFFICIENT, "no cause explains enough of it to be named."),
    ],
    ids=["a bound", "healthy", "unnamed"],
)
def test_a_metric_has_its_mean_its_largest_part_and_its_bound(named, end):
    answer = judgement(ttft=named)
    text = story.metric_sentence(case(ttft_mean=0.2, queue_mean=0.14), answer, Metric.TTFT)
    assert text.startswith("TTFT 200 ms in the mean: 70% is the queue; ")
    assert text.endswith(end)


def test_a_metric_that_was_not_observed_says_so():
    assert (
        story.metric_sentence(case(first_tokens=0), judgement(), Metric.ITL) == "ITL: nothing was observed."
    )


def test_a_step_that_is_not_split_is_not_called_unexplained():
    text = story.metric_sentence(case(), judgement(itl=State.HEALTHY), Metric.ITL)
    assert story.STEADY in text


def test_every_part_of_a_ledger_has_a_name_for_people():
    found = case(ttft_mean=2.0, queue_mean=1.0, prefill_mean=0.5, waiting=9, deferred=3, preemptions=2)
    for ledger in (found.ttft, found.itl):
        assert all(isinstance(p, Part) and story.part_name(p, ledger) != "" for p in ledger.parts)
        assert all(p.name in story.PART_NAMES for p in ledger.parts)


# -- the next measurement ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "numbers", "word"),
    [
        pytest.param(judgement(State.IDLE), {}, "usual load", id="idle"),
        pytest.param(judgement(State.STALLED), {}, "stacks", id="stalled"),
        pytest.param(
            judgement(State.INSUFFICIENT), {"readings": 1, "seconds": 0}, "second reading", id="one reading"
        ),
        pytest.param(
            judgement(State.INSUFFICIENT),
            {"first_tokens": 0, "finished": 0},
            "--seconds",
            id="nothing served",
        ),
        pytest.param(judgement(State.HEALTHY), {}, "--model", id="no ceiling"),
    ],
)
def test_what_to_measure_next(answer, numbers, word):
    assert word in story.next_measurement(case(**numbers), answer)


def named(seconds: float) -> Finding:
    return Finding(Bound.NETWORK, Verdict.LIKELY, "used_badly", "", Metric.TTFT, seconds, gaps=(GAP,))


def possible(seconds: float) -> Finding:
    return Finding(
        Bound.HIT_RATE, Verdict.POSSIBLE, "prefix_mismatch", "", Metric.TTFT, seconds, gaps=(OTHER,)
    )


def test_the_gap_of_the_named_cause_comes_first():
    answer = judgement(finding=named(1.0), findings=(named(1.0), possible(1.0)))
    assert story.next_measurement(case(), answer) == "network: give --link."


@pytest.mark.parametrize(
    ("seconds", "asked"),
    [(story.OPEN - 0.01, False), (story.OPEN + 0.01, True)],
    ids=["costs under a quarter of it", "costs over a quarter"],
)
def test_a_possible_cause_is_worth_a_measurement_when_it_may_cost_as_much(seconds, asked):
    answer = judgement(finding=QUEUE, findings=(QUEUE, possible(seconds * 0.5)))
    assert ("compare prompts" in story.next_measurement(case(), answer)) is asked


def test_with_nothing_open_the_change_comes_next():
    known = {"gpu": "H100 SXM", "model_config": LLAMA}
    assert "diff" in story.next_measurement(case(facts=known), judgement(finding=QUEUE, findings=(QUEUE,)))


LLAMA = """{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
"model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
"torch_dtype": "bfloat16", "vocab_size": 128256}"""


@pytest.mark.parametrize(
    ("pairs", "state"),
    [
        pytest.param(((7, "engine_core"),), State.STALLED, id="the core"),
        pytest.param(((9, "loader"),), State.HEALTHY, id="a helper that nobody waits for"),
        pytest.param((), State.HEALTHY, id="nobody"),
    ],
)
def test_an_engine_whose_core_died_is_not_healthy(pairs, state):
    seen = replace(case(), host=view(ended=pairs))
    found = judge(seen, ())
    assert found.state is state
    if state is State.STALLED:
        assert story.summary(seen, found, Confidence.HIGH).startswith(
            "Stalled: engine_core 7 ended while we watched"
        )
        assert confidence(seen, found, 0)[0] is Confidence.HIGH
        assert "dmesg" in story.next_measurement(seen, found)
