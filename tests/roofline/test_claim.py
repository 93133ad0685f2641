"""Claims against the ceiling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflines import question

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline.answer import answer
from kvdoctor.roofline.claim import judge, readings_of
from kvdoctor.roofline.rates import decode_of


def test_85_tok_s_of_a_70b_in_fp16_on_one_h100_is_impossible() -> None:
    claim = judge(answer(question("Llama-2-70B", context="128")), "85 tok/s")
    assert not claim.possible
    assert not claim.fits
    assert claim.verdicts[0].ceiling == pytest.approx(24.37, rel=1e-3)
    assert any("TP 4" in remedy for remedy in claim.remedies)
    assert "weights int4" in claim.remedies


@pytest.mark.parametrize(
    ("text", "rate", "readings"),
    [
        ("85 tok/s", 85.0, ("per sequence", "total")),
        ("85", 85.0, ("per sequence", "total")),
        ("2300 tok/s total", 2300.0, ("total",)),
        ("2,300 tokens/s in total", 2300.0, ("total",)),
        ("85 tok/s per sequence", 85.0, ("per sequence",)),
        ("85 tok/s/user", 85.0, ("per sequence",)),
        ("12.5 ms", 80.0, ("per sequence",)),
        ("12.5ms", 80.0, ("per sequence",)),
    ],
)
def test_words_say_which_rate_is_claimed(text: str, rate: float, readings: tuple[str, ...]) -> None:
    assert readings_of(text) == (pytest.approx(rate), readings)


@pytest.mark.parametrize("text", ["fast", "0 tok/s", "-3 tok/s", "85 GB/s", ""])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(KvdoctorError):
        judge(answer(question()), text)


def test_a_claim_needs_a_bandwidth() -> None:
    with pytest.raises(KvdoctorError):
        judge(answer(question(gpu=None)), "85 tok/s")


def test_a_rate_may_be_possible_in_total_and_not_for_a_sequence() -> None:
    claim = judge(answer(question(batch=32.0)), "2000 tok/s")
    assert [(v.reading, v.possible) for v in claim.verdicts] == [("per sequence", False), ("total", True)]
    assert claim.possible
    assert claim.remedies == ()


def test_a_possible_rate_that_does_not_fit_gets_the_width_that_holds_it() -> None:
    claim = judge(answer(question("Llama-2-70B", context="128")), "20 tok/s")
    assert claim.possible
    assert not claim.fits
    assert claim.remedies[0].startswith("2 GPUs at TP 2")
    assert not any("bandwidth" in remedy for remedy in claim.remedies)


def test_a_time_that_is_too_short_gets_a_smaller_batch_rather_than_a_total() -> None:
    claim = judge(answer(question(batch=32.0)), "8 ms")
    assert any(remedy.startswith("a batch of at most") for remedy in claim.remedies)
    batch = int(next(r for r in claim.remedies if "at most" in r).split()[-1])
    assert (decode_of(question(batch=float(batch))).ceiling or 0) / batch >= 1 / 0.008
    assert (decode_of(question(batch=float(batch + 1))).ceiling or 0) / (batch + 1) < 1 / 0.008


def test_the_named_bandwidth_is_just_enough() -> None:
    asked = question("Llama-3.1-8B")
    rate = 1.5 * (decode_of(asked).ceiling or 0)
    claim = judge(answer(asked), f"{rate} tok/s")
    assert claim.remedies[0].startswith(("5.02 TB/s of bandwidth", "5.03 TB/s of bandwidth"))
    assert (decode_of(question(bandwidth="5030")).ceiling or 0) >= rate


@given(st.floats(1, 1e5))
def test_a_claim_is_possible_exactly_up_to_the_ceiling(rate: float) -> None:
    found = answer(question(batch=4.0))
    claim = judge(found, f"{rate:.3f} tok/s total")
    assert claim.possible == (round(rate, 3) <= (found.decode.ceiling or 0))
    assert claim.possible == (not claim.remedies)


def test_a_batch_that_would_do_but_has_no_room_is_said_to_have_none() -> None:
    claim = judge(answer(question(batch=100.0)), "5500 tok/s")
    remedy = next(r for r in claim.remedies if r.startswith("a batch of"))
    assert remedy.endswith("only 112 fit")
    assert claim.verdicts[1].reading == "total"
