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
from kvdoctor.service import Headline, Quantile, Spread


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


def window_of(ttft: float, error: float, requests: float = 100.0) -> Diagnosis:
    """A healthy answer with this TTFT and standard error."""
    ledger = dataclasses.replace(HEALTHY.ledgers["ttft"], seconds=ttft, count=requests, parts=())
    return dataclasses.replace(HEALTHY, ledgers={"ttft": ledger}, spreads={"ttft": Spread(error, requests)})


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (0.1, "TTFT 100 ms to 100 ms (unchanged)"),
        # Errors of 3 and 4 ms make one of 5: chance moves a difference by 10 ms.
        (0.1101, "TTFT 100 ms to 110 ms (+10%)"),
        (0.1099, "TTFT can't tell: 100 ms, then 110 ms (chance alone moves it by up to 10.0 ms)"),
        (0.0901, "TTFT can't tell: 100 ms, then 90.1 ms (chance alone moves it by up to 10.0 ms)"),
        (0.0899, "TTFT 100 ms to 89.9 ms (-10%)"),
    ],
)
def test_a_mean_that_chance_explains_is_no_change(after: float, said: str) -> None:
    before, then = window_of(0.1, 0.003), window_of(after, 0.004)
    assert comparison.headline(before, then) == said
    unsure = "can't tell" in said
    assert (change(before, then, "TTFT", "mean").change == "cannot tell: within noise") is unsure


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        (19.0, "can't tell: 100 ms, then 10.0 ms (19 requests after, 20 are needed)"),
        (20.0, "100 ms to 10.0 ms (-90%)"),
    ],
)
def test_a_few_requests_are_no_change(requests: float, said: str) -> None:
    before, after = window_of(0.1, 0.001), window_of(0.01, 0.001, requests)
    assert comparison.headline(before, after) == f"TTFT {said}"
    unsure = requests < 20
    assert (change(before, after, "TTFT", "mean").change == "cannot tell: too few requests") is unsure


def test_without_a_histogram_observations_count_as_wide_as_their_mean() -> None:
    before, after = (dataclasses.replace(window_of(s, 0.0), spreads={}) for s in (0.1, 0.131))
    # 100 each: errors of 10 and 13.1 ms.
    assert "chance alone moves it by up to 33.0 ms" in comparison.headline(before, after)
    farther = dataclasses.replace(window_of(0.141, 0.0), spreads={})
    assert comparison.headline(before, farther) == "TTFT 100 ms to 141 ms (+41%)"


def test_gaps_of_sequences_that_were_decoding_count_though_none_began() -> None:
    itl = dataclasses.replace(HEALTHY.ledgers["itl"], seconds=0.03, count=16_000.0, parts=())
    quiet = dataclasses.replace(HEALTHY.window, requests=2.0, seconds=15.0)
    spread = {"itl": Spread(0.0001, 500.0)}
    many = dataclasses.replace(HEALTHY, window=quiet, ledgers={"itl": itl}, spreads=spread)
    faster = dataclasses.replace(many, ledgers={"itl": dataclasses.replace(itl, seconds=0.02)})
    # 16,000 gaps of 0.03 s in 15 s: 32 sequences; of 1,000 only two.
    assert comparison.headline(many, faster) == "ITL 30.0 ms to 20.0 ms (-33%)"
    few = dataclasses.replace(many, ledgers={"itl": dataclasses.replace(itl, count=1000.0)})
    assert "4 requests before, 20 are needed" in comparison.headline(few, faster)


@pytest.mark.parametrize(("low", "said"), [(0.2, "higher"), (0.05, "cannot tell: within noise")])
def test_a_quantile_of_few_observations_may_lie_in_other_buckets(low: float, said: str) -> None:
    one, other = Quantile(0.05, 0.1), Quantile(0.2, 0.4)
    before = dataclasses.replace(HEALTHY, quantiles={"ttft": {"p95": one}})
    wide = {"ttft": Spread(0.0, 100.0, {"p95": Quantile(low, 0.4)})}
    after = dataclasses.replace(HEALTHY, quantiles={"ttft": {"p95": other}}, spreads=wide)
    assert change(before, after, "TTFT", "p95").change == said


def test_the_header_tells_no_change_of_a_latency_that_the_headline_does_not() -> None:
    lines = (
        Headline("TTFT mean", "seconds", 0.1, None),
        Headline("TTFT p95, about", "seconds", 0.1, None),
        Headline("requests", "per second", 1.0, None),
    )
    more = tuple(dataclasses.replace(line, now=(line.now or 0.0) * 1.05) for line in lines)
    bucket = {"ttft": {"p95": Quantile(0.05, 0.2)}}
    before = dataclasses.replace(window_of(0.1, 0.01), header=lines, quantiles=bucket)
    after = dataclasses.replace(window_of(0.105, 0.01), header=more, quantiles=bucket)
    told = {line.name: change(before, after, "Rates", line.name).change for line in lines}
    assert told["TTFT mean"] == "cannot tell: within noise"
    assert told["TTFT p95, about"] == "same bucket"
    assert told["requests"] == "+5.0%"
    clear = dataclasses.replace(after, spreads={"ttft": Spread(0.0, 100.0)})
    sure = dataclasses.replace(before, spreads={"ttft": Spread(0.0, 100.0)})
    assert change(sure, clear, "Rates", "TTFT mean").change == "+5.0%"


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
