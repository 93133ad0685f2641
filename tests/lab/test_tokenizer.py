"""The lab's tokenizer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdoctor.lab.tokenizer import BYTES, SIZE, WORDS, Tokenizer


def test_a_known_word_is_one_token_and_any_other_a_token_a_byte():
    assert Tokenizer().encode(f"{WORDS[0]} {WORDS[-1]}") == [BYTES, SIZE - 1]
    assert Tokenizer().encode("é") == list("é".encode())


def test_the_words_are_all_different():
    assert len(set(WORDS)) == len(WORDS) == 256


@given(st.lists(st.sampled_from(WORDS), max_size=20))
def test_known_words_come_back(words):
    tokenizer = Tokenizer()
    assert tokenizer.decode(tokenizer.encode(" ".join(words))).split() == words


@given(st.text())
def test_every_token_of_any_text_is_in_the_vocabulary(text):
    assert all(0 <= token < SIZE for token in Tokenizer().encode(text))


@pytest.mark.parametrize("token", [0, 31, 65, 127, 255, BYTES, SIZE - 1])
def test_every_token_has_a_piece(token):
    assert Tokenizer().piece(token).isprintable()


def test_slowness_changes_no_token():
    text = " ".join(WORDS[:50])
    assert Tokenizer(seconds_a_thousand=0.01).encode(text) == Tokenizer().encode(text)
