"""The page's figures: where the time goes, how the signals moved, how the step stands under the roof."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvdoctor.model import Basis, Ledger
from kvdoctor.render import outline, words
from kvdoctor.render.drawing import FONT, GLYPH, SMALL, draw, log_ticks, ticks
from kvdoctor.render.svg import FILLS, MUTED, RULE, SERIES, STROKES, inline
from kvdoctor.render.text import clean, shorten
from kvdoctor.service import Chart, RooflinePoint
from kvdoctor.units import duration, gb, percent, tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEDGER_SIZE, CHART_SIZE, ROOF_SIZE = (620.0, 86.0), (400.0, 190.0), (620.0, 330.0)
NESTED = 0.62
"""Height of a bar inside another one, of the outer one's."""
DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
BASIS_DASHES = {
    Basis.MEASURED: "solid",
    Basis.MODELLED: (0, (4, 2)),
    Basis.UPPER_BOUND: (0, (4, 2)),
    Basis.RESIDUAL: (0, (1.5, 1.5)),
}
ROOF_BEFORE, ROOF_AFTER = 8.0, 0.8
"""Room beside the service on the roofline: a factor left of it, and right of it a share of what lies left (log)."""
ROOF_PLOT = 0.85
"""Width of the plot in the roofline's figure, without the labels of its axis."""
MOST_POINTS = 1200
"""Points of a line that a figure of this size can show; longer lines keep each stretch's extremes."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A ledger's part as a stretch of a bar."""

    row: outline.Row
    left: float
    colour: int


def colours(ledger: Ledger) -> dict[str, int]:
    """Return each row's colour of the page by the row's number; what lies inside a part has the part's."""
    found: dict[str, int] = {}
    free = 0
    for row in outline.rows(ledger):
        top = row.number.split(".")[0]
        if row.depth == 0 and row.part.basis is Basis.RESIDUAL:
            found[row.number] = SERIES
        elif row.depth == 0:
            free += 1
            found[row.number] = 1 + (free - 1) % (SERIES - 1)
        else:
            found[row.number] = found.get(top, SERIES)
    return found


def _segments(ledger: Ledger) -> Iterator[Segment]:
    """Yield the parts that have a length, each where it begins: after its elder, inside its parent."""
    colour = colours(ledger)
    free: dict[str, float] = {"": 0.0}
    for row in outline.rows(ledger):
        above = row.number.rpartition(".")[0]
        left = free.get(above, 0.0)
        length = row.part.seconds if math.isfinite(row.part.seconds) else 0.0
        free[row.number] = left
        free[above] = left + max(0.0, length)
        if length > 0 and row.number:
            yield Segment(row, left, colour[row.number])


def ledger(source: Ledger, slug: str) -> str:
    """Draw a ledger as stacked bars: the whole on top, what lies inside a part under it."""
    segments = tuple(_segments(source))
    whole = max((s.left + s.row.part.seconds for s in segments), default=0.0)
    if whole <= 0:
        return ""
    depth = max(s.row.depth for s in segments)
    height = LEDGER_SIZE[1] + 26 * depth

    def fill(axes: Axes) -> None:
        for segment in segments:
            _bar(axes, segment, whole)
        axes.set_xlim(0, whole)
        axes.set_ylim(-0.06 - depth * (NESTED + 0.06), 1.02)
        axes.yaxis.set_visible(False)
        axes.spines["left"].set_visible(False)
        ticks(axes.xaxis, "seconds", 6)

    said = "; ".join(f"{words.part_name(s.row.part.name)} {duration(s.row.part.seconds)}" for s in segments)
    return inline(draw((LEDGER_SIZE[0], height), fill), slug, words.ledger_title(source), said)


def _bar(axes: Axes, segment: Segment, whole: float) -> None:
    part, depth = segment.row.part, segment.row.depth
    tall = NESTED if depth else 1.0
    bottom = 0.0 if depth == 0 else -depth * (NESTED + 0.06)
    axes.barh(
        bottom,
        part.seconds,
        tall,
        segment.left,
        align="edge",
        facecolor=FILLS[segment.colour - 1],
        edgecolor=STROKES[segment.colour - 1],
        linestyle=BASIS_DASHES[part.basis],
        linewidth=1.2,
    )
    label = _label(segment, part.seconds / whole * (LEDGER_SIZE[0] - 24))
    if label:
        middle = segment.left + part.seconds / 2
        axes.text(middle, bottom + tall / 2, label, ha="center", va="center", size=SMALL, linespacing=1.25)


def _label(segment: Segment, room: float) -> str:
    """Return what fits into a stretch of `room` pixels: number, name, time and share, or less of it."""
    row = segment.row
    name = f"{row.number}  {shorten(words.part_name(row.part.name), 28)}"
    time = duration(row.part.seconds)
    share = f", {percent(row.share)}" if row.share is not None else ""
    choices = [f"{name}, {time}"] if row.depth else [f"{name}\n{time}{share}", f"{row.number}\n{time}"]
    for text in (*choices, row.number):
        if max(len(line) for line in text.split("\n")) * GLYPH * SMALL + 6 <= room:
            return text
    return ""


