"""The roofline as a page."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from rooflines import question, report

from kvdoctor.render import roofline_figures, roofline_html
from kvdoctor.roofline.answer import answer

VOID = {"meta", "br"}


class Balance(HTMLParser):
    """Counts tags that are opened and not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open."""
        self.scripts += tag == "script" or any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close."""
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open and close."""


@pytest.mark.parametrize(
    "options", [{}, {"model": "Llama-2-70B"}, {"gpu": None}, {"gpu": None, "bandwidth": "1000"}]
)
def test_the_page_is_balanced_fetches_nothing_and_runs_nothing(options: dict[str, object]) -> None:
    asked = question(**options)  # type: ignore[arg-type]
    known = asked.machine is not None
    page = roofline_html.render(report(asked, "85 tok/s" if known else None, swept=known))
    parser = Balance()
    parser.feed(page)
    assert (parser.open, parser.scripts) == ([], 0)
    assert not re.search(r'(src|href)="|url\(|@import|https?:', page)
    assert "prefers-color-scheme: dark" in page


def test_what_comes_from_outside_is_text() -> None:
    asked = question()
    hostile = replace(
        asked, shape=replace(asked.shape, name="<img src=x onerror=alert(1)>", warnings=("<b>w</b>",))
    )
    page = roofline_html.render(report(hostile, "85 tok/s"))
    assert "<img" not in page
    assert "<b>w" not in page
    assert "&lt;b&gt;w&lt;/b&gt;" in page


def test_every_figure_is_well_formed_and_named() -> None:
    found = report(question("Qwen3-Next-80B-A3B", gpus=2, batch=64.0))
    sweep = found.sweep
    assert sweep is not None
    drawn = [
        roofline_figures.roof(found.answer, sweep),
        roofline_figures.throughput(sweep),
        roofline_figures.latency(sweep),
        roofline_figures.memory(found.answer),
    ]
    for svg in drawn:
        root = ElementTree.fromstring(svg)
        assert root.attrib["role"] == "img"
        assert root.find("title") is not None
        assert "nan" not in svg


def test_the_service_lies_on_the_roof_and_its_expectation_below() -> None:
    found = report(question(batch=32.0))
    assert found.sweep is not None
    root = ElementTree.fromstring(roofline_figures.roof(found.answer, found.sweep))
    point = next(item for item in root.iter("circle"))
    spread = next(item for item in root.iter("path") if item.attrib["class"] == "range")
    top, bottom = (float(n) for n in re.findall(r"[MV][\d. ]*?([\d.]+)(?=V|$)", spread.attrib["d"]))
    assert float(point.attrib["cy"]) < top < bottom


def test_without_a_peak_there_is_no_roof() -> None:
    found = report(question(gpu=None, bandwidth="1000"))
    assert found.sweep is not None
    assert roofline_figures.roof(found.answer, found.sweep) == ""


def test_the_memory_bar_shows_what_stands_out_of_the_card() -> None:
    root = ElementTree.fromstring(roofline_figures.memory(answer(question("Llama-2-70B"))))
    frame = next(item for item in root.iter("rect") if item.attrib["class"] == "frame")
    weights = next(item for item in root.iter("rect") if item.attrib["class"] == "part w")
    assert float(weights.attrib["width"]) > float(frame.attrib["width"])
