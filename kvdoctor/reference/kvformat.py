"""How keys and values are stored: fp32, bf16, fp16, fp8, int8 with a scale, int4 with a scale and a zero."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kvdoctor.errors import KvdoctorError

# Largest finite fp8 e4m3.
_FP8_MOST = 448.0
_INT8_MOST, _INT4_MOST = 127, 15


@dataclass(frozen=True, slots=True)
class KvFormat:
    """A storage format. Scales are per token and head: int8 one fp32, int4 an fp16 scale and an fp16 zero."""

    name: str
    dtype: torch.dtype
    """Of the stored elements; fp8 is kept as bytes."""
    packed: bool = False
    """Two values a byte: number i in the low half, i + dim/2 in the high one."""
    scale: torch.dtype | None = None
    scales: int = 0

    def elements(self, dim: int) -> int:
        """Stored elements of a head vector."""
        return dim // 2 if self.packed else dim

    def vector_bytes(self, dim: int) -> int:
        """Bytes of a head vector, without its scales."""
        return self.elements(dim) * int(self.dtype.itemsize)

    @property
    def scale_bytes(self) -> int:
        """Bytes of the scales of a head vector."""
        return self.scales * int(self.scale.itemsize) if self.scale else 0

    def encode(self, values: Tensor) -> tuple[Tensor, Tensor | None]:
        """Stored elements and scales of vectors [..., dim]."""
        if self.name == "fp8":
            clamped = values.float().clamp(-_FP8_MOST, _FP8_MOST)
            return clamped.to(torch.float8_e4m3fn).view(torch.uint8), None
        if self.name == "int8":
            scale = values.float().abs().amax(-1, keepdim=True) / _INT8_MOST
            return (values / scale.clamp_min(1e-20)).round().to(torch.int8), scale
        if self.name == "int4":
            return _encode_int4(values.float())
        return values.to(self.dtype), None

    def decode(self, stored: Tensor, scales: Tensor | None) -> Tensor:
        """Vectors [..., dim] in fp32."""
        if self.name == "fp8":
            return stored.view(torch.float8_e4m3fn).float()
        if scales is None:
            return stored.float()
        if self.packed:
            whole = torch.cat((stored & 15, stored >> 4), -1).float()
            return whole * scales[..., :1].float() + scales[..., 1:].float()
        return stored.float() * scales


def _encode_int4(values: Tensor) -> tuple[Tensor, Tensor]:
    """16 steps between the smallest and the largest value; rounded with the scales as they are stored."""
    low, high = values.amin(-1, keepdim=True), values.amax(-1, keepdim=True)
    scales = torch.cat(((high - low) / _INT4_MOST, low), -1).half()
    step, zero = scales[..., :1].float().clamp_min(1e-7), scales[..., 1:].float()
    whole = ((values - zero) / step).round().clamp(0, _INT4_MOST).to(torch.uint8)
    first, second = whole.chunk(2, -1)
    return first | (second << 4), scales


FORMATS = {
    form.name: form
    for form in (
        KvFormat("fp32", torch.float32),
        KvFormat("bf16", torch.bfloat16),
        KvFormat("fp16", torch.float16),
        KvFormat("fp8", torch.uint8),
        KvFormat("int8", torch.int8, scale=torch.float32, scales=1),
        KvFormat("int4", torch.uint8, packed=True, scale=torch.float16, scales=2),
    )
}


def kv_format(name: str) -> KvFormat:
    """A format by name. Raises KvdoctorError for one that is not known."""
    if name not in FORMATS:
        raise KvdoctorError(f"the reference engine has no KV dtype {name!r}", f"use {', '.join(FORMATS)}")
    return FORMATS[name]
