"""CPUs: a quota that runs out, and a thread that waits for its turn, around each threshold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hosts import PID, view
from loads import case

from kvdoctor.case import COST, Case
from kvdoctor.causes import hostcpu
from kvdoctor.hostview import HostView, Quota, StackMix, Thread
from kvdoctor.judge import judge
from kvdoctor.model import Bound, Verdict
from kvdoctor.stackclass import Doing

STEADY = case()


def seen(host: HostView) -> Case:
    return replace(STEADY, host=host)


def thread(
    waiting: float, *, cpus: float = 0.3, involuntary: float = 50.0, role: str = "engine_core"
) -> Thread:
    return Thread(PID, role, "main", cpus, waiting, 10.0, involuntary, 0.0)


def quota(periods: float, throttled: float) -> Quota:
    return Quota("/pod", 2.0, periods, throttled)


@pytest.mark.parametrize(
    ("waiting", "involuntary", "verdict"),
    [
        (hostcpu.WAITS + 0.01, hostcpu.LOSES, Verdict.LIKELY),
        (hostcpu.WAITS - 0.01, hostcpu.LOSES, Verdict.RULED_OUT),
        (hostcpu.WAITS + 0.01, hostcpu.LOSES - 0.1, Verdict.LIKELY),
    ],
)
def test_a_pacing_thread_that_waits_a_quarter_of_the_time_is_contended(waiting, involuntary, verdict):
    found = hostcpu.contended(seen(view(threads=(thread(waiting, involuntary=involuntary),))))
    assert found is not None
    assert found.verdict is verdict
    assert found.evidence[0].value == pytest.approx(waiting)


@pytest.mark.parametrize(
    ("name", "cpus", "verdict"),
    [
        pytest.param("helper", 0.01, Verdict.RULED_OUT, id="a helper that hardly runs"),
        pytest.param("helper", hostcpu.PACING_CPUS, Verdict.LIKELY, id="a helper that works"),
        pytest.param("main", 0.01, Verdict.LIKELY, id="a main thread that gets nothing"),
    ],
)
def test_only_a_thread_that_steps_wait_for_sets_the_pace(name, cpus, verdict):
    helper = Thread(PID, "worker", name, cpus, 0.95, 10.0, 1.8, 0.0)
    found = hostcpu.contended(seen(view(threads=(thread(0.02), helper))))
    assert found is not None
    assert found.verdict is verdict


@pytest.mark.parametrize(("polling", "share"), [(10, 0.3), (8, 0.95)])
def test_a_thread_that_only_polls_for_another_delays_nobody_by_waiting(polling, share):
    polls = StackMix(PID, "engine_core", "main", 10, ((Doing.IPC, polling), (Doing.SCHEDULER, 10 - polling)))
    threads = (thread(0.95, cpus=0.05), thread(0.3, cpus=0.7, role="worker"))
    found = hostcpu.contended(seen(view(threads=threads, stacks=(polls,))))
    assert found is not None
    assert found.evidence[0].value == pytest.approx(share)


def test_where_all_only_poll_the_one_that_waits_most_is_looked_at():
    polls = StackMix(PID, "engine_core", "main", 10, ((Doing.IPC, 10),))
    found = hostcpu.contended(seen(view(threads=(thread(0.95, cpus=0.05),), stacks=(polls,))))
    assert found is not None
    assert found.evidence[0].value == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("involuntary", "verdict"), [(hostcpu.LOSES, Verdict.LIKELY), (hostcpu.LOSES - 0.1, Verdict.RULED_OUT)]
)
def test_under_a_quota_a_wait_without_losses_is_put_down_to_the_quota(involuntary, verdict):
    host = view(threads=(thread(hostcpu.WAITS + 0.01, involuntary=involuntary),), quotas=(quota(0.0, 0.0),))
    found = hostcpu.contended(seen(host))
    assert found is not None
    assert found.verdict is verdict


def test_it_costs_its_share_of_the_whole_request_in_both_latencies():
    found = hostcpu.contended(seen(view(threads=(thread(0.5),))))
    assert found is not None
    assert (found.metric, found.share_seconds) == (None, pytest.approx(0.5 * STEADY.currency))


def test_threads_that_no_step_waits_for_do_not_count():
    assert hostcpu.contended(seen(view(threads=(thread(0.9, role="api_server"),)))) is None


def test_many_threads_of_one_name_wait_no_longer_than_one():
    crowd = thread(9.0, cpus=3.0)
    assert hostcpu.lost(crowd) == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("others", "word"), [(1.5, "others on the same CPUs"), (0.1, "its own other threads")]
)
def test_it_says_whose_turn_it_was(others, word):
    found = hostcpu.contended(seen(view(threads=(thread(0.6),), others=others)))
    assert found is not None
    assert word in found.argument


@pytest.mark.parametrize(
    ("periods", "throttled", "verdict"),
    [
        (hostcpu.PERIODS, COST, Verdict.LIKELY),
        (hostcpu.PERIODS - 0.01, 1.0, Verdict.RULED_OUT),
        (1.0, COST - 0.01, Verdict.RULED_OUT),
    ],
)
def test_a_quota_that_runs_out_throttles(periods, throttled, verdict):
    found = hostcpu.cpu_throttled(seen(view(quotas=(quota(periods, throttled),))))
    assert found is not None
    assert found.verdict is verdict


def test_standing_still_on_four_cpus_is_one_second_a_second_at_most():
    assert quota(0.8, 4.0).lost == 0.8


def test_without_a_quota_nothing_is_said_of_one():
    assert hostcpu.cpu_throttled(seen(view())) is None


def test_what_a_quota_takes_is_not_blamed_on_others_too():
    host = view(threads=(thread(0.6),), quotas=(quota(1.0, 0.5),))
    found = hostcpu.contended(seen(host))
    assert found is not None
    assert (found.verdict, found.evidence[0].value) == (Verdict.RULED_OUT, pytest.approx(0.1))


def test_cpu_time_alone_proves_nothing():
    busy = Thread(PID, "engine_core", "main", 1.0, 0.0, 0.0, 100.0, 0.0)
    found = hostcpu.contended(seen(view(threads=(busy,))))
    assert found is not None
    assert found.verdict is Verdict.RULED_OUT


@pytest.mark.parametrize(("waiting", "bound"), [(0.6, Bound.HOST), (0.3, Bound.QUEUEING)])
def test_a_queue_that_the_lost_cpu_explains_gives_way_to_it(waiting, bound):
    slow = case(ttft_mean=3.0, queue_mean=2.5)
    whole = replace(slow, host=view(threads=(thread(waiting),)))
    taken = hostcpu.contended(whole)
    assert taken is not None
    queue = replace(taken, bound=Bound.QUEUEING, metric=None, share_seconds=0.8 * whole.currency)
    named = judge(whole, (taken, queue)).finding
    assert named is not None
    assert named.bound is bound
