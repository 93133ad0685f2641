"""Reads that hang are left behind."""

from __future__ import annotations

import threading

import pytest

from kvdoctor.errors import Unavailable
from kvdoctor.target.patience import MOST_STUCK, Patience


def test_an_answer_comes_back() -> None:
    patience = Patience()
    assert [patience.call(lambda n=n: n * 2) for n in (1, 2, 3)] == [2, 4, 6]  # type: ignore[misc]
    patience.close()


def test_a_refusal_is_raised_here() -> None:
    def refuse() -> None:
        raise Unavailable("closed", "open it")

    patience = Patience()
    with pytest.raises(Unavailable) as found:
        patience.call(refuse)
    assert found.value.cure == "open it"
    patience.close()


def test_what_hangs_is_given_up_and_the_next_read_works() -> None:
    patience, gate = Patience(each_s=0.02), threading.Event()
    with pytest.raises(Unavailable, match=r"within 0\.02 s"):
        patience.call(gate.wait)
    gate.set()
    assert patience.call(lambda: "next", seconds=5) == "next"
    patience.close()


def test_after_several_that_hang_nothing_more_is_tried() -> None:
    patience, gate, asked = Patience(each_s=0.02), threading.Event(), []
    for _ in range(MOST_STUCK):
        with pytest.raises(Unavailable):
            patience.call(gate.wait)
    with pytest.raises(Unavailable, match="never came back"):
        patience.call(lambda: asked.append(1))
    gate.set()
    assert asked == []
