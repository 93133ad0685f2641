"""What a report shows beside the verdict."""

from __future__ import annotations

import dataclasses
import math

import pytest
from loads import WALL, Page, case, case_of, endpoint, process
from modelconfigs import LLAMA_8B
from spellings import old

from kvdoctor import metrics as m
from kvdoctor import overview as o
from kvdoctor.hostview import HostView
from kvdoctor.machine import machine
from kvdoctor.service import Quantile

H100 = machine({"gpu": "H100 SXM", "model_config": LLAMA_8B}, None)


def headline(name: str, told: Page) -> tuple[float | None, float | None]:
    (line,) = (h for h in o.header(case_of(told)) if h.name == name)
    return line.now, line.lifetime


# -- quantiles and header ----------------------------------------------------------------------------------


def test_quantiles_are_the_bounds_of_their_buckets():
    found = o.quantiles(case(ttft_buckets={0.1: 90, 0.5: 8, 10.0: 2}))
    assert found["ttft"] == {
        "p50": Quantile(0.08, 0.1),
        "p95": Quantile(0.25, 0.5),
        "p99": Quantile(7.5, 10.0),
    }
    assert o.quantiles(case(outputs=1))["itl"] == {}


def test_the_header_holds_now_against_since_the_start():
    told = endpoint(hits=90_000, hits_before=0, queries_before=1e5, before=3.0)
    assert headline("requests", told) == (pytest.approx(200 / 30), pytest.approx(800 / 3630))
    assert headline("prefix cache hit rate", told) == (0.9, 0.45)
    assert headline("TTFT mean", told) == (pytest.approx(0.1), pytest.approx(0.1))


def test_a_rate_over_nothing_is_not_zero():
    told = endpoint(queries=0, hits=0, first_tokens=0, finished=0, before=0.0)
    assert headline("prefix cache hit rate", told) == (None, None)
    assert headline("TTFT p95, about", told) == (None, None)


@pytest.mark.parametrize(
    ("start", "age"),
    [(WALL - 100, 130.0), (WALL + 900, None), (math.nan, None)],
    ids=["a start", "a start in the future", "no start"],
)
def test_uptime_is_what_makes_sense_of_a_start_time(start, age):
    told = endpoint()
    told.columns = [c for c in told.columns if c.name != "process_start_time_seconds"]
    assert o.uptime(case_of(process(told, start))) == age


HOUR = 3600.0


def on_host(start: float, *began: float):
    """A case whose page tells one start, and /proc those of the family, the root first."""
    told = endpoint()
    told.columns = [c for c in told.columns if c.name != "process_start_time_seconds"]
    view = HostView(4242, "vllm", 30.0, (), started=began)
    return dataclasses.replace(case_of(process(told, start)), host=view)


@pytest.mark.parametrize(
    ("start", "began", "age", "said"),
    [
        (WALL - HOUR, [WALL - HOUR + 2], HOUR + 28, None),
        (WALL - HOUR, [WALL - 90 * HOUR, WALL - HOUR + 2], HOUR + 28, None),
        (WALL - HOUR, [WALL - 2 * HOUR], 2 * HOUR + 30, "started 60.5 min ago; /proc says 2.01 h"),
        (WALL - 3 * HOUR, [WALL - 2 * HOUR], 2 * HOUR + 30, "started 3.01 h ago; /proc says 2.01 h"),
        (WALL - HOUR - o.CLOCKS, [WALL - HOUR], HOUR + 30, None),
        (WALL - HOUR - o.CLOCKS - 1, [WALL - HOUR], HOUR + 30, "/proc says 60.5 min"),
        (WALL + 900, [WALL - HOUR], HOUR + 30, "yet to come; /proc says 60.5 min"),
        (math.nan, [WALL - HOUR], HOUR + 30, None),
        (WALL + 10, [WALL - HOUR], 20.0, None),
        (WALL - HOUR, [], HOUR + 30, None),
    ],
    ids=["the same", "a child's", "later", "earlier", "just within", "just without", "in the future", "never",
         "since we looked", "no /proc"],
)  # fmt: skip
def test_proc_tells_the_start_and_a_page_that_says_something_else_is_a_note(start, began, age, said):
    found = on_host(start, *began)
    assert o.uptime(found) == age
    note = o.disputed_start(found)
    assert (note is None) == (said is None)
    assert (said or "") in (note or "")


def test_where_the_page_tells_no_start_proc_does():
    told = endpoint()
    told.columns = [c for c in told.columns if c.name != "process_start_time_seconds"]
    found = dataclasses.replace(case_of(told), host=HostView(4242, "vllm", 30.0, (), started=(WALL - HOUR,)))
    assert (o.uptime(found), o.disputed_start(found)) == (HOUR + 30, None)


# -- stale gauges, closed loops ----------------------------------------------------------------------------

STILL = {"first_tokens": 0, "finished": 0, "step_tokens": None}


