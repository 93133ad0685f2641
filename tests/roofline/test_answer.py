"""What the answer says of a service: bytes, rates, room, the first token, and what does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflines import question

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline import kv, weights
from kvdoctor.roofline.answer import answer
from kvdoctor.roofline.machine import card_of
from kvdoctor.roofline.probefile import measured_in
from kvdoctor.roofline.rates import decode_of

GIB = 2**30


def test_a_gqa_model_at_32_x_4096_reads_16_gib_of_kv() -> None:
    found = answer(question(batch=32.0, context="4k"))
    assert found.decode.bytes.kv == 16 * GIB
    assert found.kv_per_token == 131072
    assert found.kv_per_sequence == 131072 * 4096
    assert found.decode.ceiling == pytest.approx(32 / ((found.decode.bytes.weights + 16 * GIB) / 3.35e12))


def test_the_ceiling_never_comes_without_the_expectation_and_lies_above_it() -> None:
    for model in ("Llama-3.1-8B", "DeepSeek-V3", "gpt-oss-120b", "Qwen3-Next-80B-A3B"):
        found = answer(question(model, gpus=8, batch=16.0)).decode
        assert found.ceiling is not None
        assert found.expected is not None
        assert 0 < found.expected[0] < found.expected[1] < found.ceiling
        assert found.basis


def test_the_total_ceiling_is_over_the_whole_batch() -> None:
    one, many = (answer(question(batch=batch)).decode for batch in (1.0, 8.0))
    assert one.ceiling is not None
    assert many.ceiling is not None
    assert one.ceiling < many.ceiling < 8 * one.ceiling


def test_without_a_card_there_are_bytes_and_no_rates() -> None:
    found = answer(question(gpu=None))
    assert found.decode.bytes.kv > 0
    assert (found.decode.ceiling, found.decode.expected, found.ridges, found.fit.pool) == (None,) * 4
    assert any("--gpu" in text for text in found.warnings)


def test_weights_that_do_not_fit_are_said_with_how_many_gpus_hold_them() -> None:
    found = answer(question("Llama-2-70B"))
    assert len(found.fit.misfits) == 1
    assert "2 such GPUs" in found.fit.misfits[0]
    assert found.fit.sequences == 0
    assert answer(question("Llama-2-70B", gpus=2)).fit.misfits == ()


@pytest.mark.parametrize(("batch", "fits"), [(112.0, True), (113.0, False)])
def test_a_batch_fits_up_to_the_sequences_of_the_pool(batch: float, fits: bool) -> None:
    found = answer(question(batch=batch, context="4k"))
    assert found.fit.sequences == 112
    assert (found.fit.misfits == ()) is fits


def test_a_given_pool_is_whole_blocks_and_whole_sequences() -> None:
    pool = answer(question(pool="2.89", context="29000")).fit.pool
    assert pool is not None
    assert (pool.blocks, pool.tokens, pool.sequences) == (1479, 23664, 0)


def test_a_mix_reads_the_mean_of_full_layers_and_less_than_the_mean_of_windows() -> None:
    mixed, even = (question(batch=4.0, context=context) for context in ("1k:1,7k:1", "4k"))
    assert decode_of(mixed).bytes.kv == decode_of(even).bytes.kv
    windowed = [question("gemma-2-9b", batch=4.0, context=context) for context in ("1k:1,7k:1", "4k")]
    assert decode_of(windowed[0]).bytes.kv < decode_of(windowed[1]).bytes.kv


def test_a_measured_rate_replaces_the_data_sheet_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "hbm.json"
    file.write_text(json.dumps({"rows": [{"bytes_per_s": 2.0e12}, {"bytes_per_s": 2.9e12}]}))
    found = answer(question(measured=str(file)))
    assert found.question.card.bandwidth == 2.9e12
    assert "hbm.json" in found.question.card.basis
    assert found.decode.ceiling == pytest.approx((answer(question()).decode.ceiling or 0) * 2.9 / 3.35)


def test_a_probes_lines_are_read_and_its_own_verdict_wins_over_its_rows(tmp_path: Path) -> None:
    file = tmp_path / "probe.jsonl"
    file.write_text('{"achieved_bytes_per_s": 1e12, "rows": [{"bytes_per_s": 9e12}]}\n{"note": "no rate"}\n')
    assert measured_in(file).bytes_per_s == 1e12


@pytest.mark.parametrize("text", ["", "{}", "not json", '{"bytes_per_s": "fast"}', '{"bytes_per_s": true}'])
def test_a_file_without_a_rate_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "hbm.json"
    file.write_text(text)
    with pytest.raises(KvdoctorError):
        measured_in(file)


def test_the_ttft_of_a_hit_is_far_below_that_of_a_miss() -> None:
    first = answer(question(context="32k")).first_token
    assert first.hit_seconds is not None
    assert first.miss_seconds is not None
    assert first.floor is not None
    assert first.hit_tokens == 16
    assert first.hit_seconds < first.miss_seconds / 10


def test_a_prefill_gives_the_first_token_without_a_decode_step_on_top() -> None:
    found = answer(question("Llama-3.1-8B", "H100", context="4k"))
    first = found.first_token
    # One pass over 15.01e9 bytes of weights and 4,096 tokens of 131,072 B, at 3.35e12 B/s.
    assert first.hit_seconds == pytest.approx((15.01e9 + 4096 * 131072) / 3.35e12, rel=1e-3)
    assert first.hit_seconds == pytest.approx(found.decode.seconds_floor, rel=1e-4)
    # 61.58e12 FLOPs at 989e12 FLOP/s.
    assert first.miss_seconds == pytest.approx(61.58e12 / 989e12, rel=1e-3)
    assert first.floor is not None
    assert first.miss_seconds == first.floor.seconds


def test_a_prompt_of_one_token_takes_the_same_as_a_miss_and_as_a_hit() -> None:
    first = answer(question("Llama-3.1-8B", "H100", context="1")).first_token
    assert first.hit_tokens == 1
    assert first.hit_seconds == first.miss_seconds == pytest.approx(15.01e9 / 3.35e12, rel=1e-3)
    # Reads too are expected at 85% of the data sheet.
    assert first.expected_seconds == pytest.approx(15.01e9 / 3.35e12 / 0.85, rel=1e-3)


def test_a_hit_of_sparse_attention_reads_its_top_tokens_and_not_all_that_is_stored() -> None:
    found = answer(question("DeepSeek-V3.2", "H200", gpus=8, context="128k"))
    shape, layout = found.question.shape, found.question.layout
    stored = kv.sequence_bytes(shape, tokens=131072, layout=layout)
    reached = kv.read_bytes(shape, context=131056, layout=layout)[0]
    experts = weights.read_bytes(shape, tokens=16, layout=layout).estimate
    written = stored - kv.sequence_bytes(shape, tokens=131056, layout=layout)
    assert reached < stored / 4
    assert found.first_token.hit_seconds == pytest.approx((experts + reached + written) / 4.8e12)


def test_a_slow_network_loses_to_computing_again_and_host_memory_wins() -> None:
    places = {place.tier.name: place for place in answer(question(context="8k")).places}
    host = next(p for name, p in places.items() if "PCIe 5.0" in name)
    slow = places["network, 10 Gbps"]
    assert host.fetch_seconds < host.recompute_seconds
    assert slow.fetch_seconds > slow.recompute_seconds
    assert not any("PCIe 4.0" in name for name in places)
    assert host.tier.measured > host.break_even_bytes_per_s > slow.tier.measured


def test_computing_a_prefix_again_costs_what_it_adds_to_the_pass_of_a_hit() -> None:
    found = answer(question("Llama-3.1-8B", "H100", context="8k"))
    # 132.2e12 FLOPs of 8,208 tokens at half of 989e12 FLOP/s, less the reads of a hit's pass at 85% of 3.35e12 B/s.
    again = 132.2e12 / (0.5 * 989e12) - (15.01e9 + 8208 * 131072) / (0.85 * 3.35e12)
    assert found.places[0].recompute_seconds == pytest.approx(again, rel=2e-3)


def test_a_prefix_that_the_reads_of_the_weights_hide_is_never_worth_a_fetch() -> None:
    short = answer(question("Llama-3.1-8B", "H100", context="64"))
    assert {place.recompute_seconds for place in short.places} == {0.0}
    # Half of the peak computes 163 tokens (0.5 * 989e12 / (2 * 6.98e9 * 3.35e12 * 0.85 / 15.01e9)) in that time.
    assert all((place.break_even_tokens or 0) > 160 for place in short.places)


def test_rates_of_a_batch_that_does_not_fit_stand_beside_those_of_what_fits() -> None:
    found = answer(question("Llama-3.1-8B", "H100", batch=512.0, context="8k"))
    alone = answer(question("Llama-3.1-8B", "H100", batch=56.0, context="8k"))
    assert found.fit.sequences == 56
    assert found.fitting is not None
    assert found.fitting.ceiling == alone.decode.ceiling
    assert alone.fitting is None
    assert answer(question("Llama-2-70B", "H100")).fitting is None


def test_without_a_peak_prefill_and_tiers_are_not_judged() -> None:
    found = answer(question(gpu=None, bandwidth="1000"))
    assert found.places == ()
    assert found.first_token.expected_seconds is None
    assert found.decode.ceiling is not None
    assert any("--peak" in text for text in found.warnings)


def test_drafted_tokens_multiply_the_ceiling_by_at_most_what_is_accepted() -> None:
    plain = decode_of(question()).ceiling
    drafted = decode_of(question(draft_tokens=3, accept=2.5)).ceiling
    assert plain is not None
    assert drafted is not None
    assert plain < drafted <= 2.5 * plain
    assert decode_of(question(draft_tokens=3, accept=0.7)).ceiling == pytest.approx(
        drafted * 2.533 / 2.5, rel=1e-3
    )


@pytest.mark.parametrize(
    "options",
    [
        {"batch": 0.0},
        {"batch": -1.0},
        {"batch": float("inf")},
        {"context": "-5"},
        {"context": "many"},
        {"context": "4k:0"},
        {"gpus": 3, "tp": 2},
        {"gpus": 3, "pp": 2},
        {"tp": 0},
        {"tp": 4, "dp_attention": 3},
        {"tp": 4, "dcp": 3},
        {"pp": 33},
        {"utilization": 1.5},
        {"utilization": 0.0},
        {"block_size": 0},
        {"pool": "0"},
        {"pool": "many"},
        {"kv_dtype": "fp7"},
        {"kv_dtype": "fp8_ds_mla"},
        {"weights": "int3"},
        {"weights": "bf16,tail=int8"},
        {"weights": "4.58GiB,head=int8"},
        {"weights": "1GB", "model": "Llama-3.1-70B"},
        {"windows": "some"},
        {"latent": "other"},
        {"bandwidth": "0"},
        {"bandwidth": "fast"},
        {"bandwidth": "1000", "measured": "x.json"},
        {"measured": "/nowhere/x.json"},
        {"peak": -1.0},
        {"gpu": "H1000"},
        {"gpu": "auto"},
        {"model": "no-such-model"},
        {"model": "/nowhere/config.json"},
        {"draft_tokens": 3},
        {"accept": 0.5},
        {"draft_tokens": 3, "accept": 4.5},
        {"draft_tokens": -1, "accept": 0.5},
        {"state_dtype": "zork"},
    ],
)
def test_a_question_that_makes_no_sense_is_refused_with_a_hint(
    options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvdoctor.roofline.machine.local_gpu_name", lambda: None)
    with pytest.raises(KvdoctorError) as refusal:
        answer(question(**options))  # type: ignore[arg-type]
    assert refusal.value.hint


def test_an_unknown_card_or_model_gets_near_names() -> None:
    with pytest.raises(KvdoctorError) as card:
        card_of("H1000")
    assert "H100" in card.value.hint
    with pytest.raises(KvdoctorError) as model:
        question("Llama-3.1-8")
    assert "Llama-3.1-8B" in model.value.hint


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"context": "256k"}, "beyond the 131,072 positions"),
        ({"tp": 16}, "copies"),
        ({"tp": 3}, "do not divide"),
        ({"gpus": 8, "tp": 2}, "4 replicas"),
        ({"model": "DeepSeek-V3", "gpus": 8}, "every TP rank holds the whole latent"),
        ({"model": "Qwen3-30B-A3B", "batch": 8.0}, "uniform routing"),
        ({"model": "gpt-oss-20b"}, "window"),
        ({"draft_tokens": 2, "accept": 0.5}, "drafter"),
    ],
)
def test_what_a_reader_must_know_is_said(options: dict[str, object], said: str) -> None:
    assert any(said in text for text in answer(question(**options)).warnings)  # type: ignore[arg-type]


@given(
    batch=st.floats(0.5, 512),
    context=st.integers(1, 131072),
    tp=st.sampled_from((1, 2, 4, 8)),
    model=st.sampled_from(
        ("Llama-3.1-8B", "gemma-3-27b", "DeepSeek-V3", "Qwen3-Next-80B-A3B", "Mixtral-8x7B")
    ),
)
def test_more_batch_or_context_reads_no_less_and_more_bandwidth_is_no_slower(
    batch: float, context: int, tp: int, model: str
) -> None:
    here = decode_of(question(model, tp=tp, batch=batch, context=str(context)))
    more = decode_of(question(model, tp=tp, batch=2 * batch, context=str(context)))
    longer = decode_of(question(model, tp=tp, batch=batch, context=str(2 * context)))
    slower = decode_of(question(model, tp=tp, batch=batch, context=str(context), bandwidth="1000"))
    assert here.bytes.total <= more.bytes.total * (1 + 1e-12)
    assert here.bytes.total <= longer.bytes.total * (1 + 1e-12)
    assert (slower.ceiling or 0) <= (here.ceiling or 0)
