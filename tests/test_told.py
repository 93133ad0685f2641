"""What the user told, as far as it makes sense."""

from __future__ import annotations

import pytest
from loads import load

from kvdoctor.diagnose import diagnose
from kvdoctor.told import sensible

NUMBERS = ("bandwidth", "link", "slo_ttft", "slo_itl")
BAD = {
    **{name: ("x", "", "0", "-1", "nan", "inf") for name in NUMBERS},
    "tp": ("0", "-1", "1.5", "", "x", "9" * 40, "²"),
    "slow": ("x", "", "TTFT"),
    "model_config": ("{", "", "[]", "null", "7", "[" * 100_000),
    "model_side": ("{", "[]"),
}
GOOD = {
    "bandwidth": "3350",
    "link": "12.5",
    "slo_ttft": "0.5",
    "tp": "8",
    "slow": "itl",
    "model_config": "{}",
}


@pytest.mark.parametrize(
    ("name", "text"), [(n, t) for n, texts in BAD.items() for t in texts], ids=lambda x: x[:9]
)
def test_what_makes_no_sense_is_left_out_and_said(name, text):
    kept, gaps = sensible({name: text, "gpu": "H100"})
    assert kept == {"gpu": "H100"}
    assert (gaps[0].source, bool(gaps[0].cure)) == (name, True)


def test_what_makes_sense_is_kept():
    assert sensible(GOOD) == (GOOD, ())


@pytest.mark.parametrize(("name", "texts"), BAD.items())
def test_no_fact_of_a_foreign_recording_stops_the_diagnosis(name, texts):
    for text in texts:
        found = diagnose(load(facts={"gpu": "H100 SXM", name: text}))
        assert name in {gap.source for gap in found.gaps}
