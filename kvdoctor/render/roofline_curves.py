"""The curves of a sweep, as text: rates and step time over batch or context."""

from __future__ import annotations

from kvdoctor.render.roofline_plot import Line, plot
from kvdoctor.render.roofline_scale import Axis, around
from kvdoctor.roofline.report import Sweep
from kvdoctor.roofline.sweep import Point


def across(sweep: Sweep, point: Point) -> float:
    """Where a point lies on the sweep's own axis."""
    return point.batch if sweep.over == "batch" else point.context


def text_curves(sweep: Sweep) -> list[str]:
    """Tokens/s in total (#), a sequence (o) and the expected range in total (:), on log axes."""
    points = sweep.points
    if len(points) < 2:
        return []
    total = tuple((across(sweep, p), p.ceiling) for p in points)
    each = tuple((across(sweep, p), p.ceiling / p.batch) for p in points)
    low = tuple((across(sweep, p), p.expected[0]) for p in points)
    high = tuple((across(sweep, p), p.expected[1]) for p in points)
    x = Axis(across(sweep, points[0]), across(sweep, points[-1]), log=True)
    y = around([v for line in (total, each, low, high) for _, v in line], log=True)
    lines = (Line(":", low), Line(":", high), Line("o", each), Line("#", total))
    legend = f"  tok/s over {sweep.over}: # ceiling, : expected (in total), o ceiling a sequence"
    return [legend, *plot(lines, x, y)]
