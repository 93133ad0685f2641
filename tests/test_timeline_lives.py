"""Stretches of a source whose process started anew, and single readings of one."""

from __future__ import annotations

import math

from loads import WALL, Page, case_of, process, timeline

from kvdoctor import metrics as m
from kvdoctor.timeline import Timeline

NAN = math.nan


def three(name: str, values: list[float], kind: str = "counter", **labels: str) -> Page:
    """One series of three readings, a second apart."""
    return Page(2, 3).series(name, values, kind, **labels)


def restarted() -> Page:
    """Six readings: two of a life with an old name and another model, four of the next."""
    told = Page(5, 6)
    told.series("vllm:generation_tokens_total", [900, 950, 10, 20, 30, 40], "counter")
    told.series("vllm:gpu_cache_usage_perc", [0.9, 0.9, NAN, NAN, NAN, NAN])
    told.series("vllm:request_success_total", [70, 80, NAN, NAN, 3, 4], "counter", finished_reason="stop")
    told.series("vllm:request_success_total", [7, 8, NAN, NAN, NAN, NAN], "counter", finished_reason="abort")
    told.series("vllm:num_requests_running", [9, 9, NAN, NAN, NAN, NAN], model_name="former")
    told.series("vllm:num_requests_running", [NAN, NAN, 1, 1, 1, 1])
    return told


def test_what_was_read_before_the_stretch_is_of_a_process_that_is_gone():
    line = timeline(restarted(), 2)
    assert line.delta(m.GENERATED) == 30
    assert (line.delta(m.FINISHED), line.total(m.FINISHED)) == (4, 4)
    assert not line.has(m.KV_CACHE_USAGE)
    assert line.gauge(m.RUNNING).peak == 1
    assert line.models() == ("tiny",)


def test_one_reading_gives_sums_since_the_start():
    line = Timeline(
        three("vllm:generation_tokens_total", [10, 15, 30]).source(), timeline(Page()).engine, -1, 2
    )
    assert math.isnan(line.seconds)
    assert (line.delta(m.GENERATED), line.times()) == (30, [2.0])


def test_one_reading_after_a_restart_looks_at_no_other():
    told = three("vllm:num_requests_running", [9, 9, 0], "gauge")
    told.series("vllm:generation_tokens_total", [50, 60, 5], "counter")
    line = Timeline(told.source(), timeline(told).engine, -1, 2)
    assert (line.gauge(m.RUNNING).peak, line.delta(m.GENERATED)) == (0, 5)


def test_two_readings_of_two_lives_are_one_reading_of_the_newest():
    told = Page(1, 2)
    process(told, [WALL - 900, WALL])
    told.series("vllm:num_requests_running", [9, 1])
    told.series("vllm:generation_tokens_total", [50, 60], "counter")
    case = case_of(told)
    assert case.traffic.lifetime
    assert (case.traffic.running.peak, case.traffic.generated) == (1, 60)
