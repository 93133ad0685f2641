"""Why twice the ranks gain what they gain: parts that add up, and what keeps each from halving."""

from __future__ import annotations

import pytest
from rooflines import question

from kvdoctor.roofline.answer import answer
from kvdoctor.roofline.question import Question
from kvdoctor.roofline.whatif import WhatIf, what_ifs
from kvdoctor.roofline.widening import PartChange, Widening


def row_of(asked: Question) -> WhatIf:
    """The row of twice the ranks."""
    return next(row for row in what_ifs(asked) if row.change == "TP x2")


def widening(asked: Question) -> Widening:
    """Its parts."""
    found = row_of(asked).widening
    assert found is not None
    return found


def part(found: Widening, name: str) -> PartChange:
    """One part by its name."""
    return next(part for part in found.parts if part.name == name)


def test_a_small_model_on_two_cards_gains_little_because_of_the_latency_of_each_layer() -> None:
    found = widening(question("Llama-3.1-8B", "H100", context="4k"))
    assert [p.name for p in found.losses] == ["latency"]
    latency = part(found, "latency")
    assert (latency.before_seconds, latency.after_seconds) == (0, pytest.approx(32 * 60e-6))
    assert part(found, "kv").after_bytes == pytest.approx(4096 * 131072 / 2)
    # 0.53 MB of norms lie whole on each card.
    assert part(found, "weights").undivided_bytes == pytest.approx(65 * 4096 * 2 / 2)
    assert (found.all_reduces, found.message_bytes) == (64, 8192)
    assert found.before_seconds / found.after_seconds == pytest.approx(1.174, abs=0.001)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("Llama-3.1-8B", {"gpu": "H100"}),
        ("Llama-3.1-8B", {"gpu": "H100", "batch": 2000.0, "context": "64", "pool": "60"}),
        ("DeepSeek-V3", {"gpu": "H200", "gpus": 8, "batch": 64.0}),
        ("Qwen3-Next-80B-A3B-Instruct", {"gpu": "H200", "gpus": 2, "batch": 64.0}),
        ("Llama-3.1-8B", {"gpu": "H100", "batch": 512.0, "context": "8k"}),
        ("Qwen3-32B", {"gpu": "H100", "batch": 8.0, "draft_tokens": 3, "accept": 0.7}),
        ("Llama-3.1-70B", {"gpu": "H100", "gpus": 4, "pp": 2, "batch": 8.0}),
    ],
)
def test_the_parts_add_up_to_the_expectation_and_explain_the_gain(
    model: str, options: dict[str, object]
) -> None:
    row = row_of(question(model, **options))  # type: ignore[arg-type]
    found = row.widening
    assert found is not None
    assert sum(p.before_seconds for p in found.parts) == pytest.approx(found.before_seconds)
    assert sum(p.after_seconds for p in found.parts) == pytest.approx(found.after_seconds)
    now, then = found.batches
    assert row.gain == pytest.approx(then / now * found.before_seconds / found.after_seconds)


def test_beyond_its_heads_the_kv_of_a_rank_is_the_same() -> None:
    found = widening(question("Llama-3.1-8B", "L40S", tp=8, batch=64.0, context="8k"))
    kv = part(found, "kv")
    assert kv.before_bytes == kv.after_bytes == 64 * 8192 * 131072 / 8
    assert kv.undivided_bytes == pytest.approx(64 * 8192 * 131072 / 16)
    assert found.losses[0].name == "kv"
    assert found.kv_reason == "heads"


def test_up_to_its_heads_the_kv_of_a_rank_halves() -> None:
    found = widening(question("Llama-3.1-8B", "L40S", tp=4, batch=64.0, context="8k"))
    assert part(found, "kv").undivided_bytes == 0
    assert found.kv_reason == ""


def test_mla_reads_the_whole_latent_on_every_rank() -> None:
    found = widening(question("DeepSeek-V3", "H200", gpus=8, batch=64.0))
    assert part(found, "kv").before_bytes == part(found, "kv").after_bytes
    assert found.kv_reason == "latent"


def test_more_room_is_told_by_the_sequences_that_fit_on_each_side() -> None:
    found = widening(question("Llama-3.1-8B", "H100", batch=512.0, context="8k"))
    assert found.batches == (56, 127)


def test_without_a_bandwidth_or_room_there_is_nothing_to_explain() -> None:
    assert row_of(question(gpu=None)).widening is None
    assert row_of(question("Llama-2-70B", "H100")).widening is None


@pytest.mark.parametrize(
    ("gpu", "options", "warned"),
    [
        ("H100", {"tp": 8}, False),
        ("H100", {"tp": 16}, True),
        ("H100", {"tp": 16, "link": "50"}, False),
        ("GB200", {"tp": 16}, False),
    ],
)
def test_ranks_beyond_a_host_are_warned_of(gpu: str, options: dict[str, object], warned: bool) -> None:
    found = answer(question("Llama-3.1-70B", gpu, **options))
    assert any("within a host" in text for text in found.warnings) is warned
