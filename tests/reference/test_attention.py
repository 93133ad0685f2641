"""Attention over shuffled pages against the same in float64: rows of length zero, windows, partial pages."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from kvdoctor.reference import library  # noqa: E402
from kvdoctor.reference.attention import Rows, decode  # noqa: E402
from kvdoctor.reference.cache import PagedCache  # noqa: E402
from kvdoctor.reference.config import ModelConfig  # noqa: E402
from kvdoctor.reference.kvformat import FORMATS  # noqa: E402

PATHS = [
    False,
    pytest.param(True, marks=pytest.mark.skipif(bool(library.unavailable()), reason="no compiler")),
]
LENGTHS = [0, 1, 15, 16, 47, 64]


def setting(group: int, page: int, kv: str, window: int = 0):
    """A cache full of random keys and values, a shuffled table for each length, and queries."""
    torch.manual_seed(group * page)
    config = ModelConfig(1, 64, 2 * group, 2, 32, 10, 10, windows=(window,), dtype="fp32")
    columns = -(-max(LENGTHS) // page)
    cache = PagedCache(config, len(LENGTHS) * columns, page, dtype=kv)
    tables = torch.randperm(cache.blocks).view(len(LENGTHS), columns).int()
    slots = torch.arange(cache.blocks * page)
    cache.write(
        0, (slots // page, slots % page), torch.randn(len(slots), 2, 32), torch.randn(len(slots), 2, 32)
    )
    rows = Rows(tables, torch.tensor(LENGTHS, dtype=torch.int32))
    return config, cache, rows, torch.randn(len(LENGTHS), config.heads, 32)


def exact(config, cache, rows, query, window):
    """One row and head at a time, over the values as they are stored."""
    result = torch.zeros(query.shape, dtype=torch.float64)
    for row, length in enumerate(rows.lengths.tolist()):
        keys, values = cache.read(0, rows.tables[row])
        start = max(0, length - window) if window else 0
        for head in range(config.heads if length else 0):
            key, value = (x[head // config.group, start:length].double() for x in (keys, values))
            weights = (key @ query[row, head].double() / math.sqrt(config.head_dim)).softmax(0)
            result[row, head] = weights @ value
    return result


@pytest.mark.parametrize("native", PATHS)
@pytest.mark.parametrize("window", [0, 9, 20])
@pytest.mark.parametrize("page", [16, 32, 64])
@pytest.mark.parametrize("group", [1, 4, 7, 8, 9])
def test_it_agrees_with_float64(group, page, window, native):
    config, cache, rows, query = setting(group, page, "fp32", window)
    found = decode(query, cache, 0, rows, native=native)
    assert torch.allclose(found.double(), exact(config, cache, rows, query, window), atol=2e-6)


@pytest.mark.parametrize("native", PATHS)
@pytest.mark.parametrize("kv", FORMATS)
def test_every_kv_dtype_is_read_as_it_is_stored(kv, native):
    config, cache, rows, query = setting(4, 16, kv)
    found = decode(query, cache, 0, rows, native=native)
    assert torch.allclose(found.double(), exact(config, cache, rows, query, 0), atol=2e-6)


@pytest.mark.parametrize("native", PATHS)
def test_large_scores_do_not_overflow(native):
    config, cache, rows, query = setting(4, 16, "fp32")
    found = decode(query * 1000, cache, 0, rows, native=native)
    assert torch.isfinite(found).all()
    assert torch.allclose(found.double(), exact(config, cache, rows, query * 1000, 0), atol=1e-3)


@pytest.mark.skipif(bool(library.unavailable()), reason="no compiler")
def test_the_compiled_path_is_the_one_that_runs(monkeypatch):
    _, cache, rows, query = setting(4, 16, "fp32")
    monkeypatch.setattr("kvdoctor.reference.attention.chunk", None)
    assert decode(query, cache, 0, rows).shape == query.shape


# Relative error of a random vector of 64, root mean square.
@pytest.mark.parametrize(
    ("kv", "most"),
    [("fp32", 1e-9), ("fp16", 3e-4), ("bf16", 3e-3), ("int8", 1e-2), ("fp8", 4e-2), ("int4", 0.12)],
)
def test_a_format_keeps_its_vectors_within_its_error(kv, most):
    torch.manual_seed(0)
    values = torch.randn(100, 2, 64) * 3
    form = FORMATS[kv]
    back = form.decode(*form.encode(values))
    error = float((back - values).square().mean().sqrt() / values.square().mean().sqrt())
    assert error <= most
    assert error >= most / 5 or kv == "fp32"


@pytest.mark.parametrize("kv", ["fp8", "int8", "int4"])
def test_a_vector_of_zeros_and_an_outlier_survive(kv):
    form = FORMATS[kv]
    values = torch.zeros(2, 1, 64)
    values[1, 0, 3] = 1e4
    back = form.decode(*form.encode(values))
    assert torch.isfinite(back).all()
    assert float(back[0].abs().max()) < 1e-3
