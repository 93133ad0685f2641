"""Where the milliseconds go: parts that sum to the whole, from the histograms where their cohort fits."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loads import Page, case, case_of, endpoint

from kvdoctor import ledger
from kvdoctor.histogram import Histogram
from kvdoctor.machine import Machine, machine
from kvdoctor.model import Basis, Ledger, Metric
from kvdoctor.queue_wait import kv_wait
from kvdoctor.traffic import COHORT_REQUESTS, Traffic

INF = math.inf
LLAMA_8B = """{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
"model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
"torch_dtype": "bfloat16", "vocab_size": 128256}"""
H100 = {"gpu": "H100 SXM", "model_config": LLAMA_8B}


def ttft(page: Page | None = None, **numbers: object) -> Ledger:
    found = (case_of(page) if page else case(**numbers)).ttft
    assert found is not None
    return found


def itl(**numbers: object) -> Ledger:
    found = case(**numbers).itl
    assert found is not None
    return found


def basis(found: Ledger, name: str) -> Basis:
    (part,) = (p for p in found.parts if p.name == name)
    return part.basis


# -- TTFT --------------------------------------------------------------------------------------------------


def test_ttft_is_split_into_queue_prefill_first_step_and_front_end():
    found = ttft(ttft_mean=1.0, queue_mean=0.5, prefill_mean=0.4, itl_mean=0.008, e2e_mean=1.2)
    assert found.metric is Metric.TTFT
    assert [(p.name, pytest.approx(p.seconds), p.basis.value) for p in found.top()] == [
        ("queue", 0.5, "measured"),
        ("prefill", 0.392, "measured"),
        ("first_step", 0.008, "modelled"),
        ("frontend", 0.1, "residual"),
    ]


def test_without_a_first_token_there_is_no_ttft():
    assert case(first_tokens=0, finished=0).ttft is None


def test_a_mean_of_nothing_is_no_latency():
    found = case(ttft_mean=0.0, itl_sum=0.0)
    assert (found.ttft, found.itl) == (None, None)


def test_without_a_gap_there_is_no_itl():
    assert case(outputs=1).itl is None


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


EARLY = {"ttft_mean": 4.0, "queue_mean": 0.5, "waiting": 20, "finished": 5}


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
    found = ledger.queue_wait(seen)
    assert (found.seconds, found.basis) == (pytest.approx(queue), basis_)


@pytest.mark.parametrize(
    ("numbers", "prefill", "basis_"),
    [
        pytest.param({"prefill_mean": 0.1}, 0.1, Basis.MODELLED, id="as of those that finished"),
        pytest.param({"prefill_mean": 9.0}, 1.0, Basis.MODELLED, id="no more than the queue leaves"),
        pytest.param({"finished": 0, "before": 0.0}, 1.0, Basis.RESIDUAL, id="nothing ever finished"),
    ],
)
def test_without_a_cohort_prefill_is_taken_as_of_requests_before(numbers, prefill, basis_):
    found = ttft(**{**EARLY, **numbers})
    assert found.part("prefill") == pytest.approx(prefill - 0.008)
    assert basis(found, "prefill") is basis_


@pytest.mark.parametrize(
    ("e2e", "preemptions", "name"),
    [
        pytest.param(2.99, 0, "frontend", id="short requests"),
        pytest.param(3.0, 0, "unexplained", id="e2e a tenth of the window"),
        pytest.param(2.99, 1, "unexplained", id="preempted"),
    ],
)
def test_the_rest_is_the_front_ends_only_where_the_cohorts_are_the_same(e2e, preemptions, name):
    found = ttft(ttft_mean=1.0, queue_mean=0.2, prefill_mean=0.3, e2e_mean=e2e, preemptions=preemptions)
    assert found.part(name) == pytest.approx(0.5)


def test_a_request_waits_for_the_step_under_way_inside_the_front_end():
    (part,) = (
        p for p in ttft(ttft_mean=0.1, prefill_mean=0.02, running=4).parts if p.name == "step_under_way"
    )
    assert (part.parent, part.seconds, part.basis) == ("frontend", pytest.approx(0.02), Basis.UPPER_BOUND)


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


def test_a_request_that_is_alone_meets_no_step_under_way():
    assert ttft(ttft_mean=0.1, prefill_mean=0.02, running=1, waiting=0).part("step_under_way") == 0


@pytest.mark.parametrize(
    ("computed", "share"),
    [(100_000, 1 - 16 * 200 / 100_000), (16 * 200, 0.0), (100, 0.0)],
    ids=["whole prompts", "one block each", "less than a block each"],
)
def test_a_block_of_each_prompt_is_computed_whatever_hits(computed, share):
    found = ttft(ttft_mean=1.0, prefill_mean=0.508, computed=computed)
    assert found.part("prefill_avoidable") == pytest.approx(0.5 * share)


# -- the wait for KV (rule 14) -----------------------------------------------------------------------------


def nixl(page: Page, seconds: float, number: float) -> Page:
    return page.histogram("vllm:nixl_xfer_time_seconds", {5.0: number}, seconds * number)


def test_the_wait_for_kv_is_nested_in_the_queue():
    found = ttft(ttft_mean=4.0, queue_mean=3.0, waiting=20, deferred=10)
    (part,) = (p for p in found.parts if p.name == "kv_wait")
    assert (part.parent, part.seconds) == ("queue", pytest.approx(1.5))
    assert part not in found.top()


def test_the_wait_for_kv_is_never_longer_than_the_queue():
    assert ttft(ttft_mean=4.0, queue_mean=1.0, waiting=20, deferred=20).part("kv_wait") == 1.0


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


def test_loads_inside_prefill_count_only_where_no_request_is_deferred():
    told = endpoint(ttft_mean=1.0, prefill_mean=0.5)
    told.counter("vllm:kv_offload_load_time_total", 40.0)
    assert ttft(told).part("kv_load") == 0.0
    told.columns = [c for c in told.columns if "by_reason" not in c.name]
    assert ttft(told).part("kv_load") == pytest.approx(0.2)


def test_loads_are_never_longer_than_the_prefill_that_holds_them():
    told = endpoint(ttft_mean=1.0, prefill_mean=0.1)
    told.counter("vllm:kv_offload_load_time_total", 400.0)
    told.columns = [c for c in told.columns if "by_reason" not in c.name]
    assert ttft(told).part("kv_load") == pytest.approx(0.1)


# -- ITL ---------------------------------------------------------------------------------------------------

TAIL = {0.01: 3000.0, 0.5: 800.0}
TAIL_SUM = 3000 * 0.008 + 800 * 0.3


def test_an_even_step_is_not_split_without_model_and_ceiling():
    found = itl(itl_mean=0.008)
    assert [(p.name, p.seconds) for p in found.parts] == [("unexplained", 0.008)]
    assert "not split" in found.parts[0].note


def test_the_tail_is_prefill_in_the_steps_as_far_as_prefill_seconds_go():
    found = itl(itl_buckets=TAIL, itl_sum=TAIL_SUM, prefill_mean=2.0)
    steady = case(itl_buckets=TAIL, itl_sum=TAIL_SUM).traffic.tail.typical
    assert found.part("prefill_in_step") == pytest.approx(TAIL_SUM / 3800 - steady)
    little = itl(itl_buckets=TAIL, itl_sum=TAIL_SUM, prefill_mean=0.01)
    batch = TAIL_SUM / 30
    assert little.part("prefill_in_step") == pytest.approx(200 * 0.01 * batch / 3800)


def test_a_tail_without_any_prompt_computed_is_not_prefill():
    assert itl(itl_buckets=TAIL, itl_sum=TAIL_SUM, computed=0).part("prefill_in_step") == 0.0


def test_in_full_steps_time_goes_with_tokens():
    found = itl(step_buckets=FULL_STEPS, computed=36_000, itl_mean=0.05)
    assert found.part("prefill_in_step") == pytest.approx(0.05 * 36_000 / 40_000)
    assert basis(found, "prefill_in_step") is Basis.MODELLED


FULL_STEPS = {512.0: 1000.0}


@pytest.mark.parametrize(
    ("excess", "basis_"),
    [(0.49, Basis.MODELLED), (0.51, Basis.MEASURED)],
    ids=["the tail shows under half of it", "the tail shows half of it"],
)
def test_a_tail_that_shows_the_prefill_is_believed_before_the_tokens_of_full_steps(excess, basis_):
    assert ledger.HIDDEN == 0.5
    gaps = {"itl_buckets": {0.05: 3600.0, 0.5: 200.0}, "itl_sum": 3600 * 0.04 + 200 * 0.3}
    seen = case(**gaps).traffic.tail.excess / gaps["itl_sum"]
    share = seen / excess
    numbers = {**gaps, "prefill_mean": 9.0, "computed": share / (1 - share) * 4000}
    found = itl(step_buckets=FULL_STEPS, **numbers)
    assert basis(found, "prefill_in_step") is basis_


# -- preemption stall (rule 6) -----------------------------------------------------------------------------

STALLED = {"itl_buckets": TAIL, "itl_sum": TAIL_SUM, "waiting": 5, "queue_mean": 0.1}


def test_without_preemptions_there_is_no_stall_however_many_wait():
    assert itl(**STALLED).part("preemption_stall") == 0.0


def test_the_stall_is_the_waiting_that_first_queue_times_leave_over():
    found = itl(**STALLED, preemptions=9)
    assert found.part("preemption_stall") == pytest.approx((5 * 30 - 0.1 * 200) / 4000)


def test_waiting_that_first_queue_times_explain_is_no_stall():
    assert itl(**{**STALLED, "queue_mean": 0.75}, preemptions=9).part("preemption_stall") == 0.0


def test_the_stall_is_never_more_than_the_tail_holds():
    found = itl(**{**STALLED, "waiting": 500}, preemptions=9)
    tail = case(**STALLED).traffic.tail
    assert found.part("preemption_stall") == pytest.approx(tail.excess / 3800)
    assert found.part("prefill_in_step") == 0.0


def test_requests_deferred_for_kv_are_not_stalled_ones():
    assert itl(**STALLED, preemptions=9, deferred=5).part("preemption_stall") == 0.0


# -- reads (rule 10) ---------------------------------------------------------------------------------------


def test_a_step_is_split_into_its_reads_where_model_and_ceiling_are_known():
    known = machine(H100, None)
    found = itl(machine=known, itl_mean=0.008)
    batch = 3800 * 0.008 / 30
    read = known.step(batch, 510)
    assert found.part("weights") == pytest.approx(read.weights / known.bandwidth)
    assert found.part("kv_reads") == pytest.approx((read.kv + read.state) / known.bandwidth)
    assert found.part("unexplained") == pytest.approx(
        0.008 - found.part("weights") - found.part("kv_reads") - found.part("compute")
    )


READ = machine(H100, None).step(3800 * 0.008 / 30, 510).total


@pytest.mark.parametrize(
    ("over", "share"),
    [
        pytest.param(ledger.IMPOSSIBLE - 0.01, 1.0, id="a little longer than the step: shrunk to it"),
        pytest.param(ledger.IMPOSSIBLE + 0.01, 0.0, id="longer than noise: not believed"),
    ],
)
def test_reads_that_do_not_fit_into_the_step(over, share):
    ceiling = READ / (0.008 * over)
    found = itl(facts={"model_config": LLAMA_8B, "bandwidth": str(ceiling / 1e9)}, itl_mean=0.008)
    assert found.part("weights") + found.part("kv_reads") == pytest.approx(share * 0.008)
    assert found.part("unexplained") == pytest.approx((1 - share) * 0.008, abs=1e-9)


# -- whatever comes ----------------------------------------------------------------------------------------

MODELLED = machine(H100, None)
SECONDS = st.floats(0, 100)
EDGES = (0.001, 0.01, 0.1, 1.0, 10.0, INF)


@st.composite
def histograms(draw, count: float | None = None) -> Histogram:
    """Counts and a sum that may or may not fit them: cut texts and races give such."""
    counts = draw(st.tuples(*[st.integers(0, 1000)] * len(EDGES)))
    number = float(sum(counts)) if count is None else count
    return Histogram(EDGES, tuple(map(float, counts)), draw(SECONDS) * number, number)


@st.composite
def traffics(draw) -> Traffic:
    base = draw(st.sampled_from(BASES))
    first = float(draw(st.integers(1, 500)))
    kinds = {"ttft": histograms(first), "itl": histograms(), "queue": histograms(), "prefill": histograms()}
    drawn = {name: draw(st.none() | kind) for name, kind in kinds.items()}
    return dataclasses.replace(
        base,
        **drawn,
        e2e=draw(histograms()),
        first_tokens=first,
        finished=float(draw(st.integers(0, 500))),
        generated=float(draw(st.integers(0, 10_000))),
        preemptions=float(draw(st.integers(0, 3))),
        computed=draw(st.none() | st.floats(0, 1e6)),
        prefill_guess=draw(st.none() | SECONDS),
        seconds=draw(st.floats(1, 3600) | st.just(math.nan)),
    )


BASES = tuple(
    case(waiting=w, deferred=d, running=r).traffic for w, d, r in ((0, 0, 1), (20, 0, 4), (20, 15, 9))
)


@settings(max_examples=80, deadline=None)
@given(traffics(), st.sampled_from((Machine(), MODELLED)), SECONDS, st.none() | SECONDS)
def test_parts_sum_to_the_whole_and_none_is_negative(traffic, known, load, transfer):
    for found in (
        ledger.ttft_ledger(traffic, load=load, transfer=transfer),
        ledger.itl_ledger(traffic, known),
    ):
        if found is None:
            continue
        assert sum(p.seconds for p in found.top()) == pytest.approx(found.seconds, rel=1e-12, abs=1e-15)
        assert all(p.seconds >= 0 for p in found.parts)
        for part in found.parts:
            if part.parent is not None:
                assert part.seconds <= found.part(part.parent) * (1 + 1e-9)


@settings(max_examples=50, deadline=None)
@given(traffics())
def test_a_stall_needs_preemptions_and_lies_within_the_tail(traffic):
    stall = ledger.preemption_stall(traffic)
    assert stall >= 0
    if not traffic.preemptions or traffic.tail is None:
        assert stall == 0
    elif traffic.itl.count:
        assert stall <= traffic.tail.excess / traffic.itl.count