def _thin(points: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    """Keep the lowest and the highest point of each stretch of a long line, in their order."""
    if len(points) <= MOST_POINTS:
        return points
    stride = math.ceil(2 * len(points) / MOST_POINTS)
    kept: list[tuple[float, float]] = []
    for start in range(0, len(points), stride):
        stretch = points[start : start + stride]
        ends = {min(stretch, key=lambda p: p[1]), max(stretch, key=lambda p: p[1])}
        kept += sorted(ends)
    return tuple(kept)


def _finite(points: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    """Turn what has no place on an axis into a hole in the line."""
    return tuple(
        (at, value if math.isfinite(value) else math.nan) for at, value in points if math.isfinite(at)
    )


def chart(source: Chart, slug: str) -> str:
    """Draw a signal over time; its name and its lines' labels stand beside the figure, as text of the page."""
    lines = [_thin(_finite(points)) for _, points in source.lines]
    if not any(value == value for points in lines for _, value in points):
        return ""
    highest = max(value for points in lines for _, value in points if value == value)

    def fill(axes: Axes) -> None:
        axes.margins(x=0, y=0.1)
        for index, points in enumerate(lines):
            axes.plot(
                [at for at, _ in points],
                [value for _, value in points],
                color=STROKES[index % (SERIES - 1)],
                linestyle=DASHES[index % len(DASHES)],
                linewidth=1.8,
                marker="o" if len(points) == 1 else None,
            )
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]), top=1.02 if _is_share(source, highest) else None)
        axes.grid(axis="y", color=RULE, linewidth=0.6)
        axes.set_axisbelow(True)
        ticks(axes.xaxis, "seconds", 5)
        ticks(axes.yaxis, clean(source.unit), 4)

    labels = ", ".join(clean(label) for label, _ in source.lines)
    return inline(draw(CHART_SIZE, fill), slug, clean(source.title), f"Over time: {labels}")


def _is_share(source: Chart, highest: float) -> bool:
    return source.unit == "ratio" and highest <= 1.0


def roofline(point: RooflinePoint, slug: str, description: str) -> str:
    """Draw the memory roof, log-log: a step's bytes against its time, the fastest and this service's."""
    low, high = point.achieved_low * point.step_seconds, point.achieved_high * point.step_seconds
    sizes = (point.bandwidth, point.step_seconds, low, high)
    if not all(math.isfinite(size) and size > 0 for size in sizes):
        return ""
    ridge = point.bandwidth * point.step_seconds
    left, most = min(low, ridge) / ROOF_BEFORE, max(high, ridge)
    right = most * (most / left) ** ROOF_AFTER

    def fill(axes: Axes) -> None:
        axes.set_xscale("log")
        axes.set_yscale("log")
        ends = (left, right)
        roof = [size / point.bandwidth for size in ends]
        axes.plot(ends, roof, color=STROKES[0], linewidth=2.0)
        axes.fill_between(ends, roof, [roof[0] / 2] * 2, color=FILLS[7], linewidth=0)
        axes.set_xlim(left, right)
        axes.set_ylim(roof[0], roof[1])
        _service(axes, point, (low, high), ridge)
        log_ticks(axes.xaxis, lambda size: tick(size, "bytes", decimal=True))
        log_ticks(axes.yaxis, lambda seconds: tick(seconds, "seconds"))
        axes.set_xlabel("bytes that one decode step reads")
        axes.set_ylabel("time of one step")

    return inline(draw(ROOF_SIZE, fill), slug, "The decode step under the memory roof", description)


def _service(axes: Axes, point: RooflinePoint, read: tuple[float, float], ridge: float) -> None:
    """Mark what the service reads and takes, and the ridge: what the card could read in the same time."""
    step = point.step_seconds
    red, blue = STROKES[4], STROKES[0]
    for end in read:
        axes.plot((end, end), (end / point.bandwidth, step), color=red, linewidth=1.0, linestyle=DASHES[2])
    axes.plot(read, (step, step), color=red, linewidth=5.0, marker="|", markersize=11, markeredgewidth=2.0)
    axes.plot((ridge,), (step,), color=blue, marker="o", markersize=9, markerfacecolor=FILLS[0])
    corner = (0.985, 0.06)
    axes.text(*corner, "faster than memory can be read", ha="right", color=MUTED, transform=axes.transAxes)
    service, roof = f"this service: {tick(step, 'seconds')} a step", f"ridge: {gb(ridge)} in the same time"
    if read[0] > ridge:  # impossible, and told so beside the figure
        _beside(axes, service, (read[1], step), (12, -5), "left")
        _beside(axes, roof, (ridge, step), (10, -18), "left")
        return
    edge = max(read[1], ridge)
    _beside(axes, roof, (edge, step), (12, -5), "left")
    if _pixels(axes, read[0], ridge) > len(service) * GLYPH * FONT:
        _beside(axes, service, (read[0], step), (0, 12), "left")
    else:
        _beside(axes, service, (edge, step), (-6, 12), "right")


def _pixels(axes: Axes, low: float, high: float) -> float:
    """Return about how far two byte counts are apart on the logarithmic axis."""
    left, right = axes.get_xlim()
    return ROOF_SIZE[0] * ROOF_PLOT * math.log(high / low) / math.log(right / left)


def _beside(axes: Axes, text: str, at: tuple[float, float], away: tuple[int, int], align: str) -> None:
    axes.annotate(text, at, away, textcoords="offset points", ha=align, size=FONT)
