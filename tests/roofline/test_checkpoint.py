"""Models on disk: config, side file, safetensors."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline import weights
from kvdoctor.roofline.checkpoint import load_config, load_shape, model_name
from kvdoctor.roofline.load import load_model
from kvdoctor.roofline.presets import preset, preset_config
from kvdoctor.roofline.shape import Layout

CONFIG = preset_config("Qwen3-0.6B")


def written(folder: Path, **files: object) -> Path:
    """A folder with JSON files; `__` in a name is a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / f"{name.replace('__', '.')}.json").write_text(json.dumps(content))
    return folder


def shard(path: Path, tensors: dict[str, int]) -> None:
    """A safetensors file with a header and nothing behind it."""
    header, start = {}, 0
    for name, size in tensors.items():
        header[name] = {"dtype": "BF16", "shape": [size // 2], "data_offsets": [start, start + size]}
        start += size
    text = json.dumps(header | {"__metadata__": {"format": "pt"}}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)


def test_a_directory_and_its_side_file_are_read(tmp_path: Path) -> None:
    side = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    folder = written(tmp_path / "My-Model", config=CONFIG, hf_quant_config=side)
    assert load_config(folder) == (CONFIG, side)
    shape = load_shape(folder)
    assert (shape.name, shape.weight_format, shape.kv_dtype) == ("My-Model", "fp8", "fp8")


def test_a_named_file_takes_the_side_file_of_its_name(tmp_path: Path) -> None:
    side = {"quantization": {"quant_algo": "NVFP4"}}
    written(tmp_path, A=CONFIG, A__hf_quant_config=side, B=CONFIG, hf_quant_config={"quantization": {}})
    assert load_config(tmp_path / "A.json") == (CONFIG, side)
    assert load_config(tmp_path / "B.json") == (CONFIG, None)


def test_the_hub_cache_names_the_model(tmp_path: Path) -> None:
    folder = written(tmp_path / "models--org--Qwen3-0.6B" / "snapshots" / "abc", config=CONFIG)
    assert model_name(folder / "config.json") == "Qwen3-0.6B"


def test_headers_beat_the_formula_and_leave_out_towers_and_drafts(tmp_path: Path) -> None:
    folder = written(tmp_path, config=CONFIG)
    total = 2 * weights.parameters(preset("Qwen3-0.6B")).total
    tensors = {
        "model.layers.0.x": total,
        "visual.blocks.0.x": 10**9,
        "model.layers.28.x": 10**9,
        "mtp.fc": 10**6,
    }
    shard(folder / "model.safetensors", tensors)
    shape = load_shape(folder)
    assert "headers" in shape.basis
    assert weights.resident(shape, layout=Layout(), positions=0).total == pytest.approx(total)


def test_the_index_serves_where_shards_are_missing(tmp_path: Path) -> None:
    total = 2 * weights.parameters(preset("Qwen3-0.6B")).total
    index = {
        "metadata": {"total_size": total},
        "weight_map": {"model.embed_tokens.weight": "model-00001.safetensors"},
    }
    folder = written(tmp_path, config=CONFIG, model__safetensors__index=index)
    shape = load_shape(folder)
    assert "total_size" in shape.basis
    assert weights.resident(shape, layout=Layout(), positions=0).total == pytest.approx(total)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe\x00", b"", b"null", b"{" * 100_000])
def test_a_broken_config_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(KvdoctorError):
        load_shape(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x00" * 8, b"\xff" * 20, struct.pack("<Q", 4) + b"[1]x"])
def test_a_broken_header_is_refused(tmp_path: Path, content: bytes) -> None:
    written(tmp_path, config=CONFIG)
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(KvdoctorError, match="header"):
        load_shape(tmp_path)


def test_a_missing_config_is_refused_and_presets_load_by_name(tmp_path: Path) -> None:
    with pytest.raises(KvdoctorError, match="no config"):
        load_config(tmp_path)
    assert load_model("Qwen/Qwen3-0.6B") == (CONFIG, None)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama-3.1-8B"),
        ("Meta-Llama-3.1-70B", "Llama-3.1-70B"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "Mistral-7B-v0.3"),
        ("deepseek-ai/DeepSeek-R1-0528", "DeepSeek-R1"),
        ("qwen3-30b-a3b-instruct-2507", "Qwen3-30B-A3B"),
        ("Llama-3.3-70B-Instruct", "Llama-3.1-70B"),
        ("mixtral-8x7b", "Mixtral-8x7B-v0.1"),
    ],
)
def test_preset_names_are_forgiving(name: str, found: str) -> None:
    assert preset(name).name == found


def test_a_format_in_the_name_is_applied_and_said() -> None:
    shape = preset("Qwen/Qwen2.5-7B-Instruct-AWQ")
    assert shape.weight_format == "int4-g128"
    assert any("from the name" in warning for warning in shape.warnings)


def test_an_unknown_preset_gets_near_names() -> None:
    with pytest.raises(KvdoctorError) as caught:
        preset("llama-99b")
    assert "Llama" in caught.value.hint
