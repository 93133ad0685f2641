"""The roofline on a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rooflines import question, report

from kvdoctor.render import roofline_text
from kvdoctor.render.roofline_plot import Line, bar, plot
from kvdoctor.render.roofline_scale import Axis, around, short

QUESTIONS: list[dict[str, object]] = [
    {"model": "Llama-3.1-8B", "batch": 32.0},
    {"model": "DeepSeek-V3", "gpu": "H200", "gpus": 8, "batch": 64.0, "context": "4k:3,32k:1"},
    {"model": "Qwen3-Next-80B-A3B", "gpus": 2, "batch": 512.0, "context": "128k"},
    {"model": "Llama-3.1-405B", "gpu": "RTX PRO 6000 Blackwell Server Edition", "gpus": 16, "pp": 2},
    {"model": "gpt2", "batch": 0.25, "context": "1"},
    {"model": "Llama-3.1-8B", "draft_tokens": 3, "accept": 0.7, "batch": 91.02},
]


@pytest.mark.parametrize("options", QUESTIONS, ids=lambda options: str(options["model"]))
def test_every_line_fits_80_columns(options: dict[str, object]) -> None:
    text = roofline_text.render(report(question(**options), claim="85 tok/s"))  # type: ignore[arg-type]
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert text.endswith("\n")


def test_the_answer_comes_before_its_evidence_and_the_ceiling_beside_the_expectation() -> None:
    text = roofline_text.render(report(question(batch=32.0)))
    ceiling = text.index("Ceiling 3,330 tok/s")
    assert ceiling < text.index("expect", ceiling) < ceiling + 120
    assert ceiling < text.index("Memory of one rank") < text.index("What would help")


def test_sizes_stand_in_gib_and_in_gb() -> None:
    text = roofline_text.render(report(question(batch=32.0)))
    assert "15.0 GiB  16.1 GB" in text
    assert "512 MiB (537 MB) a sequence" in text


def test_names_from_a_config_steer_no_terminal() -> None:
    asked = question()
    hostile = replace(asked.shape, name="x\x1b[2Jy", warnings=("a\x1b]0;t\x07b",))
    text = roofline_text.render(report(replace(asked, shape=hostile)))
    assert "\x1b" not in text
    assert "\x07" not in text


def test_without_a_card_the_title_and_the_changes_promise_no_rate() -> None:
    text = roofline_text.render(report(question(gpu=None), swept=False))
    assert text.startswith("Llama-3.1-8B, no card named\n")
    assert "What each change would read in a step" in text
    assert "Gain:" not in text


def test_without_a_card_there_is_no_rate() -> None:
    text = roofline_text.render(report(question(gpu=None), swept=False))
    assert "tok/s" not in text.partition("What would help")[0]
    assert "--gpu" in text


def test_what_does_not_fit_has_no_rate_without_saying_so() -> None:
    text = " ".join(roofline_text.render(report(question(batch=512.0, context="8k"), swept=False)).split())
    assert "If it all fitted: ceiling 3,037 tok/s" in text
    assert "With the 56 that fit at once: ceiling 2,497 tok/s" in text
    none = roofline_text.render(report(question("Llama-2-70B"), swept=False))
    assert "If it all fitted: ceiling" in none
    assert "that fit at once" not in none
    assert "If it all fitted" not in roofline_text.render(report(question(), swept=False))


def test_a_model_without_recurrent_layers_has_no_state_in_its_rows() -> None:
    plain = roofline_text.render(report(question(), swept=False))
    hybrid = roofline_text.render(
        report(question("Qwen3-Next-80B-A3B-Instruct", "H200", gpus=2), swept=False)
    )
    assert "state" not in plain
    assert "KV and state, 1 sequence" in hybrid
    assert "S state" in hybrid


def test_a_curve_runs_from_corner_to_corner() -> None:
    lines = plot((Line("#", ((1.0, 1.0), (100.0, 100.0))),), Axis(1, 100, log=True), Axis(1, 100, log=True))
    assert lines[0].rstrip().endswith("#")
    assert lines[11].endswith("|##") or "|#" in lines[11]
    assert "1" in lines[-1]
    assert "100" in lines[-1]


def test_a_bar_is_as_wide_as_asked_and_shows_small_parts() -> None:
    found = bar((("W", 50.0), ("K", 0.001), ("S", 0.0)), 100.0, width=40)
    assert found == "W" * 20 + "K" + "." * 19
    assert len(bar((("W", 300.0),), 100.0, width=40)) == 40


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (32, "32"), (1000, "1k"), (4096, "4.1k"), (989e12, "989T"), (999.9e9, "1T"), (2e15, "2P")],
)
def test_ticks_are_short(value: float, text: str) -> None:
    assert short(value) == text


def test_axes_hold_their_values_and_clamp_others() -> None:
    axis = around([2.0, 300.0], log=True)
    assert (axis.at(2.0), axis.at(300.0), axis.at(1e9), axis.at(0.1)) == (0.0, 1.0, 1.0, 0.0)
    assert axis.ticks() == (2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
    assert around([7.0], log=False).ticks()[0] == 0.0
    assert around([7.0, 7.0], log=True).at(7.0) == 0.5
    assert around([0.0], log=False).at(0.0) == 0.0
