"""Stacks: eight samples, six in ten, and never CPU percent alone (rule 11)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hosts import PID, view
from loads import case
from modelconfigs import LLAMA_8B

from kvdoctor.causes import host, hoststacks
from kvdoctor.hostview import CardView, HostView, StackMix
from kvdoctor.machine import machine
from kvdoctor.model import Finding, Metric, Verdict
from kvdoctor.stackclass import Doing

KNOWN = machine({"gpu": "H100 SXM", "model_config": LLAMA_8B}, None)
FLOOR = KNOWN.step_seconds(1.0, 510)
UNKNOWN, SLOW = case(), case(machine=KNOWN, itl_mean=4 * FLOOR)


def mix(*counts: tuple[Doing, int], role: str = "engine_core", thread: str = "main") -> StackMix:
    return StackMix(PID, role, thread, sum(n for _, n in counts), counts)


def card(occupancy: float) -> CardView:
    return CardView(
        0, "H100", occupancy, None, None, None, None, (), 5, None, None, 0.0, 0.0, (), (), None
    )  # fmt: skip


def loop(host_view: HostView, known=UNKNOWN) -> Finding:
    seen = replace(known, host=host_view)
    return hoststacks.loop(seen, host.step(seen))


@pytest.mark.parametrize(
    ("counts", "verdict", "subclass"),
    [
        (((Doing.SCHEDULER, 6), (Doing.IDLE, 4)), Verdict.LIKELY, "scheduler"),
        (((Doing.SCHEDULER, 59), (Doing.FORWARD, 41)), Verdict.RULED_OUT, "scheduler"),
        (((Doing.KV_LOOKUP, 5), (Doing.SCHEDULER, 3)), Verdict.LIKELY, "kv_lookup"),
        (((Doing.KV_LOOKUP, 4), (Doing.SCHEDULER, 3)), Verdict.NO_DATA, "scheduler"),
        (((Doing.FORWARD, 10),), Verdict.RULED_OUT, "scheduler"),
        (((Doing.OTHER, 10),), Verdict.NO_DATA, "scheduler"),
    ],
    ids=["six in ten", "under six in ten", "mostly look-ups", "seven samples", "the model", "unknown code"],
)
def test_the_engines_loop_is_judged_by_its_stacks(counts, verdict, subclass):
    found = loop(view(stacks=(mix(*counts),)))
    assert (found.verdict, found.subclass) == (verdict, subclass)


def test_idle_samples_count_against_the_host():
    found = loop(view(stacks=(mix((Doing.IDLE, 12), (Doing.SCHEDULER, 8)),)))
    assert found.verdict is Verdict.RULED_OUT


@pytest.mark.parametrize(("role", "thread"), [("api_server", "main"), ("engine_core", "Thread-N")])
def test_another_thread_than_the_loop_proves_nothing(role, thread):
    found = loop(view(stacks=(mix((Doing.SCHEDULER, 20), role=role, thread=thread),)))
    assert found.verdict is Verdict.NO_DATA


@pytest.mark.parametrize(
    ("occupancy", "verdict"),
    [
        (1 - hoststacks.IDLE - 0.01, Verdict.LIKELY),
        (1 - hoststacks.IDLE + 0.01, Verdict.POSSIBLE),
        (1.0, Verdict.POSSIBLE),
    ],
)
def test_a_step_beyond_its_floor_is_the_hosts_when_the_card_stands_idle(occupancy, verdict):
    assert loop(view(cards=(card(occupancy),)), SLOW).verdict is verdict


def test_an_idle_card_alone_proves_nothing():
    assert loop(view(cards=(card(0.2),))).verdict is Verdict.NO_DATA


def test_launches_are_named_where_the_stacks_are_in_the_model_and_the_card_is_idle():
    found = loop(view(cards=(card(0.4),), stacks=(mix((Doing.FORWARD, 9), (Doing.IDLE, 1)),)), SLOW)
    assert (found.verdict, found.subclass, bool(found.advice)) == (Verdict.LIKELY, "launch_bound", True)


def test_cost_of_idle_sms_is_no_more_than_the_time_beyond_the_floor():
    found = loop(view(cards=(card(0.0),)), SLOW)
    assert found.share_seconds == pytest.approx(host.step(SLOW).share_seconds)


def test_a_front_end_thread_in_the_tokenizer_is_named():
    stacks = (mix((Doing.TOKENIZER, 9), (Doing.IDLE, 3), role="api_server", thread="ThreadPoolExecutor-N_N"),)
    seen = replace(UNKNOWN, host=view(stacks=stacks))
    found = hoststacks.front(seen, host.front_end(seen))
    assert (found.verdict, found.subclass, found.metric) == (Verdict.LIKELY, "tokenizer", Metric.TTFT)
    assert found.share_seconds > 0


def test_a_front_end_that_waits_stays_what_the_metrics_said():
    stacks = (mix((Doing.TOKENIZER, 5), (Doing.IDLE, 5), role="api_server"),)
    seen = replace(UNKNOWN, host=view(stacks=stacks))
    assert hoststacks.front(seen, host.front_end(seen)).verdict is host.front_end(seen).verdict


def test_without_a_host_nothing_changes():
    assert host.check(UNKNOWN) == (host.front_end(UNKNOWN), host.step(UNKNOWN), host.kv_lookup(UNKNOWN))
