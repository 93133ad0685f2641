"""Histograms of a stretch: what they gained, ranks merged, pages that are cut."""

from __future__ import annotations

import math

import pytest
from loads import Page, timeline

from kvdoctor import metrics as m

NAN = math.nan


def test_a_histogram_is_what_it_gained_in_the_stretch():
    told = Page(2, 3).histogram("vllm:time_to_first_token_seconds", {0.1: 4, 1.0: 6}, 5.0, before=3.0)
    line = timeline(told)
    assert (line.histogram(m.TTFT).count, line.histogram(m.TTFT).total) == (10, 5.0)
    assert line.histogram(m.TTFT).counts == (4, 6, 0)
    assert line.lifetime(m.TTFT).count == 40


def test_ranks_are_merged_before_any_quantile():
    told = Page(2, 3)
    told.histogram("vllm:time_to_first_token_seconds", {0.1: 10}, 0.5, engine="0", bounds=(0.5, 1.0))
    told.histogram("vllm:time_to_first_token_seconds", {1.0: 30}, 20.0, engine="1", bounds=(0.5, 1.0))
    both = timeline(told).histogram(m.TTFT)
    assert (both.count, both.quantile(0.5).low, both.quantile(0.5).high) == (40, 0.5, 1.0)


def test_a_histogram_cut_in_the_middle_at_the_last_reading_loses_no_bucket():
    told = Page(2, 3)
    for le, values in (("0.1", [0, 2, 4]), ("1.0", [0, 5, NAN]), ("+Inf", [0, 5, NAN])):
        told.series("vllm:time_to_first_token_seconds_bucket", values, "histogram", le=le)
    told.series("vllm:time_to_first_token_seconds_sum", [0, 2.5, NAN], "histogram")
    told.series("vllm:time_to_first_token_seconds_count", [0, 5, NAN], "histogram")
    found = timeline(told).histogram(m.TTFT)
    assert (found.counts, found.count, found.mean) == ((4, 1, 0), 5, 0.5)


@pytest.mark.parametrize("le", ["NaN", "", "junk"])
def test_a_bucket_without_a_bound_does_no_harm(le):
    told = Page(2, 3).histogram("vllm:time_to_first_token_seconds", {0.1: 4, 1.0: 6}, 5.0)
    told.series("vllm:time_to_first_token_seconds_bucket", [0, 0, 99], "histogram", le=le)
    found = timeline(told).histogram(m.TTFT)
    assert (found.count, found.quantile(0.95).high) == (10, 1.0)


def test_a_histogram_without_its_sum_has_no_mean_to_tell():
    told = Page(2, 3).histogram("vllm:time_to_first_token_seconds", {0.1: 4}, 0.3)
    told.columns = [c for c in told.columns if not c.name.endswith("_sum")]
    assert timeline(told).histogram(m.TTFT) is None


def test_an_empty_family_is_absent():
    told = Page(2, 3).series("vllm:time_to_first_token_seconds_sum", 0.0, "histogram")
    assert not timeline(told).has(m.TTFT)
