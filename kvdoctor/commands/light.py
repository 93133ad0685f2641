"""Options of a command, read without the validators that Typer loads: they take longer than a whole answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_args

from typer.core import TyperCommand, TyperGroup

Value = str | int | float | bool | None
Reader = Callable[[str], Value]


def reader_of(annotation: object) -> Reader | None:
    """How a parameter reads its text: `Annotated[int | None, ...]` as int, a flag as None, the rest as text."""
    kinds = get_args(annotation)
    kind = kinds[0] if kinds else annotation
    plain = {*get_args(kind)} or {kind}
    if bool in plain:
        return None
    return next((k for k in (int, float) if k in plain), str)


def plain_values(function: Callable[..., Any], argv: Sequence[str]) -> dict[str, Value] | None:
    """Every parameter of a command's function by name, or None where Typer has to read the line.

    Long options, with `=` or a blank before their value, flags, and one argument, which is the first parameter.
    Anything else, and a value that is no number where one is due, is left to Typer and its messages.
    """
    parameters = inspect.signature(function, eval_str=True).parameters
    values: dict[str, Value] = {name: p.default for name, p in parameters.items()}
    readers = {f"--{name.replace('_', '-')}": reader_of(p.annotation) for name, p in parameters.items()}
    first, words = next(iter(parameters)), list(argv)
    del readers[f"--{first}"]
    seen = False
    while words:
        option, has_value, text = words.pop(0).partition("=")
        if not option.startswith("-") and not seen:
            values[first], seen = option + has_value + text, True
            continue
        if option not in readers:
            return None
        reader = readers[option]
        if reader is None and not has_value:
            values[option[2:].replace("-", "_")] = True
            continue
        if reader is None or not (has_value or words):
            return None
        try:
            values[option[2:].replace("-", "_")] = reader(text if has_value else words.pop(0))
        except ValueError:
            return None
    return values


class LightCommand(TyperCommand):
    """A command that reads plain lines itself and leaves all others to Typer."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Fill the context's parameters."""
        function = inspect.unwrap(self.callback) if self.callback else None
        values = plain_values(function, args) if function else None
        if values is None:
            return super().parse_args(ctx, args)
        ctx.params.update(values)
        ctx.args = []
        return []


class LightGroup(TyperGroup):
    """A program that looks for its own `--help` only where no command is named first."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Leave out an option whose mere presence loads the validators."""
        self.add_help_option = not args or args[0] not in self.commands
        return super().parse_args(ctx, args)
