"""The facade that the ledger calls."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kvdoctor.roofline import serving
from kvdoctor.roofline.presets import preset


def test_importing_the_roofline_brings_in_no_library_beyond_the_standard_one() -> None:
    code = (
        "import sys, kvdoctor.roofline.serving, kvdoctor.roofline.step, kvdoctor.roofline.tiers;"
        "print([m for m in ('torch', 'numpy', 'typer', 'rich', 'jinja2', 'matplotlib', 'pynvml') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_moe_step_has_a_range_and_a_dense_one_has_not() -> None:
    moe = serving.decode_bytes(preset("Qwen3-235B-A22B"), batch=16, context=1024, tp=8)
    assert moe.weights_low < moe.weights < moe.weights_high
    dense = serving.decode_bytes(preset("Llama-3.1-8B"), batch=16, context=1024)
    assert dense.weights_low == dense.weights == dense.weights_high


def test_other_dtypes_replace_those_of_the_config() -> None:
    shape = preset("Llama-3.1-8B")
    assert serving.kv_bytes_per_token(shape, kv_dtype="fp8") == 65536
    half = serving.decode_bytes(shape, batch=1, context=1000, kv_dtype="fp8", weight_format="fp8")
    head = 128256 * 4096
    assert half.kv == 65_536_000
    assert half.weights == pytest.approx(
        serving.decode_bytes(shape, batch=1, context=0).weights / 2 + head, rel=1e-4
    )
    assert serving.resident_weight_bytes(shape, weight_format="fp8") < serving.resident_weight_bytes(shape)


def test_drafted_tokens_touch_more_experts_and_no_more_kv() -> None:
    shape = preset("Qwen3-235B-A22B")
    plain = serving.decode_bytes(shape, batch=4, context=1024)
    verify = serving.decode_bytes(shape, batch=4, context=1024, tokens_per_sequence=4)
    assert verify.weights > plain.weights
    assert verify.kv == plain.kv


def test_flops_of_a_step_and_of_a_prefill() -> None:
    shape = preset("Llama-3.1-70B")
    assert serving.decode_flops(shape, batch=1, context=1152) == 142025965568
    assert serving.prefill_flops(shape, new=1, cached=0) == pytest.approx(136904720384, rel=0.02)
