"""Network: KV from another instance is on the path of the first token."""

from __future__ import annotations

import pytest
from loads import Page, case_of, endpoint

from kvdoctor.case import NOTICED, OF_TTFT
from kvdoctor.causes import network
from kvdoctor.model import Finding, Metric, Verdict

# 2 s of TTFT, of which 1.5 s is queue and all of that a wait for KV; a request moves 100 MB.
WAITING = {"ttft_mean": 2.0, "queue_mean": 1.5, "prefill_mean": 0.1, "e2e_mean": 2.2, "itl_mean": 0.008}
REQUEST = 2.0 + 19 * 0.008
SIZE = 100e6


def pair(
    *, wait: float = 1.5, transfer: float = 1.5, size: float = SIZE, pieces: float = 100, number: float = 200,
    **numbers: object,
) -> Page:  # fmt: skip
    """The decode side of a pair: `wait` by the gauge, `transfer` by the transfers' own clock."""
    told = endpoint(**{**WAITING, "waiting": wait * 200 / 30, **numbers})
    told.series("vllm:num_requests_kv_fetch_by_stage", wait * 200 / 30, stage="in_progress")
    told.histogram("vllm:nixl_xfer_time_seconds", {5.0: number}, transfer * number)
    told.histogram("vllm:nixl_bytes_transferred", {1e9: number}, size * number)
    return told.histogram("vllm:nixl_num_descriptors", {1e4: number}, pieces * number)


def of(told: Page, **facts: str) -> Finding:
    (found,) = network.check(case_of(told, facts=facts))
    return found


@pytest.mark.parametrize(
    ("wait", "verdict"),
    [
        pytest.param(0.05 * REQUEST - 1e-3, Verdict.RULED_OUT, id="under 5% of a request"),
        pytest.param(0.05 * REQUEST + 1e-3, Verdict.LIKELY, id="over 5% of a request"),
    ],
)
def test_a_wait_for_kv_counts_from_a_twentieth_of_a_request(wait, verdict):
    found = of(pair(wait=wait, transfer=wait))
    assert found.verdict is verdict
    assert found.evidence[0].value == pytest.approx(wait)
    assert found.metric is (Metric.TTFT if verdict is Verdict.LIKELY else None)


@pytest.mark.parametrize(
    ("wait", "verdict"),
    [
        pytest.param(OF_TTFT * 2 - 1e-3, Verdict.RULED_OUT, id="under a quarter of TTFT"),
        pytest.param(OF_TTFT * 2 + 1e-3, Verdict.LIKELY, id="over a quarter of TTFT"),
    ],
)
def test_a_large_wait_in_ttft_counts_though_outputs_are_long(wait, verdict):
    assert OF_TTFT * 2 > NOTICED
    assert of(pair(wait=wait, transfer=wait, outputs=2000, e2e_mean=14.0)).verdict is verdict


# -- slow link, used badly, hand-over: the same wait and the same bytes ------------------------------------


@pytest.mark.parametrize(
    ("link", "subclass"),
    [
        pytest.param("0.1333", "slow_link", id="the wire needs just over half of the wait"),
        pytest.param("0.1334", "used_badly", id="just under half"),
        pytest.param("12.5", "used_badly", id="a fast wire"),
    ],
)
def test_the_link_is_slow_only_if_its_bytes_take_half_of_the_wait(link, subclass):
    assert network.HALF == 0.5
    found = of(pair(), link=link)
    assert (found.verdict, found.subclass, found.gaps) == (Verdict.LIKELY, subclass, ())


def test_without_the_links_rate_it_is_a_gap():
    found = of(pair())
    assert found.subclass == "used_badly"
    assert "--link" in found.gaps[0].cure


@pytest.mark.parametrize(
    ("transfer", "subclass"),
    [
        pytest.param(0.749, "handover", id="transfers take under half of the wait"),
        pytest.param(0.751, "used_badly", id="over half"),
    ],
)
def test_a_transfer_that_is_a_small_part_of_the_wait_is_a_hand_over(transfer, subclass):
    assert of(pair(transfer=transfer)).subclass == subclass


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        pytest.param(SIZE / network.SMALL_PIECE * 1.01, "in pieces of", id="small pieces"),
        pytest.param(SIZE / network.SMALL_PIECE * 0.99, "transfer runs at", id="large pieces"),
    ],
)
def test_small_pieces_are_named(pieces, said):
    found = of(pair(pieces=pieces))
    assert found.subclass == "used_badly"
    assert said in found.argument


