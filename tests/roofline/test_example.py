"""The worked example: exact figures beside the rounded ones."""

from __future__ import annotations

from kvdoctor.render import roofline_example
from kvdoctor.roofline.example import kv_bytes, rows


def test_the_kv_of_131072_tokens_is_16_gib_and_of_mha_four_times_that() -> None:
    assert kv_bytes(8) == 16 * 2**30
    assert kv_bytes(32) == 64 * 2**30


def test_each_rounded_figure_stands_beside_the_exact_one() -> None:
    found = {row.what: (row.written, row.exact) for row in rows()}
    assert found["weights, 7 B in FP16"] == ("~14 GiB", "13.04 GiB = 14.00 GB")
    assert found["30 GiB over 3 TB/s"] == ("~10 ms, ~100 tok/s", "10.7 ms, 93.1 tok/s")
    assert found["30 GiB over 1.8 TB/s"] == ("~60 tok/s", "17.9 ms, 55.9 tok/s")
    assert found["4 GiB from HBM"][1] == "1.43 ms"


def test_it_says_that_the_kv_is_read_for_one_token() -> None:
    text = roofline_example.render()
    assert "batch 1 and 131,072 tokens" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
