"""Counted bytes of a step equal the roofline's arithmetic, to the byte, for the shapes of real models."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from kvdoctor.reference.batch import Batch  # noqa: E402
from kvdoctor.reference.cache import PagedCache  # noqa: E402
from kvdoctor.reference.config import config_of  # noqa: E402
from kvdoctor.reference.model import Transformer  # noqa: E402
from kvdoctor.reference.weights import random_weights  # noqa: E402
from kvdoctor.roofline import serving  # noqa: E402
from kvdoctor.roofline.config import shape_from_config  # noqa: E402
from kvdoctor.roofline.presets import preset_config  # noqa: E402

LLAMAS = ("2-7B", "2-70B", "3.1-8B", "3.1-70B", "3.1-405B", "3.2-1B", "3.2-3B")
QWENS = (
    "2-7B",
    "2.5-0.5B",
    "2.5-14B",
    "2.5-72B",
    "3-0.6B",
    "3-4B",
    "3-8B",
    "3-32B",
    "3-30B-A3B",
    "3-235B-A22B",
)
OTHERS = ("Mistral-7B-v0.1", "Mistral-Nemo-12B", "Mixtral-8x7B-v0.1", "Mixtral-8x22B-v0.1", "Yi-34B")
NAMES = (*(f"Llama-{name}" for name in LLAMAS), *(f"Qwen{name}" for name in QWENS), *OTHERS)
KV = ("bf16", "fp8", "int8", "int4", "fp16", "fp32")


def model_of(config, kv: str = "bf16") -> Transformer:
    """The whole model as sizes alone: nothing is allocated."""
    weights = random_weights(config, device="meta")
    return Transformer(config, weights, PagedCache(config, 1, 16, dtype=kv, device="meta"))


def decode_of(lengths: list[int]) -> Batch:
    """One token for sequences of some lengths, as far as the count of bytes looks."""
    empty = torch.empty(0)
    return Batch(empty, empty, (empty, empty), None, (), empty, tuple((1, n) for n in lengths))


@pytest.mark.parametrize("name", NAMES)
def test_weights_and_kv_of_a_step_are_the_rooflines(name):
    raw = preset_config(name)
    config, shape = config_of(raw), shape_from_config({**raw, "quantization_config": None})
    model = model_of(config)
    chosen = sum(config.experts_used * layer.expert_bytes for layer in model.weights.layers)
    expected = serving.decode_bytes(shape, batch=1, context=5000, kv_dtype="bf16")
    assert model.weights.fixed_bytes() + chosen == expected.weights
    assert model.kv_bytes(decode_of([5000])) == expected.kv


@pytest.mark.parametrize("kv", KV)
@pytest.mark.parametrize("name", ["Llama-3.1-8B", "Mistral-7B-v0.1", "Qwen2.5-0.5B"])
def test_every_kv_dtype_has_the_rooflines_size(name, kv):
    raw = preset_config(name)
    expected = serving.decode_bytes(shape_from_config(raw), batch=3, context=4321, kv_dtype=kv)
    assert model_of(config_of(raw), kv).kv_bytes(decode_of([4321] * 3)) == expected.kv


def test_all_experts_are_the_rooflines_upper_end():
    raw = preset_config("Mixtral-8x7B-v0.1")
    model = model_of(config_of(raw))
    every = sum(8 * layer.expert_bytes for layer in model.weights.layers)
    expected = serving.decode_bytes(shape_from_config(raw), batch=1000, context=1)
    assert model.weights.fixed_bytes() + every == expected.weights_high
    assert (
        model.weights.resident_bytes() == model.weights.fixed_bytes() + every + model.weights.embedding.nbytes
    )


def test_a_block_holds_what_its_tokens_store():
    raw = preset_config("Llama-3.1-8B")
    per_token = serving.kv_bytes_per_token(shape_from_config(raw))
    assert model_of(config_of(raw)).cache.block_bytes == 16 * per_token
