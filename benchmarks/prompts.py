"""Prompts of random words whose prefixes repeat, or do not, as told."""

from __future__ import annotations

import random
from dataclasses import dataclass

# Frequent in source code, so that most tokenizers need one or two tokens a word.
WORDS = ("args", "call", "code", "data", "dict", "else", "file", "from", "item", "line", "list", "name")
PREFIXES = ("shared", "salted", "none", "fell")


@dataclass(frozen=True, slots=True)
class Shape:
    """What is asked: the prefix pattern, and the least and most words and tokens."""

    prefix: str
    pools: tuple[str, ...]
    prefix_words: int
    tail_words: tuple[int, int]
    max_tokens: tuple[int, int]
    fell_after_s: float


def words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(count))


def prompt(shape: Shape, rng: random.Random, elapsed_s: float) -> str:
    """A prompt of the shape's pattern; `fell` is shared before fell_after_s, and salted from then on."""
    tail = words(rng, rng.randint(*shape.tail_words))
    if shape.prefix == "none":
        return f"{words(rng, shape.prefix_words)} {tail}"
    text = f"{rng.choice(shape.pools)} {tail}"
    if shape.prefix == "shared" or (shape.prefix == "fell" and elapsed_s < shape.fell_after_s):
        return text
    return f"{rng.getrandbits(40):010x} {text}"
