"""The parts of a layer around its attention: compiled on a CPU where there are few rows, torch elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from kvdoctor.reference.library import FORMATS, library

# Above this many rows a product is bound by arithmetic, and torch's blocked one wins (measured on Zen 4: equal at 64).
MOST_ROWS = 32
_NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, to: Tensor | None = None, native: bool = True
) -> Tensor:
    """x [n, inputs] times weight [outputs, inputs] plus bias, added to `to` [n, outputs] in place where given."""
    if native and 0 < x.shape[0] <= MOST_ROWS and (done := _compiled(x, weight, bias, to)) is not None:
        return done
    if x.dtype == weight.dtype:
        product = functional.linear(x, weight, bias)
    else:
        product = functional.linear(x.to(weight.dtype), weight).to(x.dtype)
        product = product if bias is None else product + bias
    return product if to is None else to.add_(product)


def _compiled(x: Tensor, weight: Tensor, bias: Tensor | None, to: Tensor | None) -> Tensor | None:
    """The compiled product; None on a GPU, without a compiler, and for sizes that it does not know."""
    found = None if x.is_cuda or x.dtype != torch.float32 else library()
    if found is None or weight.dtype not in _NAMES:
        return None
    x = x.contiguous()
    rows, outputs = x.shape[0], weight.shape[0]
    result = torch.zeros((rows, outputs)) if to is None else to
    code = FORMATS[_NAMES[weight.dtype]]
    pointers = (x.data_ptr(), weight.data_ptr(), result.data_ptr())
    if found.kv_product(*pointers, rows, x.shape[1], outputs, code, torch.get_num_threads()):
        return None
    return result if bias is None else result.add_(bias)


def norm(x: Tensor, weight: Tensor, epsilon: float, *, native: bool = True) -> Tensor:
    """Root mean square norm over the last dimension; `weight` is fp32 on a CPU."""
    found = library() if native and not x.is_cuda and x.dtype == weight.dtype == torch.float32 else None
    if found is not None and x.is_contiguous():
        result = torch.empty_like(x)
        width = x.shape[-1]
        pointers = (x.data_ptr(), weight.data_ptr(), result.data_ptr())
        found.kv_norm(*pointers, x.numel() // width, width, epsilon, torch.get_num_threads())
        return result
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    return (wide * scale).to(x.dtype) * weight.to(x.dtype)


def gated(x: Tensor, *, native: bool = True) -> Tensor:
    """silu(gate) * up of [rows, 2 * width]: gate is the first half."""
    found = library() if native and not x.is_cuda and x.dtype == torch.float32 else None
    if found is not None:
        rows, width = x.shape[0], x.shape[1] // 2
        result = torch.empty((rows, width))
        found.kv_gate(x.data_ptr(), result.data_ptr(), rows, width, torch.get_num_threads())
        return result
    gate, up = x.chunk(2, dim=-1)
    return functional.silu(gate) * up
