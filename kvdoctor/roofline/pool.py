"""From a pool of bytes to blocks, tokens and whole sequences."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline import kv
from kvdoctor.roofline.shape import KvStorage, Layout, ModelShape


@dataclass(frozen=True, slots=True)
class Pool:
    """What fits a pool on one rank."""

    bytes: float
    blocks: int
    tokens: int
    """Uniform models: blocks * block size. Hybrids: concurrency * context, as engines print it."""
    sequences: int
    """Whole sequences of the context."""
    concurrency: float
    """Sequences of the context, as a fraction: what vLLM prints as maximum concurrency."""
    request_bytes: float
    """Bytes that one sequence of the context holds."""


def fit(
    shape: ModelShape,
    *,
    pool_bytes: float,
    context: int,
    layout: Layout,
    storage: KvStorage = KvStorage(),
) -> Pool:
    """Blocks, tokens and sequences of `context` tokens that a pool of `pool_bytes` per rank holds.

    Raises KvdoctorError for a pool, a context or a block that is not positive.
    """
    if pool_bytes < 0 or context <= 0 or storage.block_size <= 0:
        raise KvdoctorError("a pool needs a size, a context and a block size above zero", "check --pool")
    size, per_sequence = storage.block_size, math.ceil(context / storage.block_size)
    growth = kv.growth_bytes(shape, layout=layout, storage=storage)
    request = kv.sequence_bytes(shape, tokens=context, layout=layout, storage=storage, whole_blocks=True)
    if kv.is_uniform(shape, storage) and growth:
        blocks = math.floor(pool_bytes / (size * growth))
        return Pool(pool_bytes, blocks, blocks * size, blocks // per_sequence, blocks / per_sequence, request)
    concurrency = pool_bytes / request if request else math.inf
    if math.isinf(concurrency):
        raise KvdoctorError("the model keeps no KV and no state", "a pool says nothing about it")
    tokens = math.floor(concurrency * context)
    return Pool(
        pool_bytes,
        math.floor(concurrency * per_sequence),
        tokens,
        math.floor(concurrency),
        concurrency,
        request,
    )


def longest_sequence(
    shape: ModelShape,
    *,
    pool_bytes: float,
    layout: Layout,
    storage: KvStorage = KvStorage(),
) -> int:
    """Tokens, in whole blocks, of the longest sequence that fits the pool; 0 where not even one block does."""
    size = storage.block_size
    low, high = 0, 1

    def fits(blocks: int) -> bool:
        held = kv.sequence_bytes(
            shape, tokens=blocks * size, layout=layout, storage=storage, whole_blocks=True
        )
        return held <= pool_bytes

    limit = 2**40
    while high < limit and fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * size


def request_blocks(prompt: int, block_size: int = 16) -> int:
    """Blocks that a sequence owns once its next token is scheduled: floor(n / block) + 1."""
    return prompt // block_size + 1


def pool_bytes(
    memory_bytes: float, *, utilization: float, weights: float, other: float = 0.0, static: bool = True
) -> float:
    """Bytes left for KV: utilization * memory - weights - other (activations, graphs); never below 0.

    SGLang's `mem_fraction_static` and vLLM's `gpu_memory_utilization` both cover weights and pool; what vLLM
    profiles besides (activation peak, graphs) is `other`. `static=False` takes the fraction of what weights
    leave free, as TensorRT-LLM's `free_gpu_memory_fraction` does.
    """
    if static:
        return max(0.0, utilization * memory_bytes - weights - other)
    return max(0.0, utilization * (memory_bytes - weights - other))
