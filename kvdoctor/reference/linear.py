"""Matrix products with few rows: compiled where that streams the weights faster than torch does."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from kvdoctor.reference.library import FORMATS, library

# Above this many rows a product is bound by arithmetic, and torch's blocked one wins.
MOST_ROWS = 32
_NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, native: bool = True) -> Tensor:
    """x [n, inputs] times weight [outputs, inputs], in x's dtype on a CPU (fp32), in the weight's on a GPU."""
    found = library() if native and not x.is_cuda and 0 < len(x) <= MOST_ROWS else None
    if found is not None and x.dtype == torch.float32 and weight.dtype in _NAMES:
        x = x.contiguous()
        result = torch.empty((len(x), len(weight)))
        code = FORMATS[_NAMES[weight.dtype]]
        pointers = (x.data_ptr(), weight.data_ptr(), result.data_ptr())
        if not found.kv_product(*pointers, len(x), x.shape[1], len(weight), code, torch.get_num_threads()):
            return result if bias is None else result.add_(bias)
    if x.dtype == weight.dtype:
        return functional.linear(x, weight, bias)
    product = functional.linear(x.to(weight.dtype), weight).to(x.dtype)
    return product if bias is None else product + bias
