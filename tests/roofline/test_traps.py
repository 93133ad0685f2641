"""The places where calculators of KV and weights go wrong, each with the right value."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline import kv, notes, pool, prefill, serving, speculation, weights
from kvdoctor.roofline.checkpoint import load_shape
from kvdoctor.roofline.config import shape_from_config
from kvdoctor.roofline.doubt import suspects
from kvdoctor.roofline.hardware import gpu_by_name
from kvdoctor.roofline.presets import preset, preset_config
from kvdoctor.roofline.quantization import reformatted
from kvdoctor.roofline.shape import KvStorage, Layout
from kvdoctor.roofline.step import Load, Machine, decode_step


def changed(name: str, **keys: Any) -> dict[str, object]:
    """The config of a preset with other values."""
    return preset_config(name) | keys


def test_query_heads_are_not_kv_heads() -> None:
    assert serving.kv_bytes_per_token(preset("Llama-3.1-8B")) == 131072
    assert serving.kv_bytes_per_token(preset("Llama-3.1-70B")) == 327680


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("Qwen3-32B", 128),
        ("Qwen3-0.6B", 128),
        ("gpt-oss-120b", 64),
        ("gemma-2-9b", 256),
        ("gemma-3-27b-it", 128),
        ("GLM-4.5", 128),
        ("Mistral-Small-24B", 128),
        ("Qwen3-Next-80B-A3B", 256),
    ],
)
def test_an_explicit_head_size_wins_over_hidden_by_heads(name: str, size: int) -> None:
    caches = {layer.cache.k_dim for layer in preset(name).layers if layer.cache}
    assert caches == {size}


def test_mla_has_no_factor_two_and_is_not_divided_by_tp() -> None:
    shape = preset("DeepSeek-V3")
    assert [serving.kv_bytes_per_token(shape, tp=tp) for tp in (1, 8)] == [70272, 70272]


def test_a_rank_keeps_at_least_one_kv_head() -> None:
    shape = preset("Qwen3-235B-A22B")
    assert [serving.kv_bytes_per_token(shape, tp=tp) for tp in (1, 4, 8)] == [192512, 48128, 48128]


def test_only_full_layers_grow_and_windows_hold_their_span() -> None:
    shape = preset("gpt-oss-120b")
    per_layer = 2 * 8 * 64 * 2
    assert serving.kv_bytes_per_token(shape) == 18 * per_layer
    assert serving.kv_bytes_per_sequence(shape, context=10_000) == 18 * per_layer * (10_000 + 128)


def test_chunked_layers_hold_a_chunk_and_read_half_of_it_in_the_mean() -> None:
    shape = preset("Llama-4-Scout-17B-16E")
    per_layer = 2 * 8 * 128 * 2
    assert serving.kv_bytes_per_sequence(shape, context=100_000) == per_layer * (12 * 100_000 + 36 * 8192)
    read = serving.decode_bytes(shape, batch=1, context=100_000)
    assert read.kv == per_layer * (12 * 100_000 + 36 * 4096)
    assert read.kv_high == per_layer * (12 * 100_000 + 36 * 8192)


@pytest.mark.parametrize(
    ("name", "fp32", "tokens"),
    [
        ("Qwen3-Next-80B-A3B", 77_266_944, 3144),
        ("NVIDIA-Nemotron-3-Nano-30B-A3B", 49_082_368, 7989),
        ("Qwen3.5-27B", 153_944_064, 2349),
        ("granite-4.0-h-small", 152_819_712, 9327),
    ],
)
def test_a_recurrent_state_is_worth_thousands_of_tokens(name: str, fp32: int, tokens: int) -> None:
    shape = preset(name)
    state = serving.state_bytes_per_sequence(shape)
    assert state == fp32
    assert state / serving.kv_bytes_per_token(shape) == pytest.approx(tokens, abs=0.5)


def test_the_state_dtype_of_vllm_is_two_bytes_unless_the_model_asks() -> None:
    plain, asking = preset("Qwen3-Next-80B-A3B"), preset("Qwen3.5-27B")
    assert (kv.vllm_state_dtype(plain), kv.vllm_state_dtype(asking)) == ("bf16", "fp32")
    assert serving.state_bytes_per_sequence(plain, state_dtype="bf16") == 39_518_208


@pytest.mark.parametrize("switch", [{"use_sliding_window": False}, {"sliding_window": None}])
def test_a_window_that_is_switched_off_does_not_count(switch: dict[str, object]) -> None:
    config = changed("Mistral-7B-v0.1", sliding_window=4096) | switch
    assert {layer.kind for layer in shape_from_config(config).layers} == {"full"}


def test_a_window_longer_than_the_context_does_not_count() -> None:
    assert {layer.kind for layer in preset("Phi-3.5-mini").layers} == {"full"}
    assert {layer.kind for layer in preset("Mistral-7B-v0.1").layers} == {"window"}


def test_the_kv_heads_of_an_mla_config_are_not_believed() -> None:
    other = shape_from_config(changed("DeepSeek-V3", num_key_value_heads=1, head_dim=192))
    assert serving.kv_bytes_per_token(other) == 70272


def test_a_large_batch_reads_nearly_all_experts_and_batch_one_only_the_used() -> None:
    assert weights.distinct(8, 2, 1) == 2
    assert weights.distinct(128, 8, 64) == pytest.approx(126, abs=0.5)
    assert weights.distinct(256, 8, 256) == pytest.approx(256, abs=0.5)
    one = serving.decode_bytes(preset("Mixtral-8x7B"), batch=1, context=128)
    assert one.weights == one.weights_low == one.weights_high
    assert one.weights == pytest.approx(2 * 12.749e9, rel=1e-3)


def test_the_embedding_is_a_gather_and_a_tied_head_is_read() -> None:
    untied, tied = preset("Llama-3.1-8B"), preset("Llama-3.2-1B")
    total = weights.parameters(untied).total
    assert serving.decode_bytes(untied, batch=1, context=0).weights == 2 * (total - 128256 * 4096)
    assert serving.decode_bytes(tied, batch=1, context=0).weights == 2 * weights.parameters(tied).total


def test_a_vision_tower_does_not_leak_into_the_language_model() -> None:
    shape = preset("Qwen3-VL-8B")
    assert (len(shape.layers), shape.hidden) == (36, 4096)
    assert weights.parameters(shape).total == pytest.approx(8.191e9, rel=1e-3)
    assert any("tower" in note for note in notes.notes(shape))


def test_fp8_weights_do_not_make_fp8_kv() -> None:
    assert preset("DeepSeek-V3").kv_dtype == "bf16"
    side = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    asked = shape_from_config(preset_config("Llama-3.1-70B"), side=side)
    assert (asked.kv_dtype, asked.weight_format) == ("fp8", "fp8")


def test_quantized_models_keep_embedding_and_head_at_16_bits() -> None:
    shape = reformatted(preset("Llama-3.1-70B"), weights="int8")
    held = weights.resident(shape, layout=Layout())
    assert held.total / 2**30 == pytest.approx(67.7229, abs=2e-4)
    assert held.by_part["embedding"] == held.by_part["head"] == 2 * 128256 * 8192


def test_sparse_attention_stores_every_token_and_reads_few() -> None:
    shape = preset("DeepSeek-V3.2")
    stored = serving.kv_bytes_per_sequence(shape, context=100_000)
    read = serving.decode_bytes(shape, batch=1, context=100_000).kv
    assert stored == 61 * 100_000 * (1152 + 132)
    assert read == 61 * (2048 * 1152 + 100_000 * 132)


def test_layers_that_share_kv_store_nothing_and_still_read() -> None:
    shape = preset("gemma-3n-E4B")
    assert kv.kv_layers(shape.layers) == 20
    per_layer = 2 * 2 * 256 * 2
    assert serving.kv_bytes_per_token(shape) == 4 * per_layer
    assert serving.decode_bytes(shape, batch=1, context=512).kv == 35 * 512 * per_layer


def test_index_keys_lie_only_in_the_layers_that_own_them() -> None:
    storage = KvStorage(dtype="fp8", index_dtype="plain-fp8")
    size = kv.sequence_bytes(preset("GLM-5.2"), tokens=1048576, layout=Layout(), storage=storage)
    assert size == 46.5 * 2**30


def test_a_hybrid_pool_counts_requests_not_tokens() -> None:
    shape = preset("Qwen3.5-27B")
    found = pool.fit(shape, pool_bytes=10e9, context=131072, layout=Layout())
    request = kv.sequence_bytes(shape, tokens=131072, layout=Layout())
    assert found.concurrency == pytest.approx(10e9 / request)
    assert found.tokens == int(found.concurrency * 131072)
    assert found.tokens < 10e9 / serving.kv_bytes_per_token(shape)


def test_blocks_round_up_and_the_next_token_owns_one_more() -> None:
    assert pool.request_blocks(128) == 9
    found = pool.fit(preset("Llama-3.1-8B"), pool_bytes=2.89 * 2**30, context=100, layout=Layout())
    assert (found.blocks, found.tokens, found.sequences) == (1479, 23664, 1479 // 7)


def test_the_fullest_rank_decides() -> None:
    held = weights.resident(preset("Llama-3.1-70B"), layout=Layout(tp=1, pp=4))
    assert held.total == max(held.stages)
    assert len(set(held.stages)) > 1


def test_a_mean_context_reads_less_than_the_longest() -> None:
    shape = preset("Llama-3.1-8B")
    mean = serving.decode_bytes(shape, batch=32, context=1152).kv
    longest = serving.decode_bytes(shape, batch=32, context=2176).kv
    assert mean / longest == pytest.approx(1152 / 2176)


def test_pipeline_stages_do_not_add_bandwidth() -> None:
    shape, machine, load = preset("Llama-3.1-70B"), Machine(1008e9), Load(1, 512)
    one = decode_step(shape, machine, load)
    split = decode_step(shape, machine, load, Layout(pp=2))
    shared = decode_step(shape, machine, load, Layout(tp=2))
    assert split.tokens_per_s_ceiling == pytest.approx(one.tokens_per_s_ceiling)
    assert shared.tokens_per_s_ceiling > 1.9 * one.tokens_per_s_ceiling


@pytest.mark.parametrize(
    ("name", "peak"), [("H100", 989e12), ("H200", 989e12), ("A100", 312e12), ("L4", 121e12)]
)
def test_peaks_are_dense(name: str, peak: float) -> None:
    assert gpu_by_name(name).bf16_flops == peak


def test_speculation_needs_its_accept_length() -> None:
    shape, machine, load = preset("Llama-3.1-8B"), Machine(3350e9, 989e12), Load(1, 1024)
    found = speculation.speculate(shape, machine, load, drafted=3, accepted=2.5)
    assert found.gain == pytest.approx(2.5, rel=0.01)
    with pytest.raises(KvdoctorError):
        speculation.speculate(shape, machine, load, drafted=3, accepted=4.5)


def test_small_active_bytes_on_many_gpus_are_ruled_by_latency() -> None:
    step = decode_step(preset("DeepSeek-R1"), Machine(8000e9, 4500e12, 900e9), Load(1, 821), Layout(tp=8))
    assert step.limit == "latency"
    assert step.seconds_expected[0] <= 9.16e-3 <= step.seconds_expected[1]
    assert step.tokens_per_s_ceiling > 5 * step.tokens_per_s_expected[1]


def test_a_state_is_read_and_written() -> None:
    shape = preset("Qwen3-Next-80B-A3B")
    assert serving.decode_bytes(shape, batch=3, context=1).state == 6 * 77_266_944


def test_falcon_7b_has_one_kv_head_and_40b_eight() -> None:
    assert serving.kv_bytes_per_token(preset("falcon-7b")) == 32 * 2 * 64 * 2
    assert serving.kv_bytes_per_token(preset("falcon-40b")) == 60 * 2 * 8 * 64 * 2


def test_json_with_infinity_parses(tmp_path: Any) -> None:
    text = json.dumps(
        preset_config("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16") | {"time_step_limit": [0.0, float("inf")]}
    )
    assert "Infinity" in text
    (tmp_path / "config.json").write_text(text)
    assert load_shape(tmp_path).family == "nemotron_h"


def test_85_tokens_a_second_of_a_70b_at_batch_one_are_impossible() -> None:
    step = decode_step(preset("Llama-2-70B"), Machine(3350e9, 989e12), Load(1, 128))
    assert step.tokens_per_s_ceiling == pytest.approx(24.37, abs=0.01)


def test_a_published_size_of_twice_the_kv_is_doubted() -> None:
    shape = preset("Llama-3.1-405B")
    size = serving.kv_bytes_per_sequence(shape, context=128_000)
    assert size / 2**30 == pytest.approx(61.52, abs=0.01)
    assert suspects(shape, claimed=123.05 * 2**30, computed=size)
    assert suspects(shape, claimed=size, computed=size) == ()


def test_layers_without_attention_store_nothing() -> None:
    shape = preset("Llama-3_3-Nemotron-Super-49B-v1")
    assert (len(shape.layers), kv.kv_layers(shape.layers)) == (80, 49)


def test_prefill_leaves_out_embedding_and_head() -> None:
    assert prefill.linear_params(preset("Llama-3.1-8B"), head=False) == 13959176192 / 2


def test_a_gb_is_not_a_gib() -> None:
    shape = preset("Llama-3.1-8B")
    claimed = serving.kv_bytes_per_sequence(shape, context=131072)
    assert any("GiB" in why for why in suspects(shape, claimed=claimed * 2**30 / 1e9, computed=claimed))


def test_decode_context_parallelism_divides_a_latent_that_tp_does_not() -> None:
    shape, layout = preset("DeepSeek-V3"), Layout(tp=8)
    whole = kv.growth_bytes(shape, layout=layout)
    assert kv.growth_bytes(shape, layout=replace(layout, dcp=8)) == whole / 8
