"""The roofline as JSON."""

from __future__ import annotations

import json
import math

from rooflines import question, report

from kvdoctor.render import roofline_json


def test_nothing_undefined_reaches_json_and_what_fits_at_last_is_marked() -> None:
    found = json.loads(roofline_json.render(report(question("Llama-2-70B"), "85 tok/s")))
    rows = {row["change"]: row for row in found["what_if"]}
    assert rows["weights int4"]["gain"] is None
    assert rows["weights int4"]["makes_it_fit"]
    assert rows["KV fp8"]["makes_it_fit"] is False
    assert found["claim"]["possible"] is False
    assert found["memory"]["misfits"]
    assert all(math.isfinite(tier["gb_per_s"]) for tier in found["tiers"])


def test_it_is_ascii_and_rounds_to_what_means_something() -> None:
    text = roofline_json.render(report(question(batch=3.0), swept=False))
    assert text.isascii()
    assert text.endswith("}\n")
    assert json.loads(text)["sweep"] is None