@pytest.mark.parametrize(
    ("numbers", "stale"),
    [
        pytest.param({"running": 2}, True, id="a gauge that stands, and no counter moved"),
        pytest.param({"running": 0, "usage": 0.0}, False, id="gauges that say nothing"),
        pytest.param({"running": [2.0] * 30 + [1.0]}, False, id="a gauge moved: they are told together"),
        pytest.param({"running": 2, "queries": 7}, False, id="a counter moved"),
        pytest.param({"running": 2, "readings": 1, "seconds": 0}, False, id="one reading"),
    ],
)
def test_gauges_are_marked_stale_when_they_stand_and_no_counter_moved(numbers, stale):
    gap = o.stale(case(**{**STILL, **numbers}))
    assert (gap is not None and bool(gap.cure)) is stale


@pytest.mark.parametrize(
    ("running", "waiting", "closed"),
    [
        pytest.param(4.0, 20.0, True, id="constant"),
        pytest.param([4.0, 8.0] * 15 + [4.0], [20.0, 16.0] * 15 + [20.0], True, id="one gives, one takes"),
        pytest.param(1.0, 0.0, False, id="a single client may just be a quiet service"),
        pytest.param([4.0, 12.0] * 15 + [4.0], 0.0, False, id="varying"),
    ],
)
def test_a_load_whose_sum_stays_constant_is_a_closed_loop(running, waiting, closed):
    said = o.closed_loop(case(running=running, waiting=waiting))
    assert (said is not None) is closed


@pytest.mark.parametrize(
    ("spread", "closed"),
    [(o.STEADY - 0.001, True), (o.STEADY + 0.001, False)],
    ids=["just under", "just over"],
)
def test_a_closed_loop_varies_by_under_a_tenth(spread, closed):
    running = [20 * (1 + spread), 20 * (1 - spread)] * 16
    said = o.closed_loop(case(readings=32, running=running))
    assert (said is not None) is closed


# -- charts ------------------------------------------------------------------------------------------------


def test_signals_that_were_not_seen_have_no_chart():
    titles = {c.title for c in o.charts(case(usage=None))}
    assert "Requests" in titles
    assert "KV cache usage" not in titles
    assert o.charts(case(readings=1, seconds=0)) == ()


def test_a_line_keeps_few_enough_points_to_print():
    for chart in o.charts(case(readings=1000, seconds=999)):
        for _, points in chart.lines:
            assert 2 <= len(points) <= o.MAX_POINTS


def test_means_of_intervals_are_those_of_the_window_when_all_is_even():
    (chart,) = (c for c in o.charts(case()) if c.title.startswith("TTFT"))
    ((_, points),) = chart.lines
    assert [value for _, value in points] == pytest.approx([0.1] * 30)


# -- the three sums (rule 18) ------------------------------------------------------------------------------


def test_what_hits_save_stands_beside_what_decode_reads_and_what_loads_cost():
    page = endpoint(ttft_mean=1.0, prefill_mean=0.108, queue_mean=0.5, waiting=10)
    page.series("vllm:num_requests_kv_fetch_by_stage", 2, stage="in_progress")
    found = o.sums(case_of(page, machine=H100))
    # 0.1 s for 50 tokens of a prompt, and 450 of it hit.
    assert found.prefill_saved_seconds == pytest.approx(0.9)
    assert found.decode_read_bytes == pytest.approx(H100.step(3800 * 0.008 / 30, 510).kv_high)
    assert found.load_seconds == pytest.approx(0.3)


def test_hits_that_are_counted_in_blocks_save_as_much_as_those_counted_in_tokens():
    tokens = o.sums(case(prefill_mean=0.058))
    blocks = o.sums(case(prefill_mean=0.058, queries=6250, hits=5625, computed=10_000))
    assert tokens.prefill_saved_seconds == pytest.approx(0.45)
    assert blocks.prefill_saved_seconds == pytest.approx(0.45)


def test_where_it_is_not_told_what_was_computed_nothing_is_said_to_be_saved():
    assert o.sums(case_of(old(endpoint()))).prefill_saved_seconds is None


def test_what_is_not_known_is_not_zero():
    found = o.sums(case(first_tokens=0, finished=0))
    assert (found.prefill_saved_seconds, found.decode_read_bytes, found.load_seconds) == (None, None, None)


# -- the roofline point ------------------------------------------------------------------------------------


def test_the_service_has_a_point_under_its_ceiling():
    point = o.roofline_point(case(machine=H100, itl_mean=0.008))
    assert point.bandwidth == H100.bandwidth
    assert 0 < point.achieved_low <= point.achieved_high
    assert point.step_seconds == pytest.approx(0.008)
    assert point.floor_seconds == pytest.approx(H100.step_seconds(point.batch, point.context))


@pytest.mark.parametrize("numbers", [{}, {"machine": H100, "outputs": 1}], ids=["no machine", "no step"])
def test_without_machine_or_steps_there_is_no_point(numbers):
    assert o.roofline_point(case(**numbers)) is None


@pytest.mark.parametrize("value", [1e308, 1e100, float("nan")])
def test_a_gauge_that_is_nonsense_is_no_reading(value):
    seen = case_of(endpoint(running=[4.0] * 30 + [value], waiting=0))
    assert dict(seen.timeline.series(m.RUNNING)).get(30.0) is None
    assert "near 4" in str(o.closed_loop(seen))
