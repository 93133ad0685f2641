"""Figures as inline SVG, written by hand: no plotting library, readable in light and in dark."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from kvdoctor.render.roofline_scale import Axis, short

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 16, 46
"""Room around the frame for labels, in SVG units."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve: its class (`a`, `b`, `c`, `roof`), its name beside it, and its points in the order of x."""

    style: str
    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A labelled place: a point, or a vertical line where `y` is None; `low` and `high` add a bar through it."""

    name: str
    x: float
    y: float | None = None
    low: float | None = None
    high: float | None = None
    line: int = 0
    """Lines of text that the name of a vertical line is moved down, so that names do not meet."""


@dataclass(frozen=True, slots=True)
class Plane:
    """The frame of one figure."""

    x: Axis
    y: Axis
    x_name: str
    y_name: str

    def place(self, x: float, y: float) -> tuple[float, float]:
        """SVG coordinates of a value."""
        return (
            LEFT + self.x.at(x) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - self.y.at(y) * (HEIGHT - TOP - BOTTOM),
        )


def text(x: float, y: float, words: str, *, anchor: str = "middle", style: str = "") -> str:
    """A label; `words` may come from outside and is escaped."""
    kind = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(words)}</text>'


def _grid(plane: Plane) -> list[str]:
    """Grid lines, tick labels and the names of the axes."""
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    out = []
    for tick in plane.x.ticks():
        x, _ = plane.place(tick, plane.y.low)
        out.append(f'<path class="grid" d="M{x:.1f} {TOP}V{bottom}"/>{text(x, bottom + 15, short(tick))}')
    for tick in plane.y.ticks():
        _, y = plane.place(plane.x.low, tick)
        out.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
        out.append(text(LEFT - 6, y + 4, short(tick), anchor="end"))
    out.append(text((LEFT + right) / 2, HEIGHT - 10, plane.x_name, style="name"))
    turned = f'transform="rotate(-90 14 {(TOP + bottom) / 2:.1f})"'
    name = escape(plane.y_name)
    out.append(
        f'<text class="name" text-anchor="middle" x="14" y="{(TOP + bottom) / 2:.1f}" {turned}>{name}</text>'
    )
    return out


def _curve(plane: Plane, curve: Curve) -> str:
    """One curve and, where it ends, its name."""
    places = [plane.place(x, y) for x, y in curve.points]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    return f'<path class="curve {curve.style}" d="{path}"/>'


def _mark(plane: Plane, mark: Mark) -> str:
    """A point with its bar and its name, or a dashed vertical line with its name."""
    if mark.y is None:
        x, _ = plane.place(mark.x, plane.y.low)
        anchor, shift = ("end", -5) if plane.x.at(mark.x) > 0.6 else ("start", 5)
        line = f'<path class="limit" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
        return line + text(x + shift, TOP + 12 + 15 * mark.line, mark.name, anchor=anchor)
    x, y = plane.place(mark.x, mark.y)
    out = ""
    if mark.low is not None and mark.high is not None:
        top, end = plane.place(mark.x, mark.high)[1], plane.place(mark.x, mark.low)[1]
        out = f'<path class="range" d="M{x:.1f} {top:.1f}V{end:.1f}"/>'
    anchor, shift = ("end", -9) if plane.x.at(mark.x) > 0.6 else ("start", 9)
    return f'{out}<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>' + text(
        x + shift, y + 18, mark.name, anchor=anchor, style="strong"
    )


def _legend(curves: tuple[Curve, ...]) -> str:
    """A sample of each named curve above the frame's upper left corner."""
    out, x = [], float(LEFT)
    for curve in curves:
        if not curve.name:
            continue
        out.append(f'<path class="curve {curve.style}" d="M{x:.1f} {TOP - 10}h22"/>')
        out.append(text(x + 27, TOP - 6, curve.name, anchor="start"))
        x += 45 + 6.6 * len(curve.name)
    return "".join(out)


def figure(title: str, plane: Plane, curves: tuple[Curve, ...], marks: tuple[Mark, ...] = ()) -> str:
    """One figure; `title` is what a screen reader says of it."""
    legend = _legend(curves)
    top = -24 if legend else -4
    head = (
        f'<svg role="img" aria-label="{escape(title, quote=True)}" viewBox="0 {top} {WIDTH} {HEIGHT - top}">'
        f"<title>{escape(title)}</title>"
    )
    body = [*_grid(plane), *(_curve(plane, c) for c in curves), *(_mark(plane, m) for m in marks), legend]
    return head + "".join(body) + "</svg>"


def stack(
    title: str, parts: tuple[tuple[str, str, float], ...], total: float, limit: float | None = None
) -> str:
    """A bar of `parts` (class, name, size) in a frame of `total`; what is over the frame stands out of it.

    A dashed line marks `limit`.
    """
    scale = (WIDTH - 20) / max(total, sum(size for _, _, size in parts))
    out, x = [], 10.0
    for style, name, size in parts:
        wide = size * scale
        label = f"<title>{escape(name)}</title>"
        out.append(
            f'<rect class="part {style}" x="{x:.1f}" y="14" width="{wide:.1f}" height="34">{label}</rect>'
        )
        if wide > 7.0 * len(name):
            out.append(text(x + wide / 2, 36, name, style="part-label"))
        x += wide
    frame = f'<rect class="frame" x="10" y="10" width="{total * scale:.1f}" height="42"/>'
    if limit is not None:
        frame += f'<path class="limit" d="M{10 + limit * scale:.1f} 4V58"/>'
    head = f'<svg role="img" aria-label="{escape(title, quote=True)}" viewBox="0 0 {WIDTH} 62">'
    return f"{head}<title>{escape(title)}</title>{''.join(out)}{frame}</svg>"
