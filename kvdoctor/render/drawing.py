"""How a figure is drawn: one pair of axes in the page's fonts and colours, the same bytes each time."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kvdoctor.render.svg import INK, MUTED, RULE
from kvdoctor.units import tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOTS_PER_INCH = 72  # one SVG unit a point, so that sizes below are in CSS pixels
FONT, SMALL = 13.0, 11.5
GLYPH = 0.56
"""Mean width of a character in font sizes: DejaVu Sans, on the wide side, so that labels stay inside."""
SHORT_AXIS = 3.5
"""Powers of ten up to which a logarithmic axis has room for a tick at 3."""
RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "kvdoctor",
    "text.parse_math": False,
    "text.usetex": False,
    "font.family": ["DejaVu Sans"],
    "font.size": FONT,
    "axes.edgecolor": RULE,
    "axes.labelcolor": MUTED,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "axes.unicode_minus": False,
}


def draw(size: tuple[float, float], fill: Callable[[Axes], None]) -> str:
    """Return the SVG of one pair of axes that `fill` fills; the same bytes for the same figure."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    buffer = io.StringIO()
    with rc_context(RC), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # only its width is guessed
        figure = Figure(
            (size[0] / DOTS_PER_INCH, size[1] / DOTS_PER_INCH), DOTS_PER_INCH, layout="constrained"
        )
        canvas = FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        figure.patch.set_visible(False)
        axes.patch.set_visible(False)
        axes.spines[["top", "right"]].set_visible(False)
        fill(axes)
        canvas.print_svg(buffer, metadata={"Date": None})  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def ticks(axis: Any, unit: str, most: int) -> None:
    """Give an axis at most so many ticks, written as a person would."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value, unit)))
    axis.set_tick_params(length=3, color=RULE)


def log_ticks(axis: Any, write: Callable[[float], str]) -> None:
    """Give a logarithmic axis ticks at each power of ten, and at 3 of it where there is room."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = axis.get_view_interval()
    subs = (1.0, 3.0) if high / low < 10**SHORT_AXIS else (1.0,)
    axis.set_major_locator(LogLocator(10, subs=subs, numticks=12))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))
    axis.set_tick_params(length=3, color=RULE)
