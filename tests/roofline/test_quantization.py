"""Which weights a quantized checkpoint keeps at 16 bits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline import weights
from kvdoctor.roofline.config import shape_from_config
from kvdoctor.roofline.match import Matcher
from kvdoctor.roofline.presets import preset, preset_config
from kvdoctor.roofline.quantization import all_weights, reformatted, with_checkpoint_bytes, with_stored_bytes
from kvdoctor.roofline.shape import Layout, ModelShape


def quantized(name: str, block: dict[str, Any]) -> ModelShape:
    """A preset with another quantization block."""
    return shape_from_config(preset_config(name) | {"quantization_config": block})


def formats(shape: ModelShape, part: str) -> set[str]:
    """Formats of all weights of a part."""
    return {w.format for w in all_weights(shape) if w.part == part}


@pytest.mark.parametrize(
    ("entry", "path", "matches"),
    [
        ("gate", "3.mlp.gate", True),
        ("gate", "3.mlp.gate_proj", False),
        ("lm_head", "3.mlp.gate", False),
        ("model.layers.3.mlp.gate", "3.mlp.gate", True),
        ("model.layers.3.mlp.gate", "13.mlp.gate", False),
        ("model.layers.0", "12.mlp.experts.0.up_proj", False),
        ("model.layers.12", "12.mlp.experts.0.up_proj", True),
        ("model.layers.*.self_attn", "7.self_attn.q_proj", True),
        ("model.language_model.layers.0.self_attn*", "0.self_attn.q_proj", True),
        ("model.language_model.layers.0.self_attn*", "10.self_attn.q_proj", False),
        ("model.layers.6*", "61.self_attn.q_proj", True),
        ("*self_attn*", "4.self_attn.q_proj", True),
        ("model.vision_tower*", "4.self_attn.q_proj", False),
        ("re:.*self_attn.*", "4.self_attn.q_proj", True),
        (r"re:.*mlp\.(gate|up|down)_proj.*", "4.mlp.up_proj", True),
        (r"re:.*mlp\.(gate|up|down)_proj.*", "4.mlp.experts.0.up_proj", False),
    ],
)
def test_names_of_modules_match_as_checkpoints_mean_them(entry: str, path: str, matches: bool) -> None:
    assert Matcher((entry,)).matches(path) is matches


def test_a_pattern_that_is_no_regular_expression_is_refused() -> None:
    with pytest.raises(KvdoctorError, match="regular expression"):
        Matcher(("re:(",)).matches("1.x")


@pytest.mark.parametrize(
    ("block", "form"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4-g128"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "int4-g32"),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "int8-weight-only"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4"),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
            "nf4-double",
        ),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
    ],
)
def test_methods_give_formats_and_spare_embedding_and_head(block: dict[str, Any], form: str) -> None:
    shape = quantized("Llama-3.1-8B", block)
    assert formats(shape, "dense") == {form}
    assert formats(shape, "head") == formats(shape, "embedding") == formats(shape, "norm") == {"bf16"}
    assert shape.weight_format == form


@pytest.mark.parametrize(
    ("group", "form"),
    [
        ({"num_bits": 4, "type": "int", "group_size": 32, "symmetric": True}, "int4-sym-g32"),
        ({"num_bits": 4, "type": "int", "group_size": 128, "symmetric": False}, "int4-g128"),
        ({"num_bits": 8, "type": "int", "strategy": "channel"}, "int8"),
        ({"num_bits": 8, "type": "float", "strategy": "channel"}, "fp8"),
        ({"num_bits": 8, "type": "float", "strategy": "block"}, "fp8-block"),
        ({"num_bits": 4, "type": "float", "group_size": 16}, "nvfp4"),
        ({"num_bits": 4, "type": "float", "group_size": 32}, "mxfp4"),
    ],
)
def test_compressed_tensors_groups(group: dict[str, Any], form: str) -> None:
    block = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": group}},
    }
    assert formats(quantized("Llama-3.1-8B", block), "attention") == {form}


def test_kimi_k2_5_quantizes_its_routed_experts_only() -> None:
    weights_of = {"num_bits": 4, "type": "int", "group_size": 32, "symmetric": True}
    block = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights_of}},
        "ignore": [
            "lm_head",
            "re:.*self_attn.*",
            "re:.*shared_experts.*",
            r"re:.*mlp\.(gate|up|down)_proj.*",
        ],
    }
    shape = quantized("Kimi-K2-Instruct", block)
    assert formats(shape, "expert") == {"int4-sym-g32"}
    assert formats(shape, "attention") == formats(shape, "shared") == formats(shape, "dense") == {"bf16"}


def test_gpt_oss_keeps_attention_and_router_at_16_bits() -> None:
    shape = preset("gpt-oss-120b")
    assert formats(shape, "attention") == formats(shape, "router") == {"bf16"}
    assert {w.format for w in all_weights(shape) if w.part == "expert" and w.inputs > 1} == {"mxfp4"}
    assert weights.resident(shape, layout=Layout()).total / 2**30 == pytest.approx(60.71, rel=2e-3)


def test_a_mixed_checkpoint_names_every_module_and_the_head() -> None:
    layers = {f"model.layers.{i}.self_attn.q_proj": {"quant_algo": "FP8"} for i in range(32)}
    layers |= {f"model.layers.{i}.mlp.up_proj": {"quant_algo": "NVFP4"} for i in range(32)}
    layers["lm_head"] = {"quant_algo": "W4A16_NVFP4"}
    block = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    shape = quantized("Llama-3.1-8B", block)
    assert formats(shape, "attention") == {"fp8", "bf16"}
    assert formats(shape, "dense") == {"nvfp4", "bf16"}
    assert formats(shape, "head") == {"nvfp4-weight-only"}


def test_layers_named_one_by_one_differ() -> None:
    block = {
        "quant_method": "fp8",
        "modules_to_not_convert": ["model.layers.0.self_attn", "model.layers.5.self_attn"],
    }
    shape = quantized("Llama-3.1-8B", block)
    kept = [i for i, layer in enumerate(shape.layers) if layer.weights[0].format == "bf16"]
    assert kept == [0, 5]


def test_experts_may_have_a_format_of_their_own() -> None:
    shape = reformatted(preset("gpt-oss-120b"), weights="bf16", experts="mxfp4", head="fp8")
    assert formats(shape, "head") == {"fp8"}
    assert Counter(w.format for w in all_weights(shape) if w.part == "attention") == {"bf16": 36 * 4}


def test_a_file_size_is_spread_over_all_weights() -> None:
    shape = with_stored_bytes(preset("Llama-3.1-8B"), 4.58 * 2**30, "file")
    held = weights.resident(shape, layout=Layout(), positions=0)
    assert held.total == pytest.approx(4.58 * 2**30)
    with pytest.raises(KvdoctorError):
        with_stored_bytes(shape, 1e15, "file")


def test_a_checkpoint_total_goes_to_the_quantized_weights() -> None:
    shape = quantized("Llama-3.1-8B", {"quant_method": "awq", "bits": 4, "group_size": 128})
    total = 6e9
    found = with_checkpoint_bytes(shape, total, "total_size")
    assert weights.resident(found, layout=Layout(), positions=0).total == pytest.approx(total)
    assert formats(found, "head") == {"bf16"}
