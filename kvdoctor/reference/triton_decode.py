"""Paged decode attention on CUDA: split over the context, one read of K and V for all query heads of a KV head.

Imported only where there is a CUDA device, or by the tests under Triton's interpreter.
"""

from __future__ import annotations

import math
import os

import torch
import triton
import triton.language as tl
from torch import Tensor

from kvdoctor.reference.attention import Rows
from kvdoctor.reference.cache import PagedCache

# tl.dot needs 16 rows; query heads of a group are padded to it.
_LEAST_GROUP = 16
_TILE = 64
# Fewer tokens a split cost more in combining than they gain in parallel work.
_LEAST_TOKENS = 256
_MOST_SPLITS = 64
# Programs a multiprocessor: enough to hide the latency of the loads of the others.
_PROGRAMS = 4
_WARPS, _STAGES = 4, 3
_KINDS = {"fp8": 1, "int8": 2, "int4": 3}
# The interpreter keeps bf16 as raw integers: every dot is fp32 there.
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
_LOG2E = math.log2(math.e)


@triton.jit
def _values(raw, KIND: tl.constexpr, DOT: tl.constexpr):
    """Stored elements as numbers of the dot's type. e4m3 moved into fp16's bits is 256 times too small."""
    if KIND == 1:
        wide = raw.to(tl.uint16)
        bits = ((wide & 0x80) << 8) | ((wide & 0x7F) << 7)
        result = bits.to(tl.float16, bitcast=True).to(DOT)
    else:
        result = raw.to(DOT)
    return result


