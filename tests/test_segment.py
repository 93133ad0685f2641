"""Where counters start over, and which stretch of a recording is judged."""

from __future__ import annotations

import math

import pytest
from loads import Page, process

from kvdoctor.engines.vllm import ENGINE
from kvdoctor.segment import MIN_SECONDS, Stretch, chosen, restarts, stretches

NAN = math.nan
TOKENS = "vllm:generation_tokens_total"


def page(
    values: list[float], name: str = TOKENS, kind: str = "counter", seconds: float | None = None
) -> Page:
    """One series, one reading a second unless told otherwise."""
    length = len(values) - 1 if seconds is None else seconds
    return Page(length, len(values)).series(name, values, kind)


def found(page: Page) -> list[int]:
    return restarts(page.source(), ENGINE)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([5, 6, 7, 8], [], id="rising"),
        pytest.param([5, 5, 5, 5], [], id="standing still"),
        pytest.param([5, 6, 1, 2], [2], id="fell"),
        pytest.param([5, 6, 5.999, 7], [2], id="fell a little"),
        pytest.param([5, NAN, NAN, 6], [], id="gone, and back higher"),
        pytest.param([5, NAN, NAN, 3], [3], id="gone, and back lower"),
        pytest.param([5, 1, 2, 0], [1, 3], id="twice"),
        pytest.param([NAN, NAN, 1, 2], [], id="came late"),
    ],
)
def test_a_counter_that_stands_lower_than_before_tells_a_restart(values, expected):
    assert found(page(values)) == expected


@pytest.mark.parametrize(
    ("name", "kind", "is_counter"),
    [
        ("vllm:request_queue_time_seconds_count", "histogram", True),
        ("vllm:request_queue_time_seconds_bucket", "histogram", True),
        ("vllm:request_queue_time_seconds_sum", "histogram", False),
        ("vllm:generation_tokens", "counter", True),
        ("vllm:generation_tokens", "", False),
        ("vllm:generation_tokens_total", "", True),
        ("vllm:num_requests_running", "gauge", False),
        ("vllm:odd_total", "gauge", False),
        ("ray_vllm_generation_tokens_total", "counter", True),
        ("python_gc_objects_collected_total", "counter", False),
    ],
)
def test_only_the_counters_of_the_engine_tell_a_restart_by_falling(name, kind, is_counter):
    assert found(page([5, 6, 1], name, kind)) == ([2] if is_counter else [])


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("process_start_time_seconds", [100, 100, 200], [2]),
        ("process_start_time_seconds", [100, 100, 100], []),
        ("process_start_time_seconds", [200, 100, 100], [1]),
        ("process_start_time_seconds", [NAN, 100, 100], []),
        ("process_start_time_seconds", [100, NAN, 200], [2]),
        ("vllm:generation_tokens_created", [100, 100, 200], [2]),
        ("vllm:generation_tokens_created", [NAN, NAN, 200], []),
    ],
)
def test_a_start_time_that_moves_tells_a_restart(name, values, expected):
    assert found(page(values, name, "gauge")) == expected


def test_one_restart_that_many_series_show_is_one():
    told = page([5, 6, 1, 2]).series("vllm:prompt_tokens_total", [50, 60, 10, 20], "counter")
    assert found(process(told, [100, 100, 200, 200])) == [2]


def test_a_series_that_comes_back_long_after_a_restart_is_no_second_one():
    told = page([5, 6, 1, 2, 3, 4])
    told.series("vllm:kv_offload_tiering_read_bytes_total", [50, 60, NAN, NAN, 5, 6], "counter", tier="disk")
    told.series("vllm:kv_offload_tiering_read_bytes_created", [9, 9, NAN, NAN, 10, 10], tier="disk")
    assert found(told) == [2]


def test_a_series_that_comes_back_long_after_another_restart_is_one_of_its_own():
    told = page([5, 1, 2, 3, 4, 5])
    told.series("vllm:kv_offload_tiering_read_bytes_total", [50, 60, 70, NAN, 5, 6], "counter", tier="disk")
    assert found(told) == [1, 4]


def test_an_empty_source_has_no_stretch():
    source = Page(0, 1).source()
    del source.at[:]
    assert (stretches(source, ENGINE), chosen(source, ENGINE)) == ([], None)


def test_restarts_cut_the_readings_into_stretches():
    assert stretches(page([5, 6, 1, 2, 0]).source(), ENGINE) == [Stretch(0, 1), Stretch(2, 3), Stretch(4, 4)]


@pytest.mark.parametrize(
    ("values", "seconds", "expected"),
    [
        pytest.param([9, 9, 1, 2], 3.0, Stretch(2, 3), id="all short: the newest of the longest"),
        pytest.param([9, 9, 9, 1, 2], 4.0, Stretch(0, 2), id="all short: the longest"),
        pytest.param([9, 1], 1.0, Stretch(1, 1), id="two readings of two lives: the newest"),
    ],
)
def test_without_a_stretch_long_enough_the_longest_is_judged(values, seconds, expected):
    assert chosen(page([float(v) for v in values], seconds=seconds).source(), ENGINE) == expected


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param(MIN_SECONDS - 1, Stretch(0, 9), id="newest just too short"),
        pytest.param(MIN_SECONDS, Stretch(10, 15), id="newest just long enough"),
    ],
)
def test_the_newest_stretch_of_five_seconds_is_judged(after, expected):
    values = [float(v) for v in range(10, 20)] + [float(v) for v in range(int(after) + 1)]
    assert chosen(page(values).source(), ENGINE) == expected


@pytest.mark.parametrize(
    ("torn", "first"),
    [pytest.param(1, 0, id="a tenth of the series came late"), pytest.param(2, 1, id="two tenths came late")],
)
def test_a_first_reading_that_was_cut_is_passed_over(torn, first):
    cut = Page(10, 11)
    for number in range(10):
        cut = cut.series(f"vllm:kind_{number}_total", [float(v) for v in range(11)], "counter")
    for number in range(torn):
        cut = cut.series(f"vllm:late_{number}_total", [NAN, *(1e6 + v for v in range(10))], "counter")
    assert chosen(cut.source(), ENGINE) == Stretch(first, 10)
