"""Plain lines are read without Typer's validators, all others by Typer, and both read the same."""

from __future__ import annotations

from typing import Annotated

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from kvdoctor.commands.light import LightCommand, LightGroup, plain_values


def sample(
    name: Annotated[str | None, typer.Argument()] = None,
    gpus: Annotated[int | None, typer.Option()] = None,
    batch: Annotated[float, typer.Option()] = 1.0,
    kv_dtype: Annotated[str | None, typer.Option()] = None,
    draft_kv: Annotated[bool, typer.Option("--draft-kv")] = False,
) -> None:
    """A command with every kind of parameter."""
    seen.append({"name": name, "gpus": gpus, "batch": batch, "kv_dtype": kv_dtype, "draft_kv": draft_kv})


seen: list[dict[str, object]] = []
DEFAULTS = {"name": None, "gpus": None, "batch": 1.0, "kv_dtype": None, "draft_kv": False}


def through(words: list[str], **how: object) -> object:
    """Run the sample through an app, and return what it saw, or the exit code."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, cls=LightGroup)
    app.command("sample", **how)(sample)  # type: ignore[arg-type]
    app.command("other")(lambda: None)
    seen.clear()
    try:
        app(["sample", *words])
    except SystemExit as end:
        return seen[0] if seen else end.code
    return None


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ([], {}),
        (["m"], {"name": "m"}),
        (
            ["m", "--gpus", "8", "--batch=2.5", "--kv-dtype", "fp8"],
            {"name": "m", "gpus": 8, "batch": 2.5, "kv_dtype": "fp8"},
        ),
        (["--draft-kv", "m"], {"name": "m", "draft_kv": True}),
        (["--kv-dtype", "-"], {"kv_dtype": "-"}),
        (["--kv-dtype", "a=b", "m=1"], {"kv_dtype": "a=b", "name": "m=1"}),
        (["--kv-dtype="], {"kv_dtype": ""}),
        (["--batch", "-1"], {"batch": -1.0}),
        (["--gpus", "1", "--gpus", "2"], {"gpus": 2}),
    ],
)
def test_a_plain_line_is_read_as_typer_reads_it(words: list[str], values: dict[str, object]) -> None:
    assert plain_values(sample, words) == DEFAULTS | values
    assert through(words, cls=LightCommand) == through(words) == DEFAULTS | values


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--gpu", "8"],
        ["--gpus", "eight"],
        ["--gpus"],
        ["a", "b"],
        ["--draft-kv=yes"],
        ["--", "m"],
        ["-x"],
        ["--name", "m"],
    ],
)
def test_any_other_line_is_left_to_typer(words: list[str]) -> None:
    assert plain_values(sample, words) is None
    assert through(words, cls=LightCommand) == through(words)


@given(
    st.lists(
        st.sampled_from(["m", "--gpus", "--gpus=3", "8", "--batch", "1.5", "--draft-kv", "--kv-dtype", "x"])
    )
)
def test_no_line_is_read_differently(words: list[str]) -> None:
    assert through(words, cls=LightCommand) == through(words)