@triton.jit
def split_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    ks_ptr,
    vs_ptr,
    tables_ptr,
    lengths_ptr,
    acc_ptr,
    most_ptr,
    total_ptr,
    scale,
    q_row,
    block_stride,
    head_stride,
    scale_block,
    scale_head,
    columns,
    window,
    GROUP: tl.constexpr,
    PADDED: tl.constexpr,
    WIDTH: tl.constexpr,
    WIDE: tl.constexpr,
    PAGE: tl.constexpr,
    TILE: tl.constexpr,
    SPLITS: tl.constexpr,
    KIND: tl.constexpr,
    DOT: tl.constexpr,
):
    """One row, KV head and split: the largest score, the sum and the weighted values of its tokens.

    WIDTH elements a stored vector, padded to WIDE; KIND 0 plain, 1 fp8, 2 int8, 3 int4 (two values an element).
    """
    row, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    heads = tl.num_programs(1) * GROUP
    length = tl.load(lengths_ptr + row)
    begin = tl.maximum(length - window, 0) if window > 0 else 0
    first = begin // TILE * TILE
    tiles = tl.cdiv(length - first, TILE)
    share = tl.cdiv(tiles, SPLITS)
    start = first + split * share * TILE
    end = tl.minimum(start + share * TILE, length)

    group = tl.arange(0, PADDED)
    wide = tl.arange(0, WIDE)
    own = head * GROUP + group
    dims = WIDTH * 2 if KIND == 3 else WIDTH
    q_at = q_ptr + row.to(tl.int64) * q_row + own[:, None] * dims + wide[None, :]
    q_mask = (group[:, None] < GROUP) & (wide[None, :] < WIDTH)
    # Powers of two cost no bit: what _values leaves out of fp8 is made up for here and at the end.
    missing = 256.0 if KIND == 1 else 1.0
    q = (tl.load(q_at, mask=q_mask, other=0.0).to(tl.float32) * (scale * missing)).to(DOT)
    most = tl.full((PADDED,), float("-inf"), tl.float32)
    total = tl.zeros((PADDED,), tl.float32)
    acc = tl.zeros((PADDED, WIDE), tl.float32)
    if KIND == 3:
        q_high = (tl.load(q_at + WIDTH, mask=q_mask, other=0.0).to(tl.float32) * scale).to(DOT)
        q_sum = tl.sum(q.to(tl.float32), 1) + tl.sum(q_high.to(tl.float32), 1)
        acc_high = tl.zeros((PADDED, WIDE), tl.float32)

    pages = tl.arange(0, TILE // PAGE)
    within = tl.arange(0, PAGE)
    for at in range(start, end, TILE):
        # One id a page, widened before it is multiplied: 2^31 elements are only 4 GiB of bf16.
        entry = at // PAGE + pages
        block = tl.load(tables_ptr + row.to(tl.int64) * columns + entry, mask=entry * PAGE < length, other=0)
        base = block.to(tl.int64) * block_stride + head * head_stride
        tokens = tl.reshape(base[:, None] + within[None, :] * WIDTH, (TILE,))
        offsets = at + tl.arange(0, TILE)
        live = (offsets < length) & (offsets >= begin)
        mask = live[:, None] & (wide[None, :] < WIDTH)
        k_raw = tl.load(k_ptr + tokens[:, None] + wide[None, :], mask=mask, other=0)
        v_raw = tl.load(v_ptr + tokens[:, None] + wide[None, :], mask=mask, other=0)
        if KIND >= 2:
            scales = tl.reshape(
                block.to(tl.int64)[:, None] * scale_block
                + head * scale_head
                + within[None, :] * (2 if KIND == 3 else 1),
                (TILE,),
            )
            k_scale = tl.load(ks_ptr + scales, mask=live, other=0.0).to(tl.float32)
            v_scale = tl.load(vs_ptr + scales, mask=live, other=0.0).to(tl.float32)
        if KIND == 3:
            scores = tl.dot(q, tl.trans((k_raw & 15).to(DOT))) + tl.dot(
                q_high, tl.trans((k_raw >> 4).to(DOT))
            )
            k_zero = tl.load(ks_ptr + scales + 1, mask=live, other=0.0).to(tl.float32)
            scores = scores * k_scale[None, :] + q_sum[:, None] * k_zero[None, :]
        else:
            scores = tl.dot(q, tl.trans(_values(k_raw, KIND, DOT)))
            if KIND == 2:
                scores = scores * k_scale[None, :]
        scores = tl.where(live[None, :], scores, float("-inf"))
        higher = tl.maximum(most, tl.max(scores, 1))
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        weights = tl.exp2(scores - safe[:, None])
        shrink = tl.exp2(most - safe)
        total = total * shrink + tl.sum(weights, 1)
        most = higher
        if KIND >= 2:
            if KIND == 3:
                v_zero = tl.load(vs_ptr + scales + 1, mask=live, other=0.0).to(tl.float32)
                zeros = tl.sum(weights * v_zero[None, :], 1)
            weights = weights * v_scale[None, :]
        if KIND == 3:
            acc = acc * shrink[:, None] + zeros[:, None] + tl.dot(weights.to(DOT), (v_raw & 15).to(DOT))
            high = tl.dot(weights.to(DOT), (v_raw >> 4).to(DOT))
            acc_high = acc_high * shrink[:, None] + zeros[:, None] + high
        else:
            acc = acc * shrink[:, None] + tl.dot(weights.to(DOT), _values(v_raw, KIND, DOT))

    part = (row * heads + own).to(tl.int64) * SPLITS + split
    real = group < GROUP
    tl.store(most_ptr + part, most, mask=real)
    tl.store(total_ptr + part, total, mask=real)
    out = acc_ptr + part[:, None] * dims + wide[None, :]
    tl.store(out, acc * missing, mask=q_mask)
    if KIND == 3:
        tl.store(out + WIDTH, acc_high, mask=q_mask)


@triton.jit
def combine_kernel(
    acc_ptr, most_ptr, total_ptr, out_ptr, DIM: tl.constexpr, WIDE: tl.constexpr, SPLITS: tl.constexpr
):
    """One row and head: add its splits up by their largest scores. Empty splits weigh nothing, an empty row is zero."""
    row = tl.program_id(0).to(tl.int64)
    splits, wide = tl.arange(0, SPLITS), tl.arange(0, WIDE)
    most = tl.load(most_ptr + row * SPLITS + splits)
    highest = tl.max(most, 0)
    weights = tl.exp2(most - tl.where(highest == float("-inf"), 0.0, highest))
    total = tl.sum(tl.load(total_ptr + row * SPLITS + splits) * weights, 0)
    at = acc_ptr + (row * SPLITS + splits)[:, None] * DIM + wide[None, :]
    acc = tl.load(at, mask=wide[None, :] < DIM, other=0.0)
    result = tl.sum(acc * weights[:, None], 0) / tl.where(total == 0.0, 1.0, total)
    tl.store(out_ptr + row * DIM + wide, result.to(out_ptr.dtype.element_ty), mask=wide < DIM)


def splits_for(rows: int, kv_heads: int, tokens: int, multiprocessors: int) -> int:
    """A power of two: enough programs for the card, no split under 256 tokens. From sizes the host knows."""
    wanted = -(-_PROGRAMS * multiprocessors // max(1, rows * kv_heads))
    most = max(1, min(_MOST_SPLITS, tokens // _LEAST_TOKENS))
    return int(triton.next_power_of_2(max(1, min(wanted, most))))


def paged_decode(query: Tensor, cache: PagedCache, layer: int, rows: Rows, *, splits: int = 0) -> Tensor:
    """One query token a row: [rows, heads, dim] to the same, in the query's dtype."""
    config, pages, form = cache.config, cache.pages[layer], cache.format
    query = query.contiguous()
    count, heads, dim = query.shape
    if not splits:
        processors = torch.cuda.get_device_properties(query.device).multi_processor_count
        splits = splits_for(count, config.kv_heads, rows.tables.shape[1] * cache.page, processors)
    where = {"dtype": torch.float32, "device": query.device}
    acc = torch.empty((count, heads, splits, dim), **where)
    most, total = torch.empty((count, heads, splits), **where), torch.empty((count, heads, splits), **where)
    result = torch.empty_like(query)
    width = form.elements(dim)
    key_scales = pages.keys if pages.key_scales is None else pages.key_scales
    value_scales = pages.values if pages.value_scales is None else pages.value_scales
    dot = tl.float32 if _INTERPRETED or query.dtype == torch.float32 else _triton_type(query.dtype)
    split_kernel[(count, config.kv_heads, splits)](
        query,
        pages.keys,
        pages.values,
        key_scales,
        value_scales,
        rows.tables,
        rows.lengths,
        acc,
        most,
        total,
        _LOG2E / math.sqrt(dim),
        query.stride(0),
        pages.keys.stride(0),
        pages.keys.stride(1),
        key_scales.stride(0),
        key_scales.stride(1),
        rows.tables.stride(0),
        config.window(layer),
        GROUP=config.group,
        PADDED=max(_LEAST_GROUP, triton.next_power_of_2(config.group)),
        WIDTH=width,
        WIDE=triton.next_power_of_2(width),
        PAGE=cache.page,
        TILE=max(_TILE, cache.page),
        SPLITS=splits,
        KIND=_KINDS.get(form.name, 0),
        DOT=dot,
        num_warps=_WARPS,
        num_stages=_STAGES,
    )
    wide = triton.next_power_of_2(dim)
    combine_kernel[(count * heads,)](acc, most, total, result, DIM=dim, WIDE=wide, SPLITS=splits)
    return result


def _triton_type(dtype: torch.dtype) -> tl.dtype:
    """The dot's operand type of a torch dtype."""
    return tl.bfloat16 if dtype == torch.bfloat16 else tl.float16
