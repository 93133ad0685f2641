"""A tokenizer of bytes and known words: deterministic, one token a known word, nothing to download."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

_FIRST = ("ba", "ce", "di", "fo", "gu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "wu", "za")
_SECOND = ("n", "r", "s", "l", "m", "t", "x", "d", "k", "p", "g", "f", "b", "v", "nd", "rt")
WORDS = tuple(first + second for first in _FIRST for second in _SECOND)
"""The known words, a token each; any other text is a token a byte."""
BYTES = 256
SIZE = BYTES + len(WORDS)

_IDS = {word: BYTES + number for number, word in enumerate(WORDS)}


class Tokenizer:
    """Text to token ids and back. Words are parted by one blank, which belongs to no token."""

    def __init__(self, *, seconds_a_thousand: float = 0.0) -> None:
        """`seconds_a_thousand`: CPU seconds for looking for merges, for each thousand tokens."""
        self._seconds = seconds_a_thousand / 1000

    def encode(self, text: str) -> list[int]:
        """Token ids of a text."""
        tokens: list[int] = []
        for word in text.split():
            known = _IDS.get(word)
            tokens += (known,) if known is not None else word.encode()
        if self._seconds:
            self._merge(tokens)
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids, each word with a blank before it."""
        return "".join(self.piece(token) for token in tokens)

    def piece(self, token: int) -> str:
        """Text of one token."""
        if token < BYTES:
            return chr(token) if 32 < token < 127 else f"<{token:02x}>"
        return f" {WORDS[token - BYTES]}"

    def _merge(self, tokens: Sequence[int]) -> None:
        """Count pairs over and over, as a byte-pair encoder without an index does for every merge."""
        end = time.thread_time() + self._seconds * len(tokens)
        while time.thread_time() < end:
            counts: dict[tuple[int, int], int] = {}
            for left, right in itertools.pairwise(tokens):
                counts[left, right] = counts.get((left, right), 0) + 1
            max(counts.values(), default=0)
