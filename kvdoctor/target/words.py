"""A command line taken apart: which program runs, and which options it was given."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

_PYTHON = re.compile(r"^(?:python|pypy)[\d.]*[a-z]?$")
_TAKES_VALUE = frozenset(("-W", "-X", "--check-hash-based-pycs"))
_SWITCHES = ("enable-", "disable-", "no-", "enforce-", "trust-", "use-", "skip-", "is-", "return-", "log-")
_MANY = frozenset(("api-key", "served-model-name", "lora-modules", "middleware", "allowed-origins"))
_NUMBER = re.compile(r"^-\d[\d.]*$")


@dataclass(frozen=True, slots=True)
class Command:
    """A program as it was started."""

    program: str
    """A module (`vllm.entrypoints.openai.api_server`), or the name of a script or binary."""
    path: str
    """The script or binary as it was called, empty for a module."""
    python: str
    """The interpreter as it was called, empty for a binary."""
    rest: tuple[str, ...]
    """The words behind the program."""


def command(argv: Sequence[str]) -> Command | None:
    """Tell the program from the interpreter and its options; None for an interpreter with `-c` or without work."""
    if not argv:
        return None
    name = _base(argv[0])
    if not _PYTHON.match(name):
        return Command(name, argv[0], "", tuple(argv[1:]))
    position = 1
    while position < len(argv) and argv[position].startswith("-"):
        word = argv[position]
        if word == "-m" or (word.startswith("-") and not word.startswith("--") and word.endswith("m")):
            module = argv[position + 1] if position + 1 < len(argv) else ""
            return Command(module, "", argv[0], tuple(argv[position + 2 :])) if module else None
        if word == "-c" or word == "-":
            return None
        position += 2 if word in _TAKES_VALUE else 1
    if position >= len(argv):
        return None
    return Command(_base(argv[position]), argv[position], argv[0], tuple(argv[position + 1 :]))


def _base(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Options:
    """Options and other words. Names are without dashes at the front, with `-` for `_`, in lower case."""

    named: dict[str, tuple[str, ...]]
    positional: tuple[str, ...]

    def has(self, *names: str) -> bool:
        """Say whether one of these options was given."""
        return any(name in self.named for name in names)

    def value(self, *names: str) -> str | None:
        """Return the value of the first of these options that has one."""
        return next((self.named[name][0] for name in names if self.named.get(name)), None)

    def document(self, name: str) -> dict[str, object]:
        """Return an option whose value is a JSON object, single keys as `--name.key value` laid over it."""
        try:
            found = json.loads(self.value(name) or "{}")
        except (ValueError, RecursionError):
            found = {}
        document: dict[str, object] = dict(found) if isinstance(found, dict) else {}
        for other, values in self.named.items():
            if other.startswith(f"{name}.") and values:
                document[other[len(name) + 1 :].replace("-", "_")] = values[0]
        return document


def options(words: Sequence[str]) -> Options:
    """Read `--name value`, `--name=value`, `-n value` and switches; a later option goes before an earlier one."""
    named: dict[str, tuple[str, ...]] = {}
    positional: list[str] = []
    name = ""
    for word in words:
        if word.startswith("-") and len(word) > 1 and not _NUMBER.match(word):
            name, _, value = word.lstrip("-").partition("=")
            name = name.lower().replace("_", "-")
            named[name] = (value,) if "=" in word else ()
            if "=" in word:
                name = ""
        elif name and _takes(name, len(named[name])):
            named[name] = (*named[name], word)
        else:
            positional.append(word)
    return Options(named, tuple(positional))


def _takes(name: str, has: int) -> bool:
    return (not has or name in _MANY) and not name.startswith(_SWITCHES)
