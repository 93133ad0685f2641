"""Where the milliseconds of ITL go: prefill in the steps, stalls after preemption, reads."""

from __future__ import annotations

import pytest
from ledgers import H100, basis, itl
from loads import case
from modelconfigs import LLAMA_8B

from kvdoctor import ledger
from kvdoctor.machine import machine
from kvdoctor.model import Basis

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
    found = itl(**STALLED, preemptions=900)
    assert found.part("preemption_stall") == pytest.approx((5 * 30 - 0.1 * 200) / 4000)


def test_waiting_that_first_queue_times_explain_is_no_stall():
    assert itl(**{**STALLED, "queue_mean": 0.75}, preemptions=9).part("preemption_stall") == 0.0


def test_the_stall_is_never_more_than_the_tail_holds():
    found = itl(**{**STALLED, "waiting": 500}, preemptions=900)
    tail = case(**STALLED).traffic.tail
    assert found.part("preemption_stall") == pytest.approx(tail.excess / 3800)
    assert found.part("prefill_in_step") == 0.0


def test_the_stall_is_never_more_than_a_longest_gap_for_each_preemption():
    found = itl(**{**STALLED, "waiting": 500}, preemptions=3)
    assert found.part("preemption_stall") == pytest.approx(3 * 0.5 / 4000)


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


def test_the_tokens_of_full_steps_take_no_more_than_the_reads_leave():
    """8B weights at 2.9 TB/s are 5.5 ms of the 8 ms: the prompts' nine tokens in ten can't take 7.2 ms."""
    known = machine({**H100, "model_config": LLAMA_8B}, None)
    numbers = {"step_buckets": FULL_STEPS, "computed": 36_000, "itl_mean": 0.008}
    assert itl(**numbers).part("prefill_in_step") == pytest.approx(0.0072)
    found = case(machine=known, **numbers).itl
    reads = found.part("weights") + found.part("kv_reads")
    assert reads > 0.005
    assert found.part("prefill_in_step") == pytest.approx(0.008 - reads)
