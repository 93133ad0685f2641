"""The page: one file, nothing fetched, nothing run, both themes readable."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.resources import files
from itertools import pairwise

import pytest
from diagnoses import SAMPLES
from diagnosis_capacity import CAPACITY
from diagnosis_states import HEALTHY
from page import Page

from kvdoctor.model import Diagnosis
from kvdoctor.render.html import render
from kvdoctor.render.svg import SERIES

CSS = files("kvdoctor.render").joinpath("report.css").read_text(encoding="utf-8")
AA_TEXT, AA_GRAPHICS = 4.5, 3.0  # WCAG 2.2, 1.4.3 and 1.4.11


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: render(diagnosis) for name, diagnosis in SAMPLES.items()}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_page_fetches_and_runs_nothing(pages: dict[str, str], name: str) -> None:
    page = Page(pages[name])
    assert not {"script", "img", "link", "iframe", "object", "embed", "base", "form", "image"} & set(
        page.tags
    )
    assert not [a for _, a, _ in page.attributes if a.startswith("on") or a in ("src", "srcset", "href")]
    assert all(value.startswith("#") for value in page.values("xlink:href"))
    assert not re.search(r"url\((?!#)|@import|@font-face", pages[name])


def test_the_policy_forbids_everything_but_its_own_style(pages: dict[str, str]) -> None:
    page = Page(pages["capacity"])
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page.values("content")


@pytest.mark.parametrize("name", SAMPLES)
def test_ids_are_unique_and_every_reference_has_its_target(pages: dict[str, str], name: str) -> None:
    page = Page(pages[name])
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    wanted = {value for values in page.values("aria-labelledby") for value in values.split()}
    wanted |= {value[1:] for value in page.values("xlink:href")} | set(
        re.findall(r"url\(#([^)]*)\)", pages[name])
    )
    assert wanted <= set(ids)


def test_headings_go_down_one_level_at_a_time_and_tables_name_their_columns(pages: dict[str, str]) -> None:
    page = Page(pages["capacity"])
    levels = [int(tag[1]) for tag in page.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.tags.count("thead") == page.tags.count("table")
    assert {value for tag, name, value in page.attributes if tag == "th" and name == "scope"} == {
        "col",
        "row",
    }


def test_there_is_a_figure_for_each_ledger_chart_and_roof_with_words_for_who_cannot_see(
    pages: dict[str, str],
) -> None:
    page = Page(pages["capacity"])
    assert page.tags.count("svg") == 2 + len(CAPACITY.charts) + 1
    assert page.tags.count("desc") == page.tags.count("svg")
    assert page.values("role") == ["img"] * page.tags.count("svg")


def test_the_figures_follow_the_theme(pages: dict[str, str]) -> None:
    drawn = "".join(re.findall(r"<svg.*?</svg>", pages["capacity"], re.DOTALL))
    assert not re.search(r"#[0-9a-f]{6}|rgb\(|black", drawn)
    assert {"var(--ink)", "var(--muted)", "var(--c1)", "var(--f1)"} <= set(re.findall(r"var\([^)]*\)", drawn))


@pytest.mark.parametrize("name", ["capacity", "network", "idle", "lifetime"])
def test_what_the_answer_says_is_on_the_page(pages: dict[str, str], name: str) -> None:
    diagnosis: Diagnosis = SAMPLES[name]
    text = Page(pages[name]).text
    expected = [diagnosis.summary, diagnosis.next_measurement, *diagnosis.confidence_reasons]
    expected += [item.expect for finding in diagnosis.findings for item in finding.advice]
    expected += [gap.cure for gap in diagnosis.gaps]
    assert [sentence for sentence in expected if sentence not in text] == []


def test_the_same_answer_gives_the_same_bytes_in_another_process(pages: dict[str, str]) -> None:
    code = "import sys, diagnoses; from kvdoctor.render.html import render; "
    code += "sys.stdout.buffer.write(render(diagnoses.CAPACITY).encode())"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": "tests", "PATH": "", "TZ": "Asia/Tokyo"},
        cwd=files("kvdoctor").joinpath(".."),  # type: ignore[call-overload]
        capture_output=True,
        check=True,
    )
    assert ran.stdout.decode() == pages["capacity"]


def test_drawing_leaves_the_librarys_settings_alone() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    render(HEALTHY)
    assert dict(matplotlib.rcParams) == before


def themes() -> dict[str, dict[str, str]]:
    """Return the custom colours of both themes."""
    blocks = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)[:2]
    return {
        theme: dict(re.findall(r"(--[\w]+): (#[0-9a-f]{6})", block))
        for theme, block in zip(("light", "dark"), blocks, strict=True)
    }


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb, WCAG 2.2."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, WCAG 2.2."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast_is_aa_in_both_themes(theme: str) -> None:
    colours = themes()[theme]
    grounds = [colours["--paper"], colours["--raised"]]
    for text in ("--ink", "--muted"):
        assert min(contrast(colours[text], ground) for ground in grounds) >= AA_TEXT
    for text in ("--bad", "--warn"):
        assert contrast(colours[text], colours["--paper"]) >= AA_TEXT
    for n in range(1, SERIES + 1):
        assert contrast(colours["--ink"], colours[f"--f{n}"]) >= AA_TEXT
        assert contrast(colours[f"--c{n}"], colours["--paper"]) >= AA_GRAPHICS
    assert contrast(colours["--muted"], colours["--f8"]) >= AA_TEXT
