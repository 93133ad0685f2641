"""Bytes of a weight and of a stored key or value in every number format that engines use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from kvdoctor.errors import KvdoctorError

Arithmetic = Literal["bf16", "int8", "fp8", "fp4"]


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How a matrix is stored."""

    name: str
    bytes_per_weight: float
    """Scales and zero points of groups included."""
    per_output: float = 0.0
    """Further bytes for each output channel (scales of whole channels)."""
    arithmetic: Arithmetic = "bf16"
    """The tensor-core rate that its products can reach; weight-only formats compute at 16 bits."""

    def size(self, inputs: int, outputs: int, copies: int = 1) -> float:
        """Bytes of `copies` matrices of `inputs` x `outputs`."""
        return copies * (inputs * outputs * self.bytes_per_weight + outputs * self.per_output)


# Block scales: one fp32 for 128 x 128 weights (DeepSeek-V3, Qwen3-FP8, MiniMax-M2 checkpoints).
_FP8_BLOCK = 1 + 4 / 128**2
_PLAIN = (
    WeightFormat("fp32", 4.0),
    WeightFormat("bf16", 2.0),
    WeightFormat("fp16", 2.0),
    WeightFormat("fp8", 1.0, arithmetic="fp8"),
    WeightFormat("fp8-block", _FP8_BLOCK, arithmetic="fp8"),
    WeightFormat("int8", 1.0, per_output=4.0, arithmetic="int8"),
    WeightFormat("int8-weight-only", 1.0, per_output=2.0),
    WeightFormat("mxfp8", 1 + 1 / 32, arithmetic="fp8"),
    WeightFormat("nvfp4", 0.5 + 1 / 16, arithmetic="fp4"),
    WeightFormat("nvfp4-weight-only", 0.5 + 1 / 16),
    WeightFormat("mxfp4", 0.5 + 1 / 32),
    WeightFormat("nf4", 0.5 + 4 / 64),
    WeightFormat("nf4-double", 0.516),
    # llama.cpp block formats: bits of a block of 32 or 256 weights; the _M mixes are file averages.
    WeightFormat("q8_0", 34 / 32),
    WeightFormat("q6_k", 210 / 256),
    WeightFormat("q5_k_m", 0.71),
    WeightFormat("q5_1", 24 / 32),
    WeightFormat("q5_0", 22 / 32),
    WeightFormat("q4_k_m", 0.61),
    WeightFormat("q4_k_s", 0.575),
    WeightFormat("q4_1", 20 / 32),
    WeightFormat("q4_0", 18 / 32),
)
_WEIGHTS = {form.name: form for form in _PLAIN}
_WEIGHT_ALIASES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "f16": "fp16",
    "float32": "fp32",
    "f32": "fp32",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "e4m3": "fp8",
    "float8": "fp8",
    "fp8_block": "fp8-block",
    "w8a8": "int8",
    "w8a16": "int8-weight-only",
    "int4": "int4-g128",
    "awq": "int4-g128",
    "gptq": "int4-g128",
    "w4a16": "int4-sym-g128",
    "fp4": "nvfp4",
    "q8": "q8_0",
    "q6": "q6_k",
    "bnb": "nf4",
    "bitsandbytes": "nf4",
}
_RATE = re.compile(r"bpw:([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)")
_GROUPED = re.compile(r"int4(?:-?(sym))?-?g(\d+)(?:-(wide))?")


