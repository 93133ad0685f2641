"""Memory for what a step streams: huge pages on a CPU, where the walk through small ones halves the read rate."""

from __future__ import annotations

import mmap

import torch
from torch import Tensor

# Smaller pieces are not worth a mapping of their own.
_SMALLEST = 1 << 20
_HUGE_PAGE = 2 << 20


def empty(shape: tuple[int, ...], dtype: torch.dtype, device: str = "cpu") -> Tensor:
    """An uninitialised tensor; a large one on a CPU lies in huge pages, where the kernel grants them."""
    size = dtype.itemsize
    for length in shape:
        size *= length
    if device != "cpu" or size < _SMALLEST:
        return torch.empty(shape, dtype=dtype, device=device)
    # Room to begin at a multiple of a huge page: the kernel joins only aligned ones.
    # Private: shared mappings are another kind of memory, for which huge pages are usually off.
    area = mmap.mmap(-1, size + _HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        area.madvise(mmap.MADV_HUGEPAGE)
    raw = torch.frombuffer(area, dtype=torch.uint8)
    start = -raw.data_ptr() % _HUGE_PAGE
    return raw[start : start + size].view(dtype).view(shape)
