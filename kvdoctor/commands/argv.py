"""Options whose value may be left out: `--json` prints, `--json FILE` writes."""

from __future__ import annotations

from collections.abc import Sequence

OPTIONAL_VALUE = ("--json", "--markdown")


def with_defaults(argv: Sequence[str]) -> list[str]:
    """Put `-` behind each such option that has no value of its own; what follows `--` is left alone."""
    out: list[str] = []
    for position, word in enumerate(argv):
        if word == "--":
            return [*out, *argv[position:]]
        out.append(word)
        if word in OPTIONAL_VALUE:
            following = argv[position + 1] if position + 1 < len(argv) else "--"
            if following.startswith("-") and following != "-":
                out.append("-")
    return out
