"""Parameter totals of many families from their configs, and refusals that name the key."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline import kv, serving, weights
from kvdoctor.roofline.config import shape_from_config
from kvdoctor.roofline.presets import preset, preset_config, preset_names

# Billions of parameters as published (model cards and hub totals).
TOTALS = {
    "Llama-2-7B": 6.738,
    "Llama-3.1-8B": 8.030,
    "Llama-3.1-70B": 70.554,
    "Llama-3.1-405B": 405.85,
    "Qwen3-235B-A22B": 235.09,
    "DeepSeek-V3": 671.03,
    "DeepSeek-V2": 235.7,
    "Kimi-K2-Instruct": 1026.4,
    "gpt-oss-120b": 116.83,
    "gpt-oss-20b": 20.91,
    "Mixtral-8x7B-v0.1": 46.70,
    "Jamba-v0.1": 51.57,
    "Qwen3-Next-80B-A3B-Instruct": 79.67,
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": 31.58,
    "GLM-4.5-Air": 106.85,
    "Llama-3_3-Nemotron-Super-49B-v1": 49.87,
    "gpt2": 0.1244,
    "opt-125m": 0.1252,
    "falcon-40b": 41.3,
    "starcoder": 15.52,
    "MiniMax-Text-01": 456.1,
    "Qwen1.5-MoE-A2.7B": 14.32,
    "Qwen2-57B-A14B": 57.41,
    "Nemotron-4-340B": 341.0,
    "command-r-v01": 34.98,
    "Yi-34B": 34.39,
    "Mistral-Nemo-12B": 12.25,
    "gemma-2-9b": 9.242,
    "gemma-3-1b-it": 1.000,
    "Kimi-Linear-48B-A3B-Instruct": 49.12,
}
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}
# Families that ship no preset, with published totals in billions.
OTHERS: dict[str, tuple[dict[str, Any], float]] = {
    "mamba-2.8b": (
        {
            "model_type": "mamba",
            "hidden_size": 2560,
            "num_hidden_layers": 64,
            "intermediate_size": 5120,
            "state_size": 16,
            "conv_kernel": 4,
            "time_step_rank": 160,
            "vocab_size": 50280,
        },
        2.768,
    ),
    "mamba-codestral": (
        {
            "model_type": "mamba2",
            "hidden_size": 4096,
            "num_hidden_layers": 64,
            "num_heads": 128,
            "head_dim": 64,
            "n_groups": 8,
            "state_size": 128,
            "vocab_size": 32768,
        },
        7.285,
    ),
    "olmoe": (
        LLAMA
        | {
            "model_type": "olmoe",
            "hidden_size": 2048,
            "num_hidden_layers": 16,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "intermediate_size": 1024,
            "num_experts": 64,
            "num_experts_per_tok": 8,
            "vocab_size": 50304,
        },
        6.919,
    ),
    "phi-3.5-moe": (
        LLAMA
        | {
            "model_type": "phimoe",
            "intermediate_size": 6400,
            "num_local_experts": 16,
            "num_experts_per_tok": 2,
            "vocab_size": 32064,
            "attention_bias": True,
        },
        41.87,
    ),
    "nemotron-nano-9b-v2": (
        {
            "model_type": "nemotron_h",
            "hidden_size": 4480,
            "num_hidden_layers": 56,
            "hybrid_override_pattern": "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
            "num_attention_heads": 40,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "mamba_num_heads": 128,
            "mamba_head_dim": 80,
            "n_groups": 8,
            "ssm_state_size": 128,
            "intermediate_size": 15680,
            "vocab_size": 131072,
        },
        8.888,
    ),
    "falcon-h1-34b": (
        LLAMA
        | {
            "model_type": "falcon_h1",
            "hidden_size": 5120,
            "num_hidden_layers": 72,
            "num_attention_heads": 20,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "intermediate_size": 21504,
            "vocab_size": 261120,
            "mamba_n_heads": 32,
            "mamba_d_head": 128,
            "mamba_n_groups": 2,
            "mamba_d_state": 256,
        },
        33.64,
    ),
}


@pytest.mark.parametrize(("name", "billions"), TOTALS.items())
def test_totals_are_within_half_a_percent_of_the_published(name: str, billions: float) -> None:
    assert weights.parameters(preset(name)).total / 1e9 == pytest.approx(billions, rel=5e-3)


@pytest.mark.parametrize("name", OTHERS)
def test_families_without_a_preset_are_understood(name: str) -> None:
    config, billions = OTHERS[name]
    assert weights.parameters(shape_from_config(config)).total / 1e9 == pytest.approx(billions, rel=5e-3)


@pytest.mark.parametrize(
    ("name", "active"), [("DeepSeek-V3", 37.55), ("gpt-oss-120b", 5.71), ("Qwen3-30B-A3B", 3.35)]
)
def test_active_parameters_count_the_used_experts(name: str, active: float) -> None:
    assert weights.parameters(preset(name)).active / 1e9 == pytest.approx(active, rel=5e-3)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"model_type": "zork"}, "model_type"),
        ({"model_type": None}, "model_type"),
        ({"hidden_size": None}, "hidden_size"),
        ({"hidden_size": "4096"}, "hidden_size"),
        ({"hidden_size": -1}, "hidden_size"),
        ({"hidden_size": float("inf")}, "hidden_size"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_key_value_heads": 7}, "num_key_value_heads"),
        ({"num_key_value_heads": [8, 8]}, "num_key_value_heads"),
        ({"intermediate_size": None}, "intermediate_size"),
        ({"block_configs": [{}]}, "block_configs"),
        ({"layers_i_made_up": [{"a": 1}]}, "layers_i_made_up"),
        ({"compress_ratios": [0, 4]}, "compress_ratios"),
        ({"layer_types": ["full_attention"] * 31 + ["conv"]}, "layer_types"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["sliding_attention"] * 32}, "sliding_window"),
        ({"sliding_window": 4096}, "sliding_window"),
        ({"linear_num_key_heads": 16}, "linear_num_key_heads"),
        ({"num_kv_shared_layers": 4}, "num_kv_shared_layers"),
        ({"index_topk": 2048}, "index_topk"),
        ({"num_local_experts": 8}, "num_experts_per_tok"),
        ({"quantization_config": {"quant_method": "zork"}}, "quantization_config.quant_method"),
        ({"kv_lora_rank": 512}, "qk_nope_head_dim"),
        ({"torch_dtype": "float7"}, "float7"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_key(change: dict[str, Any], key: str) -> None:
    with pytest.raises(KvdoctorError, match=key.replace(".", r"\.")):
        shape_from_config(LLAMA | change)


ODD = [None, -1, 0, 1.5, "x", "", [], {}, [1], [{}], True, float("inf"), float("nan"), 10**30, {"a": 1}]


@pytest.mark.parametrize(
    "name", ["Llama-3.1-8B", "DeepSeek-V3.2", "gemma-3-27b-it", "Qwen3.5-27B", "MiMo-V2-Flash"]
)
def test_an_odd_value_anywhere_is_answered_or_refused_and_never_crashes(name: str) -> None:
    config = preset_config(name)
    refused = 0
    for key in config:
        for value in ODD:
            try:
                shape_from_config(config | {key: value})
            except KvdoctorError:
                refused += 1
    assert refused > len(config)


def test_a_config_that_is_no_object_is_refused() -> None:
    with pytest.raises(KvdoctorError, match="not a JSON object"):
        shape_from_config([])  # type: ignore[arg-type]


def test_what_is_modelled_in_part_is_answered_with_the_key_in_a_warning() -> None:
    assert any("attn_res_block_size" in warning for warning in preset("Kimi-K3").warnings)
    assert any("sparse_attention_config" in warning for warning in preset("MiniMax-M3").warnings)


def test_the_text_part_rules_and_inherits_from_the_top() -> None:
    config = {
        "model_type": "llava",
        "tie_word_embeddings": True,
        "hidden_size": 1,
        "text_config": LLAMA,
        "vision_config": {"num_hidden_layers": 27, "hidden_size": 1152, "intermediate_size": 4304},
    }
    shape = shape_from_config(config)
    assert (shape.family, len(shape.layers), shape.tied) == ("llama", 32, True)
    assert 0.3e9 < shape.tower_params < 0.9e9


def test_gemma_4_has_two_head_sizes() -> None:
    shape = preset("gemma-4-26B-A4B")
    sizes = {(layer.kind, layer.cache.kv_heads, layer.cache.k_dim) for layer in shape.layers if layer.cache}
    assert sizes == {("window", 8, 256), ("full", 2, 512)}


def test_mimo_has_unequal_keys_and_values_and_its_own_sliding_heads() -> None:
    shape = preset("MiMo-V2-Flash")
    sizes = {(x.kind, x.cache.kv_heads, x.cache.k_dim, x.cache.v_dim) for x in shape.layers if x.cache}
    assert sizes == {("full", 4, 192, 128), ("window", 8, 192, 128)}
    assert serving.kv_bytes_per_token(shape) == 9 * 4 * (192 + 128) * 2


def test_step_models_may_name_other_heads_for_sliding_layers() -> None:
    config = LLAMA | {
        "model_type": "step3p5",
        "layer_types": ["full_attention", "sliding_attention"] * 16,
        "sliding_window": 512,
        "attention_other_setting": {"num_attention_heads": 96, "num_attention_groups": 8, "head_dim": 128},
    }
    heads = {(x.kind, x.cache.query_heads) for x in shape_from_config(config).layers if x.cache}
    assert heads == {("full", 32), ("window", 96)}


def test_mistral_small_4_stores_320_values_a_layer() -> None:
    latent = {"kv_lora_rank": 256, "qk_rope_head_dim": 64, "qk_nope_head_dim": 64, "v_head_dim": 128}
    shape = shape_from_config(LLAMA | latent | {"model_type": "mistral4", "num_hidden_layers": 36})
    assert serving.kv_bytes_per_token(shape, tp=2) == 36 * 320 * 2


def test_every_preset_answers_and_keeps_something_per_sequence() -> None:
    for name in preset_names():
        shape = preset(name)
        assert serving.kv_bytes_per_sequence(shape, context=4096) > 0
        assert serving.decode_bytes(shape, batch=4, context=4096, tp=8).total > 0


SHARED = Path(os.environ.get("KVDOCTOR_SHARED") or Path(__file__).resolve().parents[2] / ".." / "shared")
CONFIGS = sorted((SHARED / "model-configs").glob("*.json")) if (SHARED / "model-configs").is_dir() else []


@pytest.mark.skipif(not CONFIGS, reason="the published configs are not here")
def test_published_configs_are_answered_or_refused_by_the_right_key() -> None:
    refused, answered = {}, 0
    for path in CONFIGS:
        if "hf_quant_config" in path.name:
            continue
        side_path = path.with_name(f"{path.stem}.hf_quant_config.json")
        side = json.loads(side_path.read_text()) if side_path.is_file() else None
        try:
            shape = shape_from_config(json.loads(path.read_text()), side=side, name=path.stem)
            assert kv.kv_layers(shape.layers) > 0
            answered += 1
        except KvdoctorError as error:
            refused[path.stem] = error.message.split("`")[1]
    assert refused == dict.fromkeys(("DeepSeek-V4-Flash", "DeepSeek-V4-Pro"), "compress_ratios")
    assert answered >= 90
