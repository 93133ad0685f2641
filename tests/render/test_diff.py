"""Before and after a change."""

from __future__ import annotations

import dataclasses
import io
import math
import re

import pytest
from attacks import ATTACKS, hostile
from diagnoses import SAMPLES
from diagnosis_bounds import PREFILL
from diagnosis_capacity import CAPACITY
from diagnosis_parts import H100
from diagnosis_states import HEALTHY, LIFETIME
from rich.console import Console

from kvdoctor.model import Diagnosis
from kvdoctor.render import comparison
from kvdoctor.render.diff import markdown, render
from kvdoctor.service import Quantile


def text(before: Diagnosis, after: Diagnosis, width: int = 80) -> str:
    """Return the comparison as a console writes it."""
    out = io.StringIO()
    render(before, after, Console(file=out, width=width))
    return out.getvalue()


def change(before: Diagnosis, after: Diagnosis, title: str, name: str) -> comparison.Line:
    """Return one line of a comparison."""
    table = next(t for t in comparison.tables(before, after) if t.title.startswith(title))
    return next(line for line in table.lines if line.name.strip() == name)


def test_the_first_line_says_what_became_of_both_latencies() -> None:
    assert text(PREFILL, HEALTHY).splitlines()[0].startswith("TTFT 204 ms to 35.1 ms (-83%); ITL")


def test_a_part_that_appears_or_goes_is_told_in_seconds() -> None:
    gone = change(PREFILL, HEALTHY, "TTFT", "avoidable")
    come = change(PREFILL, HEALTHY, "TTFT", "first step")
    assert (gone.before, gone.after, gone.change) == ("188 ms", "-", "-188 ms")
    assert (come.before, come.after, come.change) == ("-", "900 us", "+900 us")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ((0.1, 0.2), (0.1, 0.2), "same bucket"),
        ((0.1, 0.2), (0.05, 0.1), "lower"),
        ((0.1, 0.2), (0.2, 0.4), "higher"),
        ((0.1, 0.2), (0.15, 0.3), "cannot tell: buckets overlap"),
        ((0.1, math.inf), (0.05, 0.1), "lower"),
        ((0.1, math.inf), (0.2, math.inf), "cannot tell: buckets overlap"),
    ],
)
def test_a_quantile_moved_only_as_far_as_its_buckets_can_tell(
    before: tuple[float, float], after: tuple[float, float], said: str
) -> None:
    one, other = (
        dataclasses.replace(HEALTHY, quantiles={"ttft": {"p95": Quantile(*q)}}) for q in (before, after)
    )
    assert change(one, other, "TTFT", "p95").change == said


def test_evidence_that_both_have_and_that_moved_is_shown_once() -> None:
    line = change(CAPACITY, PREFILL, "Evidence", "KV pool at its fullest")
    assert (line.before, line.after, line.change) == ("99.9%", "31%", "-68.9 points")
    names = [row.name for table in comparison.tables(CAPACITY, PREFILL) for row in table.lines]
    assert names.count("KV pool at its fullest") == 1


def test_a_value_that_became_undefined_is_changed_and_not_zero() -> None:
    finding = PREFILL.findings[1]
    item = dataclasses.replace(finding.evidence[1], value=0.5)
    old = dataclasses.replace(PREFILL, findings=(dataclasses.replace(finding, evidence=(item,)),))
    line = change(old, PREFILL, "Evidence", item.name)
    assert (line.before, line.after, line.change) == ("50%", "undefined", "changed")


@pytest.mark.parametrize(
    ("after", "doubt"),
    [
        (
            dataclasses.replace(CAPACITY, targets=(dataclasses.replace(H100, model="other"),)),
            "not the same model",
        ),
        (
            dataclasses.replace(CAPACITY, targets=(dataclasses.replace(H100, version="0.9"),)),
            "not the same version",
        ),
        (dataclasses.replace(CAPACITY, targets=(dataclasses.replace(H100, gpus=()),)), "not the same gpus"),
        (dataclasses.replace(CAPACITY, window=LIFETIME.window), "after: sums since the engine started"),
        (dataclasses.replace(CAPACITY, window=dataclasses.replace(CAPACITY.window, restarts=1)), "restarted"),
        (
            dataclasses.replace(CAPACITY, window=dataclasses.replace(CAPACITY.window, requests=19)),
            "20 are needed",
        ),
        (
            dataclasses.replace(CAPACITY, window=dataclasses.replace(CAPACITY.window, seconds=19.0)),
            "same load",
        ),
        (
            dataclasses.replace(CAPACITY, window=dataclasses.replace(CAPACITY.window, prompt_tokens=1e6)),
            "not the same prompts",
        ),
    ],
)
def test_what_speaks_against_a_comparison_is_said_before_its_numbers(after: Diagnosis, doubt: str) -> None:
    said = text(CAPACITY, after, 200)
    assert doubt in said
    assert said.index("Not quite comparable") < said.index("Verdict")


@pytest.mark.parametrize(
    ("requests", "seconds"), [(20.0, 15.004), (214.0, 15.004 * 1.249), (214.0, 15.004 / 1.249)]
)
def test_just_inside_the_limits_nothing_is_said(requests: float, seconds: float) -> None:
    old = dataclasses.replace(CAPACITY.window, requests=requests, prompt_tokens=0.0)
    new = dataclasses.replace(old, seconds=seconds)
    before, after = (dataclasses.replace(CAPACITY, window=window) for window in (old, new))
    assert comparison.doubts(before, after) == ()


def test_windows_without_a_common_latency_say_so() -> None:
    assert text(SAMPLES["idle"], HEALTHY).startswith("Neither latency was measured in both windows")


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_can_be_compared_at_every_width(name: str, width: int) -> None:
    lines = text(SAMPLES[name], CAPACITY, width).splitlines()
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)


@pytest.mark.parametrize("name", ATTACKS)
def test_hostile_text_has_no_effect(name: str) -> None:
    said = text(hostile(name), CAPACITY) + markdown(CAPACITY, hostile(name))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u202e\u2060-\u2069\ud800-\udfff]", said)
    assert "<script" not in said.split("## kvdoctor")[1]


def test_the_ticket_has_the_same_tables() -> None:
    ticket = markdown(PREFILL, HEALTHY)
    assert "| mean | 204 ms | 35.1 ms | \\-169 ms (-83%) |" in ticket
    assert "Not quite comparable:" in ticket
