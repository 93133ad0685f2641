"""Outside text is shown and never obeyed."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdoctor.render.text import LIMIT, NAME_LIMIT, clean, name, shorten, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\", "click"),
        ("\x1bPdevice\x1b\\x", "x"),
        ("\x1b]never ends", "never ends"),
        ("\x1bcx", "x"),
        ("a\r\nb\tc\x00\x08d", "a b cd"),
        ("\u202eevil\u2066x\u200b\u2028y\u2029z", "evilx y z"),
        ("\ud800x", "\ufffdx"),
        ("\ue000", "\ufffd"),
        ("grüße 模型 \U0001f600", "grüße 模型 \U0001f600"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
        ("", ""),
    ],
)
def test_what_is_left_of_a_text(text: str, shown: str) -> None:
    assert visible(text) == clean(text) == shown


@given(st.text(st.characters(), max_size=200))
def test_no_character_that_steers_is_left_and_cleaning_twice_changes_nothing(text: str) -> None:
    shown = visible(text)
    assert all(unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in shown)
    assert visible(shown) == shown


@pytest.mark.parametrize(("write", "limit"), [(clean, LIMIT), (name, NAME_LIMIT)])
def test_a_long_text_is_cut_and_what_is_missing_is_counted(write: object, limit: int) -> None:
    assert callable(write)
    assert write("x" * limit) == "x" * limit
    assert write("x" * (limit + 1)) == "x" * limit + " [and 1 more characters]"
    assert write("x" * 10_000).endswith(f" [and {10_000 - limit:,} more characters]")


def test_a_label_in_a_figure_shows_that_it_was_cut() -> None:
    assert shorten("prefill", 7) == "prefill"
    assert shorten("prefill avoidable", 8) == "prefill…"


def test_a_megabyte_of_unfinished_sequences_is_read_in_linear_time() -> None:
    began = time.process_time()
    clean("\x1b]" * 500_000)
    visible("\x1b]" * 50_000)
    assert time.process_time() - began < 2