# -- each way of being late has a cure of its own -----------------------------------------------------------


def test_a_slow_link_is_cured_by_a_faster_one_and_the_gain_is_worked_out_for_it():
    first, other = of(pair(), link="0.1").advice
    assert "faster link" in first.do
    # 1 s on the wire at 0.1 GB/s, 8 ms at 100 Gbit/s
    assert first.gain_seconds == pytest.approx(1.0 - 100e6 / 12.5e9)
    assert "prefill" in other.do


def test_a_hand_over_is_not_cured_by_a_faster_link():
    found = of(pair(transfer=0.3))
    first = found.advice[0]
    assert found.subclass == "handover"
    assert first.do.endswith("A faster link would not help")
    assert first.gain_seconds == pytest.approx(1.5 - 0.3)
    assert "save 300 ms" in first.expect
    assert all("RDMA" not in advice.do for advice in found.advice)


def test_a_link_used_badly_keeps_the_wire_time():
    first = of(pair(pieces=SIZE / network.SMALL_PIECE * 1.01), link="0.5").advice[0]
    assert "larger pieces" in first.do
    assert first.gain_seconds == pytest.approx(1.5 - 0.2)
    assert "larger pieces" not in of(pair(), link="0.5").advice[0].do


@pytest.mark.parametrize(
    ("outside", "gain"),
    [
        pytest.param(900, 1.5 - 0.828, id="0.83 s of prefill against 1.5 s of waiting"),
        pytest.param(1700, None, id="1.56 s of prefill: no figure for a loss"),
        pytest.param(0, None, id="no token counted as from outside"),
    ],
)
def test_computing_here_is_a_figure_only_where_it_is_a_gain(outside, gain):
    # A request computes 100 tokens in 0.1 s, of which 8 ms are its first step: a token takes 0.92 ms.
    other = of(pair(computed=100 * 200, external_hits=outside * 200)).advice[1]
    assert other.gain_seconds == (None if gain is None else pytest.approx(gain))


def test_look_alike_requests_that_wait_for_a_slot_have_their_kv():
    told = pair(transfer=0.01)
    told.columns = [c for c in told.columns if "kv_fetch" not in c.name]
    told.series("vllm:num_requests_kv_fetch_by_stage", 0.0, stage="in_progress")
    assert of(told).verdict is Verdict.RULED_OUT


# -- waits without transfers, and nothing at all -----------------------------------------------------------


def deferred(wait: float) -> Page:
    return endpoint(**WAITING, waiting=10, deferred=wait * 200 / 30, external_hits=1000)


@pytest.mark.parametrize(
    ("wait", "verdict"),
    [
        pytest.param(0.05 * REQUEST - 1e-3, Verdict.NO_DATA, id="under 5% of a request"),
        pytest.param(0.05 * REQUEST + 1e-3, Verdict.POSSIBLE, id="over 5% of a request"),
    ],
)
def test_requests_that_are_deferred_without_a_transfer_are_possible(wait, verdict):
    found = of(deferred(wait))
    assert found.verdict is verdict
    assert found.gaps[0].cure


def test_deferred_requests_whose_loads_are_counted_are_offloads():
    told = deferred(1.0).counter("vllm:kv_offload_load_time_total", 30.0)
    assert of(told).verdict is Verdict.NO_DATA


def test_transfers_that_nobody_waits_for_are_ruled_out_with_their_numbers():
    found = of(pair(wait=0.0, transfer=0.001))
    assert found.verdict is Verdict.RULED_OUT
    assert [e.value for e in found.evidence][2] == SIZE


def test_a_connector_without_a_transfer_is_ruled_out():
    assert of(pair(number=0, wait=0.0)).argument == "No transfer."


def test_without_a_connector_there_is_no_data_and_a_cure():
    found = of(endpoint())
    assert (found.verdict, bool(found.gaps[0].cure)) == (Verdict.NO_DATA, True)
