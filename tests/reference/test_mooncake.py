"""A remote pool in a real Mooncake store on loopback: every byte comes back, and the counters are exact."""

from __future__ import annotations

import os

import pytest
from mooncakes import free_ports, master, program

torch = pytest.importorskip("torch")

from kvdoctor.errors import KvdoctorError  # noqa: E402
from kvdoctor.reference.blocks import BlockPool  # noqa: E402
from kvdoctor.reference.cache import PagedCache  # noqa: E402
from kvdoctor.reference.config import ModelConfig  # noqa: E402
from kvdoctor.reference.engine import Engine  # noqa: E402
from kvdoctor.reference.loader import Loader  # noqa: E402
from kvdoctor.reference.model import Transformer  # noqa: E402
from kvdoctor.reference.mooncake import Mooncake, MooncakeStore  # noqa: E402
from kvdoctor.reference.request import Request  # noqa: E402
from kvdoctor.reference.scheduler import Scheduler  # noqa: E402
from kvdoctor.reference.tiers import Tier, Tiers  # noqa: E402
from kvdoctor.reference.weights import random_weights  # noqa: E402

MIB = 2**20
CONFIG = ModelConfig(2, 64, 4, 2, 32, vocab=96, ffn=96, dtype="fp32")
WEIGHTS = random_weights(CONFIG, seed=1)


@pytest.fixture(scope="module")
def where(tmp_path_factory):
    with master(tmp_path_factory.mktemp("mooncake")) as found:
        yield found


@pytest.fixture
def store(where):
    found = MooncakeStore(where)
    yield found
    found.close()


def prompt(seed: int, count: int = 70) -> tuple[int, ...]:
    return tuple((seed * 31 + i * 7) % 96 for i in range(count))


def generate(engine: Engine, seed: int) -> Request:
    request = Request(f"r{seed}", prompt(seed), 4)
    engine.add(request)
    while engine.busy:
        engine.step()
    return request


def engine_of(blocks: int, *stores: MooncakeStore, prefetch: bool = True) -> Engine:
    cache = PagedCache(CONFIG, blocks, 16, dtype="fp32")
    loader = Loader(Tiers([Tier(s, blocks=64) for s in stores]), cache, prefetch=prefetch) if stores else None
    return Engine(Transformer(CONFIG, WEIGHTS, cache), Scheduler(BlockPool(blocks, 16)), loader=loader)


@pytest.mark.parametrize("size", [1, 5000, 64 * 1024, 4 * MIB])
def test_a_block_comes_back_byte_for_byte(store, size):
    key, data, into = os.urandom(16), os.urandom(size), bytearray(size)
    store.write(key, memoryview(data))
    assert store.read(key, memoryview(into))
    assert into == data


def test_what_was_never_put_or_has_another_size_is_not_there(store):
    key, into = os.urandom(16), bytearray(100)
    assert not store.read(key, memoryview(into))
    store.write(key, memoryview(b"x" * 99))
    assert not store.read(key, memoryview(into))
    assert into == bytes(100)


@pytest.mark.parametrize("prefetch", [True, False])
def test_evicted_blocks_come_back_from_the_store_and_the_tokens_are_the_same(where, prefetch):
    plain = generate(engine_of(32), 1).output
    engine = engine_of(6, MooncakeStore(where), prefetch=prefetch)
    kept = _kept(engine)
    for seed in range(1, 5):
        generate(engine, seed)
    again = generate(engine, 1)
    traffic = engine.loader.tiers.levels[0].traffic
    size = engine.model.cache.block_bytes
    assert again.output == plain
    assert (again.promised, again.delivered) == (64, 64)
    assert (traffic.loaded_pieces, traffic.loaded_bytes) == (4, 4 * size)
    assert (traffic.stored_pieces, traffic.stored_bytes) == (len(kept), len(kept) * size)
    assert traffic.dropped_blocks == 0
    assert traffic.loaded_seconds > 0
    assert traffic.stored_seconds > 0
    into = bytearray(size)
    for key, data in kept.items():
        assert engine.loader.tiers.levels[0].store.read(key, memoryview(into))
        assert bytes(into) == data
    engine.close()


def _kept(engine: Engine) -> dict[bytes, bytes]:
    """What goes out, by key, as the pool's memory held it; filled while the engine runs."""
    kept: dict[bytes, bytes] = {}
    evicted = engine.loader.evicted

    def watched(block: int, key: bytes) -> None:
        if engine.loader.tiers.holds(key) is None:
            kept[key] = bytes(engine.loader.memory.outgoing(block))
        evicted(block, key)

    engine.scheduler.pool.on_evict = watched
    return kept


def test_a_full_store_says_so_and_loses_the_oldest(tmp_path):
    with master(tmp_path, segment=16 * MIB) as where:
        store = MooncakeStore(where)
        keys = [os.urandom(16) for _ in range(64)]
        taken = [store.write(key, memoryview(key * (MIB // 16))) for key in keys]
        into = bytearray(MIB)
        there = [store.read(key, memoryview(into)) and into == key * (MIB // 16) for key in keys]
        store.close()
    assert taken[0]
    assert not there[0]
    assert 0 < sum(there) <= 16
    assert all(written or not found for written, found in zip(taken, there, strict=True))


def test_two_engines_do_not_disturb_each_other(where):
    first, second = engine_of(6, MooncakeStore(where)), engine_of(6, MooncakeStore(where))
    for seed in range(1, 4):
        generate(first, seed)
        generate(second, seed)
    assert generate(first, 1).output == generate(second, 1).output
    first.close()
    second.close()


def test_without_a_master_the_cure_is_named():
    program()
    rpc, http = free_ports(2)
    with pytest.raises(KvdoctorError) as caught:
        MooncakeStore(Mooncake(f"127.0.0.1:{rpc}", f"http://127.0.0.1:{http}/metadata"))
    assert "mooncake_master" in caught.value.hint


@pytest.mark.parametrize("address", ["", "127.0.0.1", "127.0.0.1:x", ":1"])
def test_what_is_no_address_is_said(address):
    program()
    with pytest.raises(KvdoctorError, match="no HOST:PORT"):
        MooncakeStore(Mooncake(address, "http://127.0.0.1:1/metadata"))
