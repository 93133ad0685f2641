"""The engine: events, byte counts, and hits that come back from far tiers with the very same KV."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from kvdoctor.reference.blocks import BlockPool  # noqa: E402
from kvdoctor.reference.bucket import TokenBucket  # noqa: E402
from kvdoctor.reference.cache import PagedCache  # noqa: E402
from kvdoctor.reference.config import ModelConfig  # noqa: E402
from kvdoctor.reference.engine import Engine, Kind, StepResult  # noqa: E402
from kvdoctor.reference.loader import Loader  # noqa: E402
from kvdoctor.reference.model import Transformer  # noqa: E402
from kvdoctor.reference.request import Phase, Request  # noqa: E402
from kvdoctor.reference.scheduler import Scheduler  # noqa: E402
from kvdoctor.reference.stores import FileStore, HostStore  # noqa: E402
from kvdoctor.reference.tiers import Tier, Tiers  # noqa: E402
from kvdoctor.reference.weights import random_weights  # noqa: E402

CONFIG = ModelConfig(2, 64, 4, 2, 32, vocab=96, ffn=96, dtype="fp32")
WEIGHTS = random_weights(CONFIG, seed=1)


def engine_of(
    blocks: int = 32, *, tiers=None, prefetch: bool = True, kv: str = "fp32", **limits: int
) -> Engine:
    cache = PagedCache(CONFIG, blocks, 16, dtype=kv)
    model = Transformer(CONFIG, WEIGHTS, cache)
    loader = Loader(tiers(cache), cache, prefetch=prefetch) if tiers else None
    return Engine(model, Scheduler(BlockPool(blocks, 16), **limits), loader=loader)


def drain(engine: Engine) -> list[StepResult]:
    steps = []
    while engine.busy:
        steps.append(engine.step())
        assert len(steps) < 20000
    return steps


def run(engine: Engine, *prompts: tuple[int, ...], most: int = 4) -> tuple[list[Request], list[StepResult]]:
    requests = [Request(f"{prompt[0]}-{i}", prompt, most) for i, prompt in enumerate(prompts)]
    for request in requests:
        engine.add(request)
    return requests, drain(engine)


def prompt(seed: int, count: int = 70) -> tuple[int, ...]:
    return tuple((seed * 31 + i * 7) % 96 for i in range(count))


def test_the_events_of_a_request_come_in_order():
    _, steps = run(engine_of(), prompt(1), most=3)
    events = [event for step in steps for event in step.events]
    assert [event.kind for event in events] == [
        Kind.QUEUED,
        Kind.SCHEDULED,
        Kind.FIRST_TOKEN,
        Kind.TOKEN,
        Kind.TOKEN,
        Kind.FINISHED,
    ]
    times = [event.at for event in events]
    assert times == sorted(times)


def test_a_decode_step_counts_weights_once_and_each_sequences_kv():
    engine = engine_of()
    _, steps = run(engine, prompt(1), prompt(2, 50), most=3)
    decode = next(step for step in steps if step.decode_tokens == 2)
    lengths = sum(work.start + 1 for work in decode.plan.work)
    assert decode.weight_bytes == WEIGHTS.fixed_bytes()
    assert decode.kv_bytes == lengths * CONFIG.layers * 2 * 2 * 32 * 4
    assert decode.written_bytes == 2 * CONFIG.layers * 2 * 2 * 32 * 4
    assert decode.bytes_per_s == pytest.approx(decode.read_bytes / decode.compute_seconds)


def test_an_aborted_request_ends_with_an_event():
    engine = engine_of()
    engine.add(Request("a", prompt(1), 50))
    engine.step()
    engine.abort("a")
    kinds = [event.kind for event in engine.step().events]
    assert kinds == [Kind.FINISHED]
    assert not engine.busy


def host(cache):
    return Tiers([Tier(HostStore(), blocks=64)])


def host_then_file(cache):
    return Tiers([Tier(HostStore(), blocks=3), Tier(FileStore(block_bytes=cache.block_bytes), blocks=64)])


@pytest.mark.parametrize("kv", ["fp32", "int8", "int4"])
@pytest.mark.parametrize("prefetch", [True, False])
@pytest.mark.parametrize("tiers", [host, host_then_file])
def test_evicted_blocks_come_back_and_the_tokens_are_the_same(tiers, prefetch, kv):
    plain = run(engine_of(kv=kv), prompt(1))[0][0].output
    engine = engine_of(6, tiers=tiers, prefetch=prefetch, kv=kv)
    run(engine, prompt(1))
    for seed in range(2, 5):
        run(engine, prompt(seed))
    again, steps = run(engine, prompt(1))
    assert again[0].output == plain
    assert (again[0].promised, again[0].delivered) == (64, 64)
    assert (
        sum(tier.traffic.loaded_bytes for tier in engine.loader.tiers.levels)
        >= 4 * engine.model.cache.block_bytes
    )
    assert any(event.kind is Kind.LOADED for step in steps for event in step.events)
    engine.close()


def test_without_prefetch_the_whole_load_stops_the_engine():
    def slow(cache):
        return Tiers([Tier(HostStore(), blocks=64, limit=TokenBucket(cache.block_bytes / 0.01))])

    engine = engine_of(6, tiers=slow, prefetch=False)
    for seed in (1, 2, 3):
        run(engine, prompt(seed))
    _, steps = run(engine, prompt(1))
    assert sum(step.stall_seconds for step in steps) >= 0.04
    assert engine.loader.hidden_seconds == 0.0
    engine.close()


def test_with_prefetch_others_decode_while_a_load_is_under_way():
    def slow(cache):
        return Tiers([Tier(HostStore(), blocks=64, limit=TokenBucket(cache.block_bytes / 0.01))])

    engine = engine_of(14, tiers=slow, max_num_seqs=2)
    for seed in (1, 2, 3, 4, 5):
        run(engine, prompt(seed))
    assert engine.scheduler.pool.evictions > 0
    engine.add(Request("busy", prompt(9, 5), 100))
    engine.step()
    engine.add(Request("hit", prompt(1), 2))
    meanwhile = [step for step in drain(engine) if step.loading and step.decode_tokens]
    assert meanwhile
    assert engine.loader.hidden_seconds > 0
    engine.close()


def test_broken_promises_are_computed_again_without_a_word():
    def unpinned(cache):
        return Tiers([Tier(HostStore(), blocks=4)], pin_promises=False)

    plain = run(engine_of(), prompt(1))[0][0].output
    engine = engine_of(6, tiers=unpinned)
    run(engine, prompt(1))
    run(engine, prompt(2))
    tiers = engine.loader.tiers
    promise = tiers.promise

    def then_lose(hashes):
        count = promise(hashes)
        for key in list(tiers.levels[0].kept):
            tiers.levels[0].drop(key)
        return count

    tiers.promise = then_lose
    again, _ = run(engine, prompt(1))
    assert again[0].output == plain
    assert again[0].promised > again[0].delivered == 0
    engine.close()


def test_many_requests_through_a_tiny_pool_with_tiers_all_end_alike():
    prompts = [prompt(seed % 4, 40 + seed) for seed in range(8)]
    alone = [request.output for request in run(engine_of(64, max_num_seqs=1), *prompts, most=30)[0]]
    engine = engine_of(9, tiers=host_then_file, max_num_seqs=4, max_num_batched_tokens=24)
    requests, steps = run(engine, *prompts, most=30)
    assert [request.output for request in requests] == alone
    assert engine.scheduler.preemptions > 0
    assert {work.phase for step in steps for work in step.plan.work} == {Phase.PREFILL, Phase.DECODE}
    assert engine.scheduler.pool.free == 9
    engine.close()
