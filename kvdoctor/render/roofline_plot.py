"""Curves in a terminal: characters on a grid, told apart by letter and never by colour alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from kvdoctor.render.roofline_scale import Axis, short

MARGIN = 8
"""Columns left of the frame, for the labels of the vertical axis."""


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: the character that draws it, and its points in the order of x."""

    mark: str
    points: tuple[tuple[float, float], ...]


def _put(grid: list[list[str]], column: int, row: int, mark: str) -> None:
    """Set a cell; where curves meet the later one is on top."""
    if 0 <= row < len(grid) and 0 <= column < len(grid[0]):
        grid[row][column] = mark


def _draw(grid: list[list[str]], line: Line, x: Axis, y: Axis) -> None:
    """Draw a curve through every column between its first and last point."""
    width, height = len(grid[0]) - 1, len(grid) - 1
    places = [(x.at(a) * width, height - y.at(b) * height) for a, b in line.points]
    for (x0, y0), (x1, y1) in pairwise(places):
        first, last = round(x0), round(x1)
        for column in range(first, last + 1):
            share = (column - x0) / (x1 - x0) if x1 > x0 else 0.0
            _put(grid, column, round(y0 + (y1 - y0) * min(max(share, 0.0), 1.0)), line.mark)
    if len(places) == 1:
        _put(grid, round(places[0][0]), round(places[0][1]), line.mark)


def _x_labels(x: Axis, width: int) -> str:
    """One line of labels under the frame; those without room are left out."""
    text = [" "] * (width + 6)
    for tick in x.ticks():
        label = short(tick)
        start = max(0, round(x.at(tick) * (width - 1)) - len(label) // 2)
        if all(c == " " for c in text[max(0, start - 1) : start + len(label) + 1]):
            text[start : start + len(label)] = label
    return "".join(text).rstrip()


def plot(lines: tuple[Line, ...], x: Axis, y: Axis, *, width: int = 68, height: int = 12) -> list[str]:
    """Draw curves on a frame of `width` x `height` cells, with labels: at most 80 columns in all."""
    grid = [[" "] * width for _ in range(height)]
    for line in lines:
        _draw(grid, line, x, y)
    labels = {height - 1 - round(y.at(tick) * (height - 1)): short(tick) for tick in reversed(y.ticks())}
    rows = [f"{labels.get(i, ''):>{MARGIN - 2}} |{''.join(cells).rstrip()}" for i, cells in enumerate(grid)]
    pad = " " * (MARGIN - 1)
    return [*rows, f"{pad}+{'-' * width}", f"{pad} {_x_labels(x, width)}"]


def bar(parts: tuple[tuple[str, float], ...], total: float, *, width: int = 68) -> str:
    """One line of blocks: each part's character as often as its share of `total` asks, at least once."""
    cells = ""
    for mark, size in parts:
        if size > 0:
            cells += mark * max(1, round(width * size / total))
    return cells[:width].ljust(width, ".")
