"""The report as one static page: no script, nothing fetched, its figures inside, its text never markup."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

from kvdoctor import units
from kvdoctor.model import Diagnosis, Verdict
from kvdoctor.render import facts, figures, outline, words
from kvdoctor.render.text import clean, name, visible
from kvdoctor.service import Chart

_TOGETHER = re.compile(r"(?<=\d) (?=(?:us|ms|s|min|h|[kMGT]?B(?:/s)?|[KMG]iB)\b)| (?=/ )")
"""Blanks at which no line may break: between a number and its unit, and before a stroke."""
_QUANTITY = re.compile(r"[<>-]?\d[\d.,]* [\w/]{1,16}")


def _visible(value: Any) -> Any:
    """Clean whatever string the template writes, and keep numbers with their units; markup is our own."""
    if type(value) is not str:
        return value
    text = visible(value)
    blanks = re.compile(" ") if _QUANTITY.fullmatch(text) else _TOGETHER
    return blanks.sub("\N{NO-BREAK SPACE}", text)


def _charts(diagnosis: Diagnosis) -> tuple[tuple[Chart, str], ...]:
    """Return each chart that has something to draw, with its figure."""
    drawn = ((chart, figures.chart(chart, f"chart{n}")) for n, chart in enumerate(diagnosis.charts))
    return tuple((chart, figure) for chart, figure in drawn if figure)


def render(diagnosis: Diagnosis) -> str:
    """Return the page; the same bytes for the same diagnosis."""
    from jinja2 import Environment, StrictUndefined

    package = files("kvdoctor.render")
    environment = Environment(autoescape=True, finalize=_visible, undefined=StrictUndefined)
    environment.filters |= {"name": name, "sentence": clean}
    template = environment.from_string(package.joinpath("report.html.j2").read_text(encoding="utf-8"))
    return (
        template.render(
            d=diagnosis,
            css=package.joinpath("report.css").read_text(encoding="utf-8"),
            charts=_charts(diagnosis),
            words=words,
            facts=facts,
            outline=outline,
            figures=figures,
            units=units,
            Verdict=Verdict,
        ).lstrip()
        + "\n"
    )
