"""The figures: lengths that are right, and nothing that breaks them."""

from __future__ import annotations

import math
import re

import pytest
from diagnosis_capacity import CAPACITY

from kvdoctor.model import Basis, Ledger, Metric, Part
from kvdoctor.render import drawing, figures
from kvdoctor.service import Chart, RooflinePoint

POINT = CAPACITY.roofline
assert POINT is not None


def boxes(svg: str) -> list[tuple[float, float, float]]:
    """Return (left, right, top) of every bar of a ledger's figure."""
    paths = re.findall(r'<path d="M ([\d.]+) ([\d.]+) \nL ([\d.]+) [\d.]+ \nL [\d.]+ ([\d.]+) \nL', svg)
    return [(float(left), float(right), float(top)) for left, _, right, top in paths]


def texts(svg: str) -> list[str]:
    """Return what a figure says."""
    return [re.sub(r"<[^>]*>", "", text) for text in re.findall(r"<text.*?</text>", svg, re.DOTALL)]


def ledger(*parts: Part) -> Ledger:
    """Return a TTFT ledger whose whole is the sum of its parts."""
    return Ledger(Metric.TTFT, sum(p.seconds for p in parts if p.parent is None), 50, parts)


def test_bars_lie_end_to_end_and_are_as_long_as_their_seconds() -> None:
    parts = [Part(name, s, Basis.MEASURED) for name, s in (("queue", 0.5), ("prefill", 0.3), ("rest", 0.2))]
    (a, b, c) = boxes(figures.ledger(ledger(*parts), "x"))
    assert math.isclose(a[1], b[0], abs_tol=0.01)
    assert math.isclose(b[1], c[0], abs_tol=0.01)
    assert math.isclose((a[1] - a[0]) / (c[1] - c[0]), 2.5, rel_tol=0.001)


def test_a_part_inside_another_begins_where_that_one_begins_and_lies_under_it() -> None:
    first, whole = Part("frontend", 0.4, Basis.RESIDUAL), Part("queue", 0.6, Basis.MEASURED)
    inner = Part("wait", 0.3, Basis.MEASURED, "queue")
    (_, outer, inside) = boxes(figures.ledger(ledger(first, whole, inner), "x"))
    assert math.isclose(outer[0], inside[0], abs_tol=0.01)
    assert inside[2] > outer[2]


def test_a_wide_part_is_named_and_a_narrow_one_keeps_its_number_or_nothing() -> None:
    parts = [
        Part(name, s, Basis.MEASURED) for name, s in (("queue", 0.9), ("prefill", 0.06), ("dust", 0.001))
    ]
    said = texts(figures.ledger(ledger(*parts), "x"))
    assert "1  queue" in said
    assert "2" in said
    assert not any("dust" in text or text == "3" for text in said)


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (Part("queue", 0.0, Basis.MEASURED),),
        (Part("queue", -1.0, Basis.RESIDUAL),),
        (Part("queue", math.nan, Basis.MEASURED), Part("prefill", math.inf, Basis.MEASURED)),
    ],
)
def test_nothing_to_draw_is_no_figure(parts: tuple[Part, ...]) -> None:
    assert figures.ledger(ledger(*parts), "x") == ""


def test_what_is_left_over_is_grey_and_what_lies_inside_has_its_parents_colour() -> None:
    parts = (
        Part("frontend", 0.1, Basis.RESIDUAL),
        Part("queue", 0.5, Basis.MEASURED),
        Part("wait", 0.3, Basis.MEASURED, "queue"),
        Part("prefill", 0.4, Basis.MEASURED),
    )
    assert figures.colours(ledger(*parts)) == {"1": 8, "2": 1, "2.1": 1, "3": 2}


def test_a_hole_in_a_signal_is_a_hole_in_its_line() -> None:
    whole = Chart("t", "ratio", (("a", tuple((float(i), 0.5) for i in range(9))),))
    holed = Chart(
        "t", "ratio", (("a", tuple((float(i), math.nan if i == 4 else 0.5 + i / 100) for i in range(9))),)
    )
    assert figures.chart(whole, "x").count("clip-path") == figures.chart(holed, "x").count("clip-path")
    line = max(re.findall(r'<path d="([^"]*)"[^>]*var\(--c1\)', figures.chart(holed, "x")), key=len)
    assert line.count("M") == 2


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (("a", ()),),
        (("a", ((0.0, math.nan), (1.0, math.inf))),),
        (("a", ((math.nan, 1.0),)),),
    ],
)
def test_a_chart_without_a_point_is_left_out(
    lines: tuple[tuple[str, tuple[tuple[float, float], ...]], ...],
) -> None:
    assert figures.chart(Chart("t", "seconds", lines), "x") == ""


def test_one_point_is_a_dot() -> None:
    assert "<use" in figures.chart(Chart("t", "seconds", (("a", ((3.0, 0.2),)),)), "x")


def test_an_hour_of_readings_keeps_its_extremes_in_a_small_figure() -> None:
    points = tuple((float(i), 100.0 if i == 1801 else float(i % 7)) for i in range(3600))
    drawn = figures.chart(Chart("t", "requests", (("a", points),)), "x")
    assert len(drawn) < 60_000
    assert "100" in texts(drawn)


def test_the_roofline_names_this_service_and_the_ridge() -> None:
    said = texts(figures.roofline(POINT, "roof", "words"))
    assert "this service: 19.5 ms a step" in said
    assert "ridge: 56.7 GB in the same time" in said


@pytest.mark.parametrize("low", [1e9, 1e10, 1e11, 1e12, 2.9e12, 2e13])
def test_the_roofs_words_stay_inside_its_frame(low: float) -> None:
    point = RooflinePoint(2.91e12, "given", low, max(low, 1.2e12), 0.0195, 0.001, 1.0, 100.0)
    drawn = figures.roofline(point, "roof", "words")
    for anchor, x, text in re.findall(
        r'text-anchor: (\w+)" x="([\d.]+)"[^>]*>(this service[^<]*|ridge[^<]*)<', drawn
    ):
        width = len(text) * drawing.GLYPH * drawing.FONT
        left = float(x) - (width if anchor == "end" else 0)
        assert left >= 0
        assert left + width <= figures.ROOF_SIZE[0]


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, math.inf, math.nan])
def test_a_ceiling_that_is_none_draws_no_roof(bandwidth: float) -> None:
    point = RooflinePoint(bandwidth, "given", 1e12, 1.2e12, 0.0195, 0.001, 1.0, 100.0)
    assert figures.roofline(point, "roof", "words") == ""
