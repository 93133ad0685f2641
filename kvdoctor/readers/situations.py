"""Parts a saved text at the comment lines with which people set two situations apart."""

from __future__ import annotations

import itertools
import re

_OWN = re.compile(rb"# (?:HELP|TYPE|UNIT|EOF)\b|#[@!=]")
MAX_PARTS = 20


def situations(text: bytes) -> list[bytes]:
    """Return the parts of a metrics text that tell the same series anew, each behind a comment; else the text whole.

    A comment that is no HELP or TYPE, `# before` for example, parts it only where a series of one part is in the next.
    """
    parts: list[list[bytes]] = [[]]
    told = False
    for line in text.splitlines(keepends=True):
        comment = line.startswith(b"#")
        if comment and told and not _OWN.match(line):
            parts.append([])
            told = False
        told = told or bool(not comment and line.strip())
        parts[-1].append(line)
    if not 1 < len(parts) <= MAX_PARTS:
        return [text]
    series = [set(_samples(part)) for part in parts]
    again = all(a & b for a, b in itertools.pairwise(series))
    return [b"".join(part) for part in parts] if again else [text]


def _samples(lines: list[bytes]) -> list[bytes]:
    """Return what stands before the value of each sample."""
    return [line.rpartition(b" ")[0] for line in lines if line.strip() and not line.startswith(b"#")]
