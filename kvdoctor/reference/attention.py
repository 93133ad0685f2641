"""Attention over paged KV behind one function: compiled on a CPU, Triton on CUDA, torch anywhere."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from kvdoctor.reference.cache import PagedCache
from kvdoctor.reference.library import FORMATS, Attention, library

# Pages that the torch path copies at a time: small enough for a core's own cache, large enough for its products.
_PAGES = 32


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a batch that each attend to the KV of one sequence.

    `tables` [rows, columns] int32 block ids, `lengths` [rows] int32 tokens to attend to, the row's own included.
    """

    tables: Tensor
    lengths: Tensor


def decode(query: Tensor, cache: PagedCache, layer: int, rows: Rows, *, native: bool = True) -> Tensor:
    """One query token a row: query [rows, heads, dim] to [rows, heads, dim]. A row of length 0 becomes zero."""
    if query.is_cuda:
        from kvdoctor.reference.triton_decode import paged_decode

        return paged_decode(query, cache, layer, rows)
    found = library() if native else None
    if found is not None and query.dtype == torch.float32:
        result = _compiled(found, query, cache, layer, rows)
        if result is not None:
            return result
    return torch.stack(
        [
            chunk(query[row : row + 1], cache, layer, rows.tables[row], int(rows.lengths[row]))[0]
            for row in range(len(query))
        ]
    )


def chunk(query: Tensor, cache: PagedCache, layer: int, table: Tensor, length: int) -> Tensor:
    """The last `tokens` of a sequence of `length`: query [tokens, heads, dim], causal, a few pages at a time.

    The pages are copied piece by piece (they are not contiguous) and added up with the online softmax, so no
    copy of the whole context ever exists.
    """
    config, page = cache.config, cache.page
    tokens, heads, dim = query.shape
    grouped = query.float().view(tokens, config.kv_heads, config.group, dim).permute(1, 2, 0, 3)
    grouped = grouped.reshape(config.kv_heads, config.group * tokens, dim) / math.sqrt(dim)
    positions = torch.arange(length - tokens, length, device=query.device).repeat(config.group)
    window = config.window(layer)
    first = max(0, length - tokens - window + 1) // page if window else 0
    state = _Online(grouped)
    for start in range(first, -(-length // page), _PAGES):
        keys, values = cache.read(layer, table[start : min(start + _PAGES, -(-length // page))])
        at = torch.arange(start * page, start * page + keys.shape[1], device=query.device)
        hidden = at[None, :] > positions[:, None]
        if window:
            hidden = hidden | (at[None, :] <= positions[:, None] - window)
        state.add(grouped @ keys.transpose(1, 2), values, hidden)
    result = state.result().view(config.kv_heads, config.group, tokens, dim)
    return result.permute(2, 0, 1, 3).reshape(tokens, heads, dim).to(query.dtype)


class _Online:
    """A softmax over pieces: the largest score so far, the sum of weights, the weighted values."""

    def __init__(self, query: Tensor) -> None:
        shape = (*query.shape[:2], 1)
        self.most = torch.full(shape, -math.inf, device=query.device)
        self.total = torch.zeros(shape, device=query.device)
        self.values = torch.zeros_like(query)

    def add(self, scores: Tensor, values: Tensor, hidden: Tensor) -> None:
        """Add a piece; `hidden` marks scores that do not count."""
        scores = scores.masked_fill(hidden, -math.inf)
        most = torch.maximum(self.most, scores.amax(-1, keepdim=True))
        # Where nothing counts yet, -inf minus -inf would be NaN.
        safe = most.masked_fill(most == -math.inf, 0.0)
        weights = torch.exp(scores - safe)
        shrink = torch.exp(self.most - safe)
        self.total = self.total * shrink + weights.sum(-1, keepdim=True)
        self.values = self.values * shrink + weights @ values
        self.most = most

    def result(self) -> Tensor:
        """The weighted mean; zero where nothing counted."""
        return self.values / self.total.masked_fill(self.total == 0, 1.0)


def _compiled(found: ctypes.CDLL, query: Tensor, cache: PagedCache, layer: int, rows: Rows) -> Tensor | None:
    """The compiled path; None for sizes that it does not know."""
    config = cache.config
    scaled = (query / math.sqrt(config.head_dim)).contiguous()
    result = torch.empty_like(scaled)
    arguments = Attention(
        scaled.data_ptr(),
        result.data_ptr(),
        cache.memory.data_ptr(),
        rows.tables.data_ptr(),
        rows.lengths.data_ptr(),
        cache.block_bytes,
        *cache.pages[layer].offsets,
        len(query),
        rows.tables.shape[1],
        config.heads,
        config.kv_heads,
        config.head_dim,
        cache.page,
        config.window(layer),
        torch.get_num_threads(),
    )
    status = found.kv_attend(ctypes.byref(arguments), FORMATS[cache.format.name])
    return None if status else result
