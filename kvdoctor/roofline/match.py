"""Match module names against the lists of quantized checkpoints, which spell them in many ways."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from functools import lru_cache

from kvdoctor.roofline.keys import refusal


@dataclass(frozen=True, slots=True)
class Matcher:
    """Names from `ignore`, `modules_to_not_convert` or `exclude_modules`.

    A plain entry matches where its dotted parts occur in a row in the module's path, so `gate` is the router
    and not `gate_proj`; `*` spans dots; `re:` is a regular expression on the whole path.
    """

    entries: tuple[str, ...]

    def matches(self, path: str) -> bool:
        """Whether an entry matches `INDEX.module`, the path of a module after `layers.`."""
        if not self.entries:
            return False
        exact, pattern = _compiled(self.entries)
        parts = ["^", *path.split(".")]
        runs = (
            ".".join(parts[start:end])
            for start in range(len(parts))
            for end in range(start + 1, len(parts) + 1)
        )
        return any(run in exact for run in runs) or bool(pattern and pattern.match(f"model.layers.{path}"))


_LAYER = re.compile(r"(?:^|\.)(?:layers|blocks|h)\.")


@lru_cache(maxsize=64)
def _compiled(entries: tuple[str, ...]) -> tuple[frozenset[str], re.Pattern[str] | None]:
    """Plain entries as a set of tails, the others as one regular expression on `model.layers.PATH`."""
    exact, patterns = set(), []
    for entry in entries:
        if entry.startswith("re:"):
            patterns.append(f"(?:.*?{entry[3:]})" if not entry[3:].startswith("^") else f"(?:{entry[4:]})")
            continue
        head, tail = ("^.", _LAYER.split(entry, maxsplit=1)[-1]) if _LAYER.search(entry) else ("", entry)
        if "*" in entry:
            prefix = r"model\.layers\." if head else r"(?:model\.layers\.\d+\.)?"
            patterns.append(f"(?:{prefix}{_glob(tail)})")
        else:
            exact.add(head + tail)
    if not patterns:
        return frozenset(exact), None
    try:
        return frozenset(exact), re.compile("|".join(patterns))
    except re.error as error:
        raise refusal("ignore", f"has a pattern that is no regular expression: {error}") from error


def _glob(entry: str) -> str:
    """A shell pattern as a regular expression that also matches what lies below the module."""
    core = fnmatch.translate(entry).removeprefix("(?s:").removesuffix(r")\Z").removesuffix(r")\z")
    return rf"{core}(?:\..*)?\Z"
