"""What each change buys: bytes where bandwidth is short, room where room is short, and never offload for speed."""

from __future__ import annotations

import math

import pytest
from rooflines import question

from kvdoctor.roofline.question import Question
from kvdoctor.roofline.rates import decode_of
from kvdoctor.roofline.whatif import WhatIf, what_ifs


def by_name(asked: Question) -> dict[str, WhatIf]:
    """The rows of a question by what they change."""
    return {row.change: row for row in what_ifs(asked)}


def test_offload_is_not_advised_where_the_batch_fits() -> None:
    row = by_name(question(batch=32.0))["offload idle KV"]
    assert not row.advised
    assert row.gain is None
    assert row.after == row.before
    assert "no step faster" in row.note


def test_offload_is_advised_where_sequences_wait_for_room_and_more_of_them_would_be_faster() -> None:
    row = by_name(question(batch=256.0, gpu="L40S", context="4k"))["offload idle KV"]
    assert row.before.sequences is not None
    assert row.before.sequences < 256
    assert row.advised
    assert row.gain is not None
    assert row.gain > 1.05
    assert row.after.step_seconds == row.before.step_seconds


def test_offload_is_not_advised_where_room_lacks_but_bandwidth_rules() -> None:
    row = by_name(question("Llama-2-7B", batch=32.0, context="4k"))["offload idle KV"]
    assert row.before.sequences == 29
    assert not row.advised
    assert "bandwidth rules" in row.note


def test_nothing_is_idle_where_not_one_sequence_fits() -> None:
    rows = by_name(question("Llama-2-70B"))
    assert "nothing is idle" in rows["offload idle KV"].note
    assert rows["weights int4"].gain == math.inf
    assert rows["TP x2"].advised
    assert rows["KV fp8"].gain is None


def test_weights_left_in_host_memory_cost_their_transfer_in_every_step() -> None:
    row = by_name(question("Llama-2-70B"))["offload weights"]
    assert row.after.step_seconds is not None
    assert row.before.step_seconds is not None
    assert row.after.step_seconds > row.before.step_seconds + 60e9 / 50e9
    assert "offload weights" not in by_name(question())


@pytest.mark.parametrize(("dtype", "factor"), [("fp8", 0.5), ("int8", 0.515625), ("int4", 0.265625)])
def test_quantized_kv_reads_its_share_of_the_kv(dtype: str, factor: float) -> None:
    asked = question(batch=32.0)
    row, kv = by_name(asked)[f"KV {dtype}"], decode_of(asked).bytes.kv
    assert row.before.step_bytes - row.after.step_bytes == pytest.approx(kv * (1 - factor))


def test_weights_that_are_quantized_already_are_not_quantized_again() -> None:
    assert "weights fp8" not in by_name(question(weights="fp8"))
    assert "weights int4" in by_name(question(weights="fp8"))
    assert "KV fp8" not in by_name(question(kv_dtype="fp8"))


def test_gqa_is_for_models_whose_query_heads_all_have_kv_of_their_own() -> None:
    asked = question("Llama-2-7B", batch=8.0)
    row = by_name(asked)["GQA (4 query heads a KV head)"]
    saved = row.before.step_bytes - row.after.step_bytes
    # A quarter of the KV stays, and a quarter of the K and V projections of 4096 x 4096 fp16 in 32 layers.
    assert saved == pytest.approx(0.75 * (decode_of(asked).bytes.kv + 32 * 2 * 4096 * 4096 * 2))
    assert not any("GQA" in name for name in by_name(question()))


def test_dcp_is_for_heads_that_cannot_be_divided_further() -> None:
    assert "DCP x2" in by_name(question("DeepSeek-V3", gpus=8, gpu="H200"))
    assert "DCP x2" in by_name(question("Qwen3-235B-A22B", gpus=8, gpu="H200"))
    assert "DCP x2" not in by_name(question("Llama-3.1-70B", gpus=8))


def test_sparse_latents_take_their_own_fp8_layout() -> None:
    row = by_name(question("DeepSeek-V3.2", gpus=8, gpu="H200", batch=64.0, context="64k"))["KV fp8"]
    assert row.after.sequences is not None
    assert row.before.sequences is not None
    assert row.after.sequences < 2 * row.before.sequences


def test_a_longer_context_is_offered_only_within_the_models_positions() -> None:
    assert "context x2" in by_name(question(context="64k"))
    assert "context x2" not in by_name(question(context="128k"))


def test_speculation_states_what_it_assumes_and_is_taken_away_where_it_is_on() -> None:
    assert "70%" in by_name(question())["speculation, 3 drafted"].note
    rows = by_name(question(draft_tokens=3, accept=0.1, batch=256.0))
    assert "speculation, 3 drafted" not in rows
    assert rows["no speculation"].gain is not None


def test_remedies_come_by_gain_and_what_only_changes_the_load_comes_last() -> None:
    for model, batch in (("Llama-3.1-8B", 32.0), ("DeepSeek-V3", 64.0), ("Llama-2-7B", 64.0)):
        rows = what_ifs(question(model, gpu="H200", gpus=8, batch=batch))
        remedies = [row for row in rows if row.kind != "load"]
        assert [row.kind for row in rows[len(remedies) :]] == ["load"] * (len(rows) - len(remedies))
        advised = [row.gain or 0.0 for row in remedies if row.advised]
        assert advised == sorted(advised, reverse=True)
        assert all(row.advised for row in remedies[: len(advised)])


def test_without_a_card_bytes_alone_are_compared() -> None:
    rows = by_name(question(gpu=None))
    assert all(row.gain is None and row.after.step_seconds is None for row in rows.values())
    assert rows["weights int4"].after.step_bytes < rows["weights int4"].before.step_bytes
