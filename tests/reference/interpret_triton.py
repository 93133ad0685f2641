"""Run by test_triton.py in a process of its own, under Triton's interpreter: the kernels against float64."""

from __future__ import annotations

import json
import math
import sys

import torch

from kvdoctor.reference.attention import Rows
from kvdoctor.reference.cache import PagedCache
from kvdoctor.reference.config import ModelConfig
from kvdoctor.reference.triton_decode import paged_decode

LENGTHS = [0, 1, 17, 64, 130, 200]


def error(group: int, page: int, kv: str, dim: int, window: int, splits: int) -> float:
    """Largest difference from attention in float64 over the values as they are stored."""
    torch.manual_seed(group + page)
    config = ModelConfig(1, 64, 2 * group, 2, dim, 10, 10, windows=(window,), dtype="fp32")
    columns = -(-max(LENGTHS) // page)
    cache = PagedCache(config, len(LENGTHS) * columns, page, dtype=kv)
    # The layout of a GPU, on the CPU: keys are not transposed.
    cache.transposed = False
    cache.pages = tuple(cache._layer(0) for _ in range(1))
    slots = torch.arange(cache.blocks * page)
    cache.write(0, (slots // page, slots % page), *torch.randn(2, len(slots), 2, dim))
    tables = torch.randperm(cache.blocks).view(len(LENGTHS), columns).int()
    query = torch.randn(len(LENGTHS), config.heads, dim)
    rows = Rows(tables, torch.tensor(LENGTHS, dtype=torch.int32))
    found = paged_decode(query, cache, 0, rows, splits=splits)
    worst = 0.0
    for row, length in enumerate(LENGTHS):
        keys, values = cache.read(0, tables[row])
        start = max(0, length - window) if window else 0
        for head in range(config.heads):
            key, value = (x[head // group, start:length].double() for x in (keys, values))
            weights = (key @ query[row, head].double() / math.sqrt(dim)).softmax(0)
            exact = weights @ value if length else torch.zeros(dim, dtype=torch.float64)
            worst = max(worst, float((found[row, head] - exact).abs().max()))
    return worst


print(json.dumps([error(*case) for case in json.loads(sys.argv[1])]))  # noqa: T201
