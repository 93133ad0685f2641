"""Logits of the paged model against the same model in float64 without pages."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache

import pytest

torch = pytest.importorskip("torch")

import plainmodel  # noqa: E402

from kvdoctor.reference import library  # noqa: E402
from kvdoctor.reference.batch import batch_of, decode_batch  # noqa: E402
from kvdoctor.reference.blocks import BlockPool  # noqa: E402
from kvdoctor.reference.cache import PagedCache  # noqa: E402
from kvdoctor.reference.config import ModelConfig, Rope  # noqa: E402
from kvdoctor.reference.engine import Engine  # noqa: E402
from kvdoctor.reference.model import Transformer  # noqa: E402
from kvdoctor.reference.request import Phase, Plan, Request, Wait, Work  # noqa: E402
from kvdoctor.reference.scheduler import Scheduler  # noqa: E402
from kvdoctor.reference.weights import random_weights  # noqa: E402

BASE = ModelConfig(2, 64, 4, 2, 32, vocab=96, ffn=96, dtype="fp32")
PATHS = [
    False,
    pytest.param(True, marks=pytest.mark.skipif(bool(library.unavailable()), reason="no compiler")),
]


def group(size: int) -> ModelConfig:
    return replace(BASE, heads=2 * size, kv_heads=2, head_dim=32)


SHAPES = {
    "gqa": BASE,
    "group 1": group(1),
    "group 7": group(7),
    "group 8": group(8),
    "group 12": group(12),
    "one kv head": replace(BASE, kv_heads=1),
    "sliding": replace(BASE, windows=(5, 0)),
    "biases": replace(BASE, qkv_bias=True, o_bias=True),
    "head norms": replace(BASE, qk_norm=True),
    "tied": replace(BASE, tied=True),
    "experts": replace(BASE, experts=5, experts_used=2, expert_ffn=32, sparse=(True, False)),
    "raw shares": replace(BASE, experts=5, experts_used=2, expert_ffn=32, renormalize=False),
    "other head size": replace(BASE, head_dim=64),
    "odd sizes": replace(BASE, hidden=40, ffn=24, head_dim=24),
    "llama3 rope": replace(BASE, rope=Rope(theta=1e4, kind="llama3", factor=8.0, original=16)),
    "linear rope": replace(BASE, rope=Rope(kind="linear", factor=4.0)),
}


def shuffled(blocks: int, count: int, seed: int = 0) -> list[int]:
    return random.Random(seed).sample(range(blocks), count)


def paged(tokens, config, *, page=16, first=5, kv=None, native=True, weights=None):
    """Logits from the `first` token on: a prefill in two chunks, then decode, over shuffled pages."""
    weights = weights or random_weights(config, seed=3)
    cache = PagedCache(config, 24, page, dtype=kv)
    model = Transformer(config, weights, cache, native=native)
    request = Request("a", tuple(tokens[:first]), 99, output=list(tokens[first:]))
    request.table = shuffled(24, -(-len(tokens) // page))
    chunks = [(0, first // 2), (first // 2, first - first // 2)]
    steps = [c for c in chunks if c[1]] + [(at, 1) for at in range(first, len(tokens))]
    found = []
    for start, count in steps:
        phase = Phase.PREFILL
        work = Work(request, start, count, phase, samples=True)
        batch, _ = batch_of(Plan((work,), (), (), (), Wait.NOTHING), page)
        found.append(model.logits(batch)[0][0])
    return torch.stack(found[-(len(tokens) - first + 1) :])


@lru_cache
def exact_logits(config: ModelConfig, count: int):
    """The float64 logits of `tokens_of(count)` under the weights of seed 3."""
    return plainmodel.logits(tokens_of(count), random_weights(config, seed=3), config)


def tokens_of(count: int) -> list[int]:
    return random.Random(1).choices(range(96), k=count)


@pytest.mark.parametrize("native", PATHS)
@pytest.mark.parametrize("name", SHAPES)
def test_logits_agree_with_float64(name, native):
    config, tokens = SHAPES[name], tokens_of(21)
    weights = random_weights(config, seed=3)
    exact = exact_logits(config, 21)[4:]
    ours = paged(tokens, config, native=native, weights=weights)
    assert torch.allclose(ours.double(), exact, atol=2e-5, rtol=1e-4)
    assert torch.equal(ours.argmax(-1), exact.argmax(-1))


@pytest.mark.parametrize("native", PATHS)
@pytest.mark.parametrize("page", [16, 32, 64])
@pytest.mark.parametrize("count", [15, 16, 17, 66])
def test_every_page_size_and_context_gives_the_same(count, page, native):
    tokens, weights = tokens_of(count), random_weights(BASE, seed=3)
    exact = exact_logits(BASE, count)[count - 2 :]
    ours = paged(tokens, BASE, page=page, first=count - 1, native=native, weights=weights)
    assert torch.allclose(ours.double(), exact, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("native", PATHS)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_narrow_weights_lose_nothing_beyond_their_own_rounding(dtype, native):
    config, tokens = replace(BASE, dtype=dtype), tokens_of(20)
    weights = random_weights(config, seed=3)
    exact = exact_logits(config, 20)[4:]
    ours = paged(tokens, config, kv="fp32", native=native, weights=weights)
    # The torch path rounds activations to the weights' dtype as well.
    assert float((ours - exact).abs().max()) < (2e-5 if native else 5e-2)


# Largest error of the logits, whose own size is about 1, per KV dtype.
KV_ERRORS = {"fp32": 1e-5, "bf16": 2e-2, "fp16": 3e-3, "fp8": 4e-1, "int8": 6e-2, "int4": 1.0}


@pytest.mark.parametrize("native", PATHS)
@pytest.mark.parametrize("kv", KV_ERRORS)
def test_a_narrow_kv_dtype_costs_a_known_error(kv, native):
    tokens, weights = tokens_of(40), random_weights(BASE, seed=3)
    exact = exact_logits(BASE, 40)[29:]
    ours = paged(tokens, BASE, first=30, kv=kv, native=native, weights=weights)
    error = float((ours - exact).abs().max())
    assert error < KV_ERRORS[kv]
    assert kv == "fp32" or error > 1e-6


@pytest.mark.parametrize("native", PATHS)
def test_rows_of_many_lengths_share_a_batch(native):
    config, page = SHAPES["group 7"], 16
    weights = random_weights(config, seed=3)
    cache = PagedCache(config, 24, page)
    model = Transformer(config, weights, cache, native=native)
    lengths = [1, 16, 17, 40]
    tables, exact, last, at = torch.zeros((4, 3), dtype=torch.int32), [], [], 0
    order = shuffled(24, 12)
    for row, length in enumerate(lengths):
        tokens = tokens_of(length)
        mine = order[at : at + -(-length // page)]
        at += len(mine)
        tables[row, : len(mine)] = torch.tensor(mine)
        exact.append(exact_logits(config, length)[-1])
        last.append(tokens[-1])
        if length > 1:
            request = Request("a", tuple(tokens[:-1]), 9, table=mine)
            plan = Plan(
                (Work(request, 0, length - 1, Phase.PREFILL, samples=True),), (), (), (), Wait.NOTHING
            )
            model.logits(batch_of(plan, page)[0])
    batch = decode_batch(torch.tensor(last), tables, torch.tensor(lengths, dtype=torch.int32), page)
    ours, _ = model.logits(batch)
    assert torch.allclose(ours.double(), torch.stack(exact), atol=2e-5, rtol=1e-4)


def generated(config: ModelConfig, blocks: int, **limits: int) -> list[list[int]]:
    """Outputs of five requests that share a prefix."""
    cache = PagedCache(config, blocks, 16)
    engine = Engine(
        Transformer(config, random_weights(config, seed=3), cache), Scheduler(BlockPool(blocks, 16), **limits)
    )
    requests = [Request(str(i), tuple(tokens_of(40)) + (i,) * i, 30) for i in range(5)]
    for request in requests:
        engine.add(request)
    while engine.busy:
        engine.step()
    return [request.output for request in requests]


def test_batches_chunks_hits_and_preemption_change_no_token():
    alone = generated(BASE, 64, max_num_seqs=1, max_num_batched_tokens=256)
    assert generated(BASE, 64, max_num_seqs=5, max_num_batched_tokens=7) == alone
    assert generated(BASE, 8, max_num_seqs=5, max_num_batched_tokens=64) == alone


def test_the_engine_generates_what_float64_would():
    config = BASE
    prompt, weights = tokens_of(40), random_weights(config, seed=3)
    tokens = list(prompt)
    for _ in range(6):
        tokens.append(int(plainmodel.logits(tokens, weights, config)[-1].argmax()))
    assert generated(config, 64)[0][:6] == tokens[40:]