def weight_format(name: str) -> WeightFormat:
    """Find a weight format by name: bf16, fp8-block, int8, int4-g128, int4-sym-g32, nvfp4, q4_k_m, bpw:0.6.

    `int4-gN` carries a 16-bit scale and a 4-bit zero a group (AWQ, GPTQ), `int4-sym-gN` only the scale,
    `int4gN` (no dash: gpt-fast) a 16-bit scale and a 16-bit zero; `bpw:X` is X bytes a weight.
    Raises KvdoctorError for a name that is not known.
    """
    key = _WEIGHT_ALIASES.get(name.strip().lower(), name.strip().lower())
    if key in _WEIGHTS:
        return _WEIGHTS[key]
    if (rate := _RATE.fullmatch(key)) and float(rate[1]) > 0:
        return WeightFormat(key, float(rate[1]))
    if match := _GROUPED.fullmatch(key):
        return WeightFormat(key, _int4(key, int(match[2]), symmetric=bool(match[1])))
    raise KvdoctorError(
        f"the weight format {name!r} is not known",
        f"use one of {', '.join(_WEIGHTS)}, int4-g128, int4-sym-g32, or bpw:0.6 for 0.6 bytes a weight",
    )


def _int4(key: str, group: int, *, symmetric: bool) -> float:
    """Bytes a weight of 4-bit integers with a scale (and a zero point) for each group."""
    if group <= 0:
        raise KvdoctorError(f"the weight format {key!r} has no group size", "use int4-g128 or int4-g32")
    if symmetric:
        return 0.5 + 2 / group
    return 0.5 + (4 / group if key.startswith("int4g") else 2.5 / group)


# llama.cpp cache types: bytes of a block over its 32 values.
_KV_BLOCKS = {"q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32, "q4_1": 20 / 32, "q4_0": 18 / 32}
_KV_RATES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "nvfp4": 0.5625} | _KV_BLOCKS
# Per token and head: int8 keeps an fp32 scale, asymmetric int4 a 16-bit scale and a 16-bit zero.
_KV_HEADERS = {"int8": (1.0, 4.0), "int4": (0.5, 4.0)}
_KV_ALIASES = {
    "float16": "fp16",
    "half": "fp16",
    "f16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "f32": "fp32",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "float8": "fp8",
    "fp8_inc": "fp8",
    "fp4": "nvfp4",
    "int8_per_token_head": "int8",
    "int4_per_token_head": "int4",
}


def kv_format(name: str) -> tuple[str, str]:
    """Normalize a KV dtype to (keys, values): `fp8` is both, `q8_0/q5_1` differ.

    Raises KvdoctorError for a name that is not known.
    """
    parts = [part.strip() for part in name.strip().lower().split("/")]
    parts = [_KV_ALIASES.get(part, part) for part in parts]
    known = set(_KV_RATES) | set(_KV_HEADERS) | {"fp8_ds_mla"}
    if len(parts) > 2 or not set(parts) <= known:
        raise KvdoctorError(
            f"the KV dtype {name!r} is not known",
            f"use one of {', '.join(sorted(known))}, or two such as q8_0/q5_1",
        )
    return parts[0], parts[-1]


def kv_vector_bytes(dtype: str, values: int) -> float:
    """Bytes of one stored head vector of `values` numbers, its scales included."""
    if dtype in _KV_HEADERS:
        rate, header = _KV_HEADERS[dtype]
        return values * rate + header
    if dtype == "fp8_ds_mla":
        return float(values)
    return values * _KV_RATES[dtype]


def latent_bytes(dtype: str, lora: int, rope: int) -> float:
    """Bytes of one MLA latent with its rotary part.

    `fp8_ds_mla` (FlashMLA sparse): the latent in fp8 with an fp32 scale each 128 values, the rotary part in
    bf16: 656 for 512 + 64. Everything else treats the two as one vector.
    """
    if dtype == "fp8_ds_mla":
        return lora + 4 * -(-lora // 128) + 2 * rope
    return kv_vector_bytes(dtype, lora + rope)


def index_bytes(dtype: str, values: int) -> float:
    """Bytes of one index key: fp8 with an fp32 scale (132 for 128 values) as engines keep it; `plain-fp8`: 128."""
    if dtype == "plain-fp8":
        return float(values)
    if dtype == "fp8":
        return values + 4.0
    return kv_vector_bytes(kv_format(dtype)[0], values)
