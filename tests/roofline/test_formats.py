"""Bytes of weights and of KV in every format."""

from __future__ import annotations

import pytest

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline.formats import index_bytes, kv_format, kv_vector_bytes, latent_bytes, weight_format


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("bf16", 2),
        ("float16", 2),
        ("fp8", 1),
        ("fp8-block", 1 + 4 / 16384),
        ("int4-g128", 0.51953125),
        ("AWQ", 0.51953125),
        ("int4-g64", 0.5390625),
        ("int4-g32", 0.578125),
        ("int4-sym-g32", 0.5625),
        ("int4g32", 0.625),
        ("nvfp4", 0.5625),
        ("mxfp4", 0.53125),
        ("nf4", 0.5625),
        ("nf4-double", 0.516),
        ("Q8_0", 1.0625),
        ("Q6_K", 0.8203125),
        ("Q4_0", 0.5625),
        ("Q4_K_M", 0.61),
        ("bpw:0.6", 0.6),
    ],
)
def test_bytes_of_a_weight(name: str, size: float) -> None:
    assert weight_format(name).bytes_per_weight == pytest.approx(size)


def test_int8_keeps_a_scale_for_each_output_channel() -> None:
    assert weight_format("w8a8").size(4096, 1024) == 4096 * 1024 + 4 * 1024


@pytest.mark.parametrize("name", ["fp7", "int4-g0", "", "bpw:x", "bpw:-1"])
def test_an_unknown_weight_format_is_refused(name: str) -> None:
    with pytest.raises(KvdoctorError):
        weight_format(name)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("bf16", 256),
        ("fp8", 128),
        ("int8", 132),
        ("int4", 68),
        ("nvfp4", 72),
        ("q8_0", 136),
        ("q5_1", 96),
        ("q5_0", 88),
        ("q4_1", 80),
        ("q4_0", 72),
    ],
)
def test_bytes_of_a_head_vector_of_128(dtype: str, size: float) -> None:
    assert kv_vector_bytes(dtype, 128) == size


@pytest.mark.parametrize(
    ("dtype", "size"), [("bf16", 1152), ("fp8", 576), ("fp8_ds_mla", 656), ("q8_0", 576 * 34 / 32)]
)
def test_bytes_of_a_latent(dtype: str, size: float) -> None:
    assert latent_bytes(dtype, 512, 64) == size


def test_an_index_key_has_a_scale_and_a_page_of_64_has_8448_bytes() -> None:
    assert 64 * index_bytes("fp8", 128) == 8448
    assert index_bytes("plain-fp8", 128) == 128
    assert index_bytes("bf16", 128) == 256


def test_keys_and_values_may_differ() -> None:
    assert kv_format("Q8_0/q5_1") == ("q8_0", "q5_1")
    assert kv_format("fp8_e4m3") == ("fp8", "fp8")


@pytest.mark.parametrize("name", ["fp7", "fp8/fp8/fp8", ""])
def test_an_unknown_kv_dtype_is_refused(name: str) -> None:
    with pytest.raises(KvdoctorError):
        kv_format(name)
