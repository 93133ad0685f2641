"""The machine and the model as far as they are known."""

from __future__ import annotations

import json

import pytest

from kvdoctor.machine import READ_FRACTION, machine
from kvdoctor.roofline.hardware import gpu_by_name

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
    "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "torch_dtype": "bfloat16", "vocab_size": 128256,
}  # fmt: skip
MODEL = {"model_config": json.dumps(CONFIG)}


def test_nothing_told_is_nothing_known():
    known = machine({}, None)
    assert (known.shape, known.bandwidth, known.peak_flops, known.gaps) == (None, None, None, ())
    assert known.step(1.0, 100.0) is known.step_seconds(1.0, 100.0) is None


def test_a_card_reads_at_most_a_share_of_its_data_sheet():
    card = gpu_by_name("H100 SXM")
    known = machine({"gpu": "H100 SXM"}, None)
    assert known.bandwidth == READ_FRACTION * card.hbm_bytes_per_s
    assert card.name in known.bandwidth_basis


def test_a_bandwidth_that_was_told_comes_before_the_data_sheet():
    assert machine({"gpu": "H100 SXM", "bandwidth": "1000"}, None).bandwidth == 1e12


def test_a_card_that_is_not_known_is_a_gap():
    (gap,) = machine({"gpu": "nope"}, None).gaps
    assert (gap.source, bool(gap.cure)) == ("gpu", True)


@pytest.mark.parametrize("dtype", ["weird", "fp8_ds_mla"], ids=["unknown", "of another family"])
def test_a_kv_dtype_whose_bytes_are_not_known_is_a_gap_and_no_guess(dtype):
    known = machine(MODEL, dtype)
    assert known.shape is None
    assert known.gaps[0].source == "model"


@pytest.mark.parametrize(
    ("dtype", "share"), [(None, 1.0), ("auto", 1.0), ("bfloat16", 1.0), ("fp8_e4m3", 0.5), ("fp8", 0.5)]
)
def test_the_engines_kv_dtype_sets_the_bytes_of_its_kv(dtype, share):
    plain, told = machine(MODEL, None).step(8.0, 1000.0), machine(MODEL, dtype).step(8.0, 1000.0)
    assert told.kv == pytest.approx(share * plain.kv)
    assert told.weights == plain.weights


def test_the_quantization_that_lies_beside_a_config_counts():
    side = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": None}}
    plain, told = machine(MODEL, None), machine({**MODEL, "model_side": json.dumps(side)}, None)
    assert told.step(1.0, 10.0).weights < 0.7 * plain.step(1.0, 10.0).weights


def test_ranks_share_the_weights():
    one, two = machine(MODEL, None).step(8.0, 1000.0), machine({**MODEL, "tp": "2"}, None).step(8.0, 1000.0)
    assert two.kv == pytest.approx(one.kv / 2)
    assert two.weights == pytest.approx(one.weights / 2, rel=0.01)


def test_a_step_is_as_long_as_its_reads_or_its_flops_whichever_is_longer():
    reads = machine({**MODEL, "bandwidth": "1000"}, None)
    assert reads.step_seconds(1.0, 100.0) == pytest.approx(reads.step(1.0, 100.0).total / 1e12)
    card = machine({**MODEL, "gpu": "H100 SXM"}, None)
    assert card.step_seconds(4000.0, 10.0) > card.step(4000.0, 10.0).total / card.bandwidth
