"""The machine and the model as far as they are known."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kvdoctor.machine import READ_FRACTION, machine
from kvdoctor.roofline.hardware import gpu_by_name
from kvdoctor.roofline.measured import Measured

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


SHAPE = machine(MODEL, None).shape
assert SHAPE is not None
STEP = machine({**MODEL, "bandwidth": "1"}, None).step(8.0, 4096.0).total
PROBED = Measured(
    "decode",
    read=3.0e12,
    decode=2.4e12,
    device="NVIDIA H100 80GB HBM3",
    at="2026-11-29",
    model="Llama-3.1-8B",
    batch=8.0,
    context=4096.0,
    weights="bf16",
    kv_dtype="bf16",
    step_bytes=STEP,
)
TOLD = {
    **MODEL,
    "bandwidth": repr(PROBED.bytes_per_s / 1e9),
    "bandwidth_basis": PROBED.basis,
    "bandwidth_measured": PROBED.text(),
}


def test_a_ceiling_that_a_probe_measured_says_so_with_its_conditions():
    known = machine({**TOLD, "gpu": "H100"}, None).at(8.0, 4096.0, STEP / 2e12)
    assert known.bandwidth == pytest.approx(2.4e12)
    assert known.bandwidth_basis.startswith("measured by probe decode at batch 8, context 4,096")
    assert known.gaps == ()


@pytest.mark.parametrize(
    ("batch", "context", "cache", "says"),
    [
        (64.0, 4096.0, None, "batch 8, used for batch 64"),
        (8.0, 512.0, None, "context 4,096, used for context 512"),
        (8.0, 4096.0, "fp8", "bf16 KV, used for fp8 KV"),
    ],
)
def test_another_load_than_the_probes_is_a_gap(batch, context, cache, says):
    (gap,) = machine(TOLD, cache).at(batch, context, 1.0).gaps
    assert (gap.source, says in gap.reason, "kvdoctor probe decode" in gap.cure) == ("bandwidth", True, True)


def test_another_model_than_the_probes_is_a_gap():
    config = json.dumps({**CONFIG, "num_hidden_layers": 16})
    (gap,) = machine({**TOLD, "model_config": config}, None).at(8.0, 4096.0, 1.0).gaps
    assert "Llama-3.1-8B in bf16, whose step reads" in gap.reason


def test_what_another_card_reads_is_not_used_and_that_is_said():
    known = machine({**TOLD, "gpu": "H200"}, None)
    assert known.bandwidth == pytest.approx(READ_FRACTION * 4.8e12)
    assert known.bandwidth_basis.endswith("the data sheet of NVIDIA H200")
    assert [gap.reason for gap in known.gaps] == [
        "the ceiling was measured on NVIDIA H100 80GB HBM3 and the service runs on NVIDIA H200: not used"
    ]
    assert known.at(64.0, 10.0, 1.0) == known


def test_a_service_faster_than_the_probes_decode_is_held_against_the_plain_read():
    slower, faster = (machine(TOLD, None).at(8.0, 4096.0, STEP / rate) for rate in (2.39e12, 2.41e12))
    assert (slower.bandwidth, faster.bandwidth) == (pytest.approx(2.4e12), 3.0e12)
    assert faster.bandwidth_basis.startswith(
        "measured by probe decode at batch 8, context 4,096: a plain read"
    )


def test_a_rate_that_was_told_again_is_no_longer_the_probes():
    known = machine({**TOLD, "bandwidth": "1000", "bandwidth_basis": "as given by --bandwidth"}, None)
    assert (known.bandwidth, known.measured) == (1e12, None)
    assert known.at(999.0, 1.0, 1.0) == known


def test_conditions_that_no_probe_wrote_leave_the_rate_alone():
    known = machine({**TOLD, "bandwidth_measured": "{}"}, None)
    assert (known.bandwidth, known.measured) == (pytest.approx(2.4e12), None)


@pytest.mark.parametrize(
    ("disturbed", "says", "ceiling"),
    [
        ("its warm-up did not settle", "is uncertain: its warm-up did not settle", 2.4e12),
        ("the service took its share meanwhile", "is a lower bound and no ceiling, and was not used", None),
    ],
)
def test_a_rate_that_was_measured_beside_other_work_is_no_ceiling(disturbed, says, ceiling):
    found = replace(PROBED, disturbed=disturbed)
    known = machine({**TOLD, "bandwidth_measured": found.text()}, None)
    (gap,) = known.gaps
    assert says in gap.reason
    assert known.bandwidth == (pytest.approx(ceiling) if ceiling else None)
