"""How numbers are written for people, and rounded for machines."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdoctor import units


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 ms"),
        (1.7e-16, "0 ms"),
        (8.7e-4, "870 us"),
        (9.9949e-4, "999 us"),
        (9.996e-4, "1.00 ms"),
        (0.035, "35.0 ms"),
        (0.9994, "999 ms"),
        (0.99951, "1.00 s"),
        (1.84, "1.84 s"),
        (119.4, "119 s"),
        (119.9, "2.00 min"),
        (120.6, "2.01 min"),
        (7199.0, "2.00 h"),
        (11160.0, "3.10 h"),
        (-0.01, "-10.0 ms"),
        (math.inf, "undefined"),
        (math.nan, "undefined"),
    ],
)
def test_durations_read_as_a_person_would_write_them(seconds: float, expected: str) -> None:
    assert units.duration(seconds) == expected


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        (units.rate_bytes, 3.35e12, "3.35 TB/s"),
        (units.rate_bytes, 999.9e9, "1.00 TB/s"),
        (units.rate_bytes, 26e9, "26.0 GB/s"),
        (units.rate_bytes, 12.5e6, "12.5 MB/s"),
        (units.rate_bytes, 12.0, "12.0 B/s"),
        (units.gib, 16e9, "14.9 GiB"),
        (units.gib, 2 * 2**20, "2.00 MiB"),
        (units.gib, 0.0, "0 B"),
        (units.gb, 16.1e9, "16.1 GB"),
        (units.gb, 999_999.0, "1.00 MB"),
        (units.percent, 0.87, "87%"),
        (units.percent, 0.003, "0.3%"),
        (units.percent, 0.0, "0%"),
        (units.percent, 1.0, "100%"),
        (units.percent, 0.9949, "99%"),
        (units.percent, 0.997, "99.7%"),
        (units.percent, 0.99999, ">99.9%"),
        (units.percent, 0.0004, "0.04%"),
        (units.percent, 1e-7, "<0.01%"),
        (units.percent, -2e-17, "0%"),
        (units.percent, math.nan, "undefined"),
        (units.count, 402_118.0, "402,118"),
        (units.count, 54.0, "54"),
        (units.count, 5.4, "5.40"),
        (units.count, math.inf, "undefined"),
        (units.moment, 1795980710.9, "2026-11-29 19:31:50 UTC"),
        (units.moment, -1.0, "undefined"),
        (units.moment, 1e300, "undefined"),
        (units.moment, math.nan, "undefined"),
    ],
)
def test_every_kind_of_value_has_its_own_way(function: object, value: float, expected: str) -> None:
    assert callable(function)
    assert function(value) == expected


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0.035, "seconds", "35.0 ms"),
        (2**30, "bytes", "1.00 GiB"),
        (2e9, "bytes/s", "2.00 GB/s"),
        (0.5, "ratio", "50%"),
        (54.0, "events", "54 events"),
        (3.0, "", "3"),
        (1795980710.0, "unix seconds", "2026-11-29 19:31:50 UTC"),
        (math.nan, "seconds", "undefined"),
    ],
)
def test_a_quantity_is_written_in_its_unit(value: float, unit: str, expected: str) -> None:
    assert units.quantity(value, unit) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (2.0, 1.0, "-50%"),
        (1.0, 1.1, "+10%"),
        (1.0, 40.0, "x 40.0"),
        (1.0, 1.0, "unchanged"),
        (1.0, 1.00009, "hardly changed"),
        (1.0, 1.00011, "+0.01%"),
        (1.0, 0.0002, "-99.9%"),
        (1.0, 0.0, "-100%"),
        (-1.0, 20.0, "+2,100%"),
        (0.0, 1.0, "from nothing"),
        (math.nan, 1.0, "undefined"),
    ],
)
def test_a_change_is_told_against_what_was(before: float, after: float, expected: str) -> None:
    assert units.change(before, after) == expected


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (2.0, "seconds", "2 s"),
        (2.5, "seconds", "2.5 s"),
        (0.4, "seconds", "400 ms"),
        (0.0, "seconds", "0"),
        (0.8, "ratio", "80%"),
        (1.0, "ratio", "100%"),
        (20.0, "requests", "20"),
        (1000.0, "tokens/s", "1,000"),
        (2e9, "bytes/s", "2 GB/s"),
    ],
)
def test_an_axis_carries_no_empty_fractions(value: float, unit: str, expected: str) -> None:
    assert units.tick(value, unit) == expected


def test_decimal_ticks_are_for_bytes_of_data_sheets() -> None:
    assert units.tick(3e10, "bytes", decimal=True) == "30 GB"


@given(st.floats(min_value=1e-9, max_value=1e7))
def test_a_duration_keeps_three_figures_of_its_value(seconds: float) -> None:
    scale = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
    number, unit = units.duration(seconds).split(" ")
    assert math.isclose(float(number.replace(",", "")) * scale[unit], seconds, rel_tol=0.0051, abs_tol=1e-12)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_no_value_whatever_breaks_a_writer(value: float) -> None:
    for write in (
        units.duration,
        units.rate_bytes,
        units.gib,
        units.gb,
        units.percent,
        units.count,
        units.moment,
    ):
        assert write(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_precise_number_is_the_number_to_twelve_figures(value: float) -> None:
    rounded = units.precise(value)
    assert rounded is not None
    assert math.isclose(rounded, value, rel_tol=1e-11)


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_a_number_that_json_lacks_is_none(value: float | None) -> None:
    assert units.precise(value) is None
