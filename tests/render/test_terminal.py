"""The terminal report: nothing lost at any width, colour only as an extra."""

from __future__ import annotations

import dataclasses
import io
import re

import pytest
from diagnoses import SAMPLES
from diagnosis_bounds import NETWORK
from diagnosis_capacity import CAPACITY
from diagnosis_parts import H100
from diagnosis_states import HEALTHY
from rich.cells import cell_len
from rich.console import Console

from kvdoctor.model import Basis, Diagnosis, Ledger, Metric, Part
from kvdoctor.render.terminal import live_header, render
from kvdoctor.service import Headline


def report(diagnosis: Diagnosis, width: int = 80, **console: object) -> str:
    """Return the report as a console of that width writes it."""
    out = io.StringIO()
    render(diagnosis, Console(file=out, width=width, **console))  # type: ignore[arg-type]
    return out.getvalue()


def squeezed(text: str) -> str:
    """Return a text without its blanks."""
    return re.sub(r"\s", "", text)


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("name", SAMPLES)
def test_lines_fit_and_no_text_is_cut(name: str, width: int) -> None:
    diagnosis = SAMPLES[name]
    text = report(diagnosis, width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    findings = diagnosis.findings
    expected = [diagnosis.summary, diagnosis.next_measurement, *diagnosis.sentences.values()]
    expected += [finding.argument for finding in findings]
    expected += [item.do for f in findings for item in f.advice] + [
        item.expect for f in findings for item in f.advice
    ]
    shown = [f for f in findings if f.verdict.value in ("likely", "possible")]
    expected += [item.source for f in shown for item in f.evidence]
    expected += [item.name for f in shown for item in f.evidence]
    expected += (
        [gap.cure for gap in diagnosis.gaps] + list(diagnosis.confidence_reasons) + list(diagnosis.notes)
    )
    assert [text_ for text_ in expected if squeezed(text_) not in squeezed(text)] == []


def test_the_verdict_is_the_first_line_and_its_reason_the_second() -> None:
    lines = report(CAPACITY).splitlines()
    assert lines[0] == "Bound by capacity / preemption (family capacity), high confidence"
    assert lines[1].startswith("The KV pool is full")
    assert report(HEALTHY).splitlines()[0] == "Healthy, paced by compute, medium confidence"


def test_sections_come_in_the_order_of_the_questions_asked() -> None:
    text = report(CAPACITY)
    order = [
        "Bound by",
        "  TTFT  ",
        "What to change",
        "What to measure next",
        "What was looked at",
        "since start",
        "Where the time goes: TTFT",
        "Where the time goes: ITL",
        "Three sums",
        "Under the memory roof",
        "Causes: likely",
        "Causes: possible",
        "Causes: ruled out",
        "Causes: not judged",
        "What could not be seen",
        "Why confidence is high",
        "observing cost",
    ]
    places = [text.index(heading) for heading in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    "options", [{"no_color": True}, {"color_system": "truecolor"}, {"color_system": "standard"}]
)
def test_colour_adds_nothing_to_the_words(options: dict[str, object]) -> None:
    coloured = report(CAPACITY, force_terminal=True, **options)
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == report(CAPACITY)


def test_a_pipe_gets_no_escape_sequence_and_no_blanks_at_line_ends() -> None:
    text = report(CAPACITY)
    assert "\x1b" not in text
    assert not re.search(r" $", text, re.MULTILINE)


def test_a_bar_is_as_long_as_its_share() -> None:
    parts = (Part("queue", 0.75, Basis.MEASURED), Part("prefill", 0.25, Basis.MODELLED))
    text = report(dataclasses.replace(HEALTHY, ledgers={"ttft": Ledger(Metric.TTFT, 1.0, 50, parts)}))
    bars = {line.split()[0]: line.count("█") for line in text.splitlines() if "█" in line}
    assert bars["queue"] == 3 * bars["prefill"]


def test_parts_inside_another_are_indented_under_it() -> None:
    lines = [line for line in report(NETWORK).splitlines() if re.search(r"measured|modelled|the rest", line)]
    names = [
        line[: len(line) - len(line.lstrip())]
        for line in lines
        if re.match(r" +(queue|KV wait|on the)", line)
    ]
    assert names == ["  ", "    ", "      "]


def test_an_ascii_terminal_gets_hash_bars_and_no_error() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    model = dataclasses.replace(H100, model="模型")
    render(dataclasses.replace(CAPACITY, targets=(model,)), Console(file=stream, width=80))
    stream.flush()
    text = raw.getvalue().decode("ascii")
    assert re.search(r"queue .*measured  #{8,}", text)
    assert "??" in text


def test_the_live_header_names_the_engine_and_now_against_since_start() -> None:
    out = io.StringIO()
    lines = (Headline("TTFT p95", "seconds", 0.412, 1.31), Headline("requests", "requests/s", None, 11.9))
    Console(file=out, width=80).print(live_header((H100,), lines, 3.0))
    text = out.getvalue()
    assert "vllm 0.32.0" in text
    assert re.search(r"last 3.00 s +since start", text)
    assert re.search(r"TTFT p95 +412 ms +1.31 s", text)
    assert re.search(r"requests +undefined +11.9 requests/s", text)


def test_the_live_header_stands_before_any_number_is_known() -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(live_header((H100,), (), 0.0))
    assert "meta-llama/Llama-3.1-70B-Instruct" in out.getvalue()
