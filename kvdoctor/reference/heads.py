"""From the projected rows of a layer to turned queries, with keys and values stored in their slots."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from kvdoctor.reference.cache import PagedCache
from kvdoctor.reference.library import FORMATS, Heads, library
from kvdoctor.reference.linear import norm

Turn = tuple[Tensor, Tensor]
# What the compiled path stores by itself; torch encodes the rest.
_STORED = ("fp32", "bf16")


def enter(
    projected: Tensor,
    norms: tuple[Tensor, Tensor] | None,
    turn: Turn,
    cache: PagedCache,
    layer: int,
    slots: tuple[Tensor, Tensor],
    *,
    native: bool = True,
) -> Tensor:
    """Queries [tokens, heads, dim], normed and turned; the keys and values of the same tokens go into the cache.

    `projected` [tokens, (heads + 2 * kv_heads) * dim]; `norms` are those of queries and keys, where there are any;
    `turn` the cosines and sines [tokens, 1, dim / 2].
    """
    config = cache.config
    rows = projected.view(projected.shape[0], -1, config.head_dim)
    parts = (config.heads, config.kv_heads, config.kv_heads)
    found = library() if native and not projected.is_cuda and projected.dtype == torch.float32 else None
    if found is not None:
        _compiled(found, projected, norms, turn, cache, layer, slots)
        query, key, value = rows.split(parts, dim=1)
        if cache.format.name not in _STORED:
            cache.write(layer, slots, key, value)
        return query
    query, key, value = rows.split(parts, dim=1)
    if norms is not None:
        query, key = (
            norm(x, w, config.epsilon, native=False) for x, w in zip((query, key), norms, strict=True)
        )
    cache.write(layer, slots, rotate(key, turn), value)
    return rotate(query, turn)


def rotate(x: Tensor, turn: Turn) -> Tensor:
    """Rotary embedding of [tokens, heads, dim]: the two halves of a head are the parts of its pairs."""
    cosine, sine = turn
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


def _compiled(
    found: ctypes.CDLL,
    projected: Tensor,
    norms: tuple[Tensor, Tensor] | None,
    turn: Turn,
    cache: PagedCache,
    layer: int,
    slots: tuple[Tensor, Tensor],
) -> None:
    """Norm, turn and store in place."""
    config = cache.config
    arguments = Heads(
        projected.data_ptr(),
        turn[0].data_ptr(),
        turn[1].data_ptr(),
        norms[0].data_ptr() if norms else None,
        norms[1].data_ptr() if norms else None,
        cache.memory.data_ptr(),
        slots[0].data_ptr(),
        slots[1].data_ptr(),
        cache.block_bytes,
        *cache.pages[layer].offsets[:2],
        projected.shape[0],
        config.heads,
        config.kv_heads,
        config.head_dim,
        cache.page,
        FORMATS[cache.format.name],
        torch.get_num_threads(),
        config.epsilon,
    )
    found.kv_heads(ctypes.byref(arguments))
