"""From a recording to one answer: states, look-alikes that differ in one number, real recordings."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest
from answers import check_whole
from loads import WALL, Page, endpoint, load, process, recording
from modelconfigs import LLAMA_8B
from spellings import old, ray, without_engine

from kvdoctor.diagnose import diagnose
from kvdoctor.judged import ITL_P95, TTFT_P95
from kvdoctor.model import Bound, Confidence, State, Verdict
from kvdoctor.recording import Recording


def answer(of: Recording) -> str:
    """`bound/subclass`, or the state."""
    found = diagnose(of)
    return f"{found.primary_name}/{found.subclass}" if found.primary else found.primary_name


# -- look-alikes: one number differs from one row to the next ----------------------------------------------

QUEUED = {
    "ttft_mean": 3.0,
    "queue_mean": 2.8,
    "prefill_mean": 0.1,
    "e2e_mean": 2.9,
    "waiting": 18.7,
    "running": 4,
}
COLD = {"hits": 0, "ttft_mean": 2.5, "prefill_mean": 2.3, "e2e_mean": 2.7}
PAST = {"queries_before": 1e6, "computed_before": 1e5 * 119, "before": 119}
"""The load of the window for the hour before it."""
TAIL = {"itl_buckets": {0.01: 3000.0, 0.5: 800.0}, "itl_sum": 3000 * 0.008 + 800 * 0.3}
EVICTED = {**COLD, "hits": 30_000, "pool_tokens": 5_000, "computed_buckets": {100.0: 70.0, 500.0: 130.0}}

LOADS = {
    "all is well": ({}, "healthy"),
    "full pool, nobody waiting": ({"usage": 1.0}, "healthy"),
    "old preemptions": ({"preempted_before": 500}, "healthy"),
    "low hits, cheap prefill": ({"hits": 0}, "healthy"),
    "queue at a limit": (QUEUED, "queueing/admission_limit"),
    "queue at a full pool": ({**QUEUED, "usage": 0.97}, "capacity/admission"),
    "queue for KV": ({**QUEUED, "deferred": 18.7}, "insufficient_evidence"),
    "salted or new": (COLD, "compute/prefill"),
    "caching off": ({**COLD, "caching": "False"}, "hit_rate/disabled"),
    "hit in the past": ({**COLD, **PAST, "hits_before": 9e5}, "hit_rate/fell"),
    "hit in the past, other prompts": (
        {**COLD, "queries_before": 1e6, "hits_before": 9e5},
        "compute/prefill",
    ),
    "missed in the past": ({**COLD, "queries_before": 1e6, "hits_before": 0}, "compute/prefill"),
    "evicted": (EVICTED, "capacity/prefix_eviction"),
    "never evicted": (
        {**EVICTED, "pool_tokens": 80_000, "computed_before": 0, "generated_before": 0},
        "compute/prefill",
    ),
    "evicted, same pool, older": ({**EVICTED, "pool_tokens": 50_000}, "capacity/prefix_eviction"),
    "promised and delivered": ({**COLD, "external_hits": 50_000, "external": 50_000}, "compute/prefill"),
    "promised, not delivered": (
        {**COLD, "external_hits": 90_000, "external": 0},
        "hit_rate/promised_not_delivered",
    ),
    "tail with prefill": ({**TAIL, "prefill_mean": 0.05}, "compute/interference"),
    "tail with preemptions": (
        {**TAIL, "prefill_mean": 0.05, "preemptions": 800, "waiting": 30, "usage": 1.0},
        "capacity/preemption",
    ),
    "tail with neither": ({**TAIL, "computed": 0}, "insufficient_evidence"),
    "one reading": ({**QUEUED, "readings": 1, "seconds": 0}, "insufficient_evidence"),
    "no token, nobody there": ({"first_tokens": 0, "finished": 0, "running": 0}, "idle"),
    "no token, somebody there": ({"first_tokens": 0, "finished": 0, "running": 2}, "stalled"),
}


@pytest.mark.parametrize(("numbers", "expected"), LOADS.values(), ids=LOADS)
def test_a_load_has_its_answer(numbers, expected):
    assert answer(load(**numbers)) == expected


@pytest.mark.parametrize(("numbers", "expected"), LOADS.values(), ids=LOADS)
def test_whatever_the_load_the_answer_is_whole(numbers, expected):
    check_whole(diagnose(load(**numbers)))


def test_every_bound_of_the_table_has_its_say():
    found = diagnose(load())
    assert {finding.bound for finding in found.findings} == set(Bound)


def test_counters_that_cannot_tell_a_salted_prefix_leave_hit_rate_open():
    found = diagnose(load(**COLD))
    (open_,) = (f for f in found.findings if f.subclass == "prefix_mismatch")
    assert (open_.verdict, found.confidence) == (Verdict.POSSIBLE, Confidence.MEDIUM)
    assert "hit_rate" in found.next_measurement


# -- bandwidth: the low end decides ------------------------------------------------------------------------

# 40 sequences of 2,000 tokens: 16 GB of weights and 10.5 GB of KV a step, at 20 ms.
DECODING = {"prompt": 1990, "outputs": 21, "first_tokens": 3000, "itl_mean": 0.02, "usage": 0.8, "ttft_mean": 0.05,
            "prefill_mean": 0.03, "queue_mean": 0.0}  # fmt: skip


@pytest.mark.parametrize(
    ("usage", "verdict"), [(0.8, Verdict.LIKELY), (0.05, Verdict.POSSIBLE)], ids=["own pages", "shared pages"]
)
def test_shared_pages_leave_bandwidth_open(usage, verdict):
    facts = {"model_config": LLAMA_8B, "bandwidth": "2000", "slo_itl": "0.01"}
    found = diagnose(load(facts=facts, **{**DECODING, "usage": usage}))
    (bandwidth,) = (f for f in found.findings if f.bound is Bound.BANDWIDTH)
    assert bandwidth.verdict is verdict
    assert (found.primary is Bound.BANDWIDTH) is (verdict is Verdict.LIKELY)


def test_a_healthy_service_is_paced_by_the_reads_that_fill_its_steps():
    facts = {"model_config": LLAMA_8B, "bandwidth": "2000"}
    found = diagnose(load(facts=facts, **DECODING))
    assert (found.state, found.primary, found.paced_by) == (State.HEALTHY, None, "bandwidth")
    assert diagnose(load()).paced_by is None


# -- objectives --------------------------------------------------------------------------------------------


def test_default_objectives_are_those_of_the_rule_and_said_to_be_defaults():
    assert (TTFT_P95, ITL_P95) == (2.0, 0.05)
    assert dataclasses.astuple(diagnose(load()).objective) == (2.0, 0.05, False)
    assert dataclasses.astuple(diagnose(load(facts={"slo_itl": "0.02"})).objective) == (2.0, 0.02, True)


def test_the_metric_that_was_asked_for_is_answered():
    both = {**QUEUED, **TAIL, "prefill_mean": 0.05}
    assert answer(load(**both, facts={"slow": "ttft"})) == "queueing/admission_limit"
    assert answer(load(**both, facts={"slow": "itl"})) == "compute/interference"


# -- spellings, ranks, restarts ----------------------------------------------------------------------------


@pytest.mark.parametrize("spell", [old, ray, without_engine])
@pytest.mark.parametrize("name", ["all is well", "queue at a limit", "queue at a full pool", "caching off"])
def test_every_spelling_gets_the_same_answer(spell, name):
    numbers, expected = LOADS[name]
    assert answer(recording(spell(endpoint(**numbers)))) == expected


def test_one_hot_rank_is_not_averaged_away():
    cool = {"usage": 0.1, "waiting": 0}
    hot = {"usage": 0.97, "waiting": 18.7}
    numbers = {**QUEUED, "ranks": [cool, hot]}
    found = diagnose(load(**numbers))
    assert found.targets[0].ranks == ("0", "1")
    assert {(f.bound, f.subclass) for f in found.findings if f.verdict is Verdict.LIKELY} >= {
        (Bound.CAPACITY, "admission"),
        (Bound.EXTERNAL, "router"),
    }


def restarted(at: int, **numbers: object) -> Page:
    """A page whose process starts anew at a reading: counters begin again, in the same load."""
    told, again = endpoint(**numbers), endpoint(**{**numbers, "before": 0.0})
    for first, then in zip(told.columns, again.columns, strict=True):
        if first.type in ("counter", "histogram"):
            values = [first.at(i) if i < at else then.at(i - at) for i in range(told.readings)]
            fresh = Page(told.seconds, told.readings).series(first.name, values, first.type)
            first.index, first.value = fresh.columns[0].index, fresh.columns[0].value
    told.columns = [c for c in told.columns if c.name != "process_start_time_seconds"]
    return process(told, [WALL - 3600.0] * at + [WALL] * (told.readings - at))


def test_a_restart_in_the_window_leaves_the_newest_stretch():
    # The last 15 s hold 99 requests, as the same load without a restart does.
    found = diagnose(
        recording(restarted(15, finished_before=0, generated_before=0, computed_before=0, **QUEUED))
    )
    assert (found.window.restarts, found.window.scrapes, found.window.seconds) == (1, 16, 15)
    assert found.window.requests == pytest.approx(200 * 15 / 30)
    assert found.confidence is not Confidence.HIGH
    assert any("restarted" in reason for reason in found.confidence_reasons)
    assert f"{found.primary_name}/{found.subclass}" == "queueing/admission_limit"


def test_a_restart_just_before_the_end_leaves_the_stretch_before_it():
    found = diagnose(recording(restarted(27, finished_before=0, generated_before=0, computed_before=0)))
    assert (found.window.restarts, found.window.scrapes) == (1, 27)


# -- several engines, and none -----------------------------------------------------------------------------


def test_the_engine_with_most_to_answer_for_is_answered_and_the_others_are_noted():
    calm, busy = endpoint(), endpoint(**QUEUED)
    calm.name, busy.name = "http://calm:8000", "http://busy:8000"
    for pages in ((calm, busy), (busy, calm)):
        found = diagnose(recording(*pages))
        assert (found.primary, found.targets[0].url) == (Bound.QUEUEING, "http://busy:8000")
        assert "vllm at http://calm:8000: healthy" in found.notes


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(recording(), id="no source"),
        pytest.param(recording(Page().series("python_info", 1)), id="another exporter"),
        pytest.param(recording(Page(name="dead", readings=1)), id="nothing read"),
    ],
)
def test_a_recording_without_an_engine_cannot_be_told(of):
    found = diagnose(of)
    assert (found.state, found.primary, found.confidence) == (State.INSUFFICIENT, None, Confidence.LOW)
    assert found.gaps[-1].cure
    assert found.summary


def test_a_source_that_was_never_read_is_no_engine():
    of = recording(endpoint())
    del of.sources[0].at[:]
    assert diagnose(of).targets == ()


def test_a_prefill_side_and_a_decode_side_are_told_apart():
    prefill, decode = (
        endpoint(outputs=1),
        endpoint(hits=0, external_hits=97_000, external=97_000, computed_before=0),
    )
    pool = endpoint(hits=0, external_hits=90_000, external=90_000, computed_before=0)
    for page in (prefill, decode, pool):
        page.series("vllm:num_requests_kv_fetch_by_stage", 0, stage="in_progress")
        page.histogram("vllm:nixl_xfer_time_seconds", {0.1: 200.0}, 2.0)
    prefill.histogram("vllm:request_generation_tokens", {1.0: 200.0}, 200.0)
    decode.histogram("vllm:request_generation_tokens", {20.0: 200.0}, 4000.0)
    assert diagnose(recording(prefill)).targets[0].role == "prefill"
    assert diagnose(recording(decode)).targets[0].role == "decode"
    # 50 tokens of each prompt are computed here, more than a last block of 16: prefixes out of a shared pool
    assert diagnose(recording(pool)).targets[0].role is None
    assert diagnose(load()).targets[0].role is None


# -- the same again, and whatever comes --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["all is well", "queue at a limit", "evicted", "one reading"])
def test_the_same_recording_gives_the_same_diagnosis(name):
    of = load(**LOADS[name][0])
    before = repr(of)
    assert diagnose(of) == diagnose(of) == diagnose(load(**LOADS[name][0]))
    assert repr(of) == before


@pytest.mark.parametrize("seed", range(40))
def test_no_page_however_torn_stops_the_diagnosis(seed):
    dice = random.Random(seed)
    told = endpoint(**dice.choice(list(LOADS.values()))[0], ranks=[{}] * dice.choice((1, 2)))
    for column in dice.sample(told.columns, len(told.columns) // 2):
        harm = dice.choice(("gone", "nan", "inf", "negative", "labels", "huge"))
        values = {"nan": math.nan, "inf": math.inf, "negative": -5.0, "huge": 1e18}
        if harm == "gone":
            told.columns.remove(column)
        elif harm == "labels":
            column.labels = tuple((key, "NaN") for key, _ in column.labels)
        else:
            column.value[dice.randrange(len(column.value))] = values[harm]
    found = diagnose(recording(told, facts={"gpu": "H100 SXM", "model_config": LLAMA_8B}))
    check_whole(found)
