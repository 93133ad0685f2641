"""A gain below that of the ranks is explained in every format."""

from __future__ import annotations

import json

from rooflines import question, report

from kvdoctor.render import roofline_html, roofline_json, roofline_text
from kvdoctor.roofline.report import Report


def small() -> Report:
    """A model that two cards hardly speed up."""
    return report(question("Llama-3.1-8B", "H100", context="4k"), swept=False)


def words(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())


def test_the_text_says_what_keeps_the_step_from_halving() -> None:
    text = words(roofline_text.render(small()))
    assert "TP x2 by its parts: a step of one card to expect at best, x 1.17" in text
    assert "latency - 1.92 ms" in text
    assert "A step is 1.17 times as fast, not 2: launches and the start of all-reduces take 1.92 ms" in text


def test_the_page_says_the_same() -> None:
    page = roofline_html.render(small())
    assert "TP x2 by its parts" in page
    assert "A step is 1.17 times as fast, not 2" in page


def test_json_has_the_parts() -> None:
    rows = {row["change"]: row for row in json.loads(roofline_json.render(small()))["what_if"]}
    found = rows["TP x2"]["widening"]
    assert rows["weights int4"]["widening"] is None
    assert found["ranks"] == [1, 2]
    parts = {part["name"]: part for part in found["parts"]}
    assert parts["latency"]["lost_seconds"] == 0.00192
    assert parts["weights"]["after_bytes"] < 0.51 * parts["weights"]["before_bytes"]
    assert found["all_reduce_bytes"] == 8192


def test_copied_heads_and_latents_are_named() -> None:
    copied = words(
        roofline_text.render(report(question("Llama-3.1-8B", "L40S", tp=8, batch=64.0), swept=False))
    )
    latent = words(
        roofline_text.render(report(question("DeepSeek-V3", "H200", gpus=8, batch=64.0), swept=False))
    )
    assert "KV does not halve (fewer KV heads than ranks: copies)" in copied
    assert "KV does not halve (MLA: each rank reads the whole latent)" in latent


def test_more_sequences_are_told_apart_from_a_faster_step() -> None:
    text = words(roofline_text.render(report(question(batch=512.0, context="8k"), swept=False)))
    assert "56 sequences fit now, 127 then" in text
    assert "A step of 127 sequences in place of 56 takes 1.09 times as long" in text


def test_an_unknown_link_is_said() -> None:
    bare = question(gpu=None, bandwidth="1000", memory="80")
    assert "Messages between the cards are not counted" in words(
        roofline_text.render(report(bare, swept=False))
    )
