"""Tiers: blocks go down when evicted and come back bit for bit; rates, pins, files, the peer process."""

from __future__ import annotations

import os

import pytest

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.reference.bucket import TokenBucket
from kvdoctor.reference.mooncake import Mooncake, MooncakeStore
from kvdoctor.reference.remote import PeerProcess, RemoteStore
from kvdoctor.reference.stores import FileStore, HostStore
from kvdoctor.reference.tiers import Tier, Tiers

SIZE = 5000


def block(number: int) -> memoryview:
    return memoryview(bytes([number]) * SIZE)


@pytest.fixture
def peer():
    found = PeerProcess()
    yield found
    found.close()


def stores(tmp_path, peer):
    return [HostStore(), FileStore(str(tmp_path), block_bytes=SIZE), RemoteStore(peer.host, peer.port)]


def test_every_store_gives_back_what_it_took(tmp_path, peer):
    for store in stores(tmp_path, peer):
        into = bytearray(SIZE)
        for number in (1, 2, 1):
            store.write(bytes([number]), block(number))
        store.drop(b"\2")
        store.write(b"\3", block(3))
        assert store.read(b"\1", memoryview(into))
        assert into == bytes(block(1))
        assert store.read(b"\3", memoryview(into))
        assert into == bytes(block(3))
        assert not store.read(b"\2", memoryview(into))
        store.close()


def test_the_file_has_no_name_and_uses_a_dropped_slot_again(tmp_path):
    store = FileStore(str(tmp_path), block_bytes=SIZE)
    for number in range(9):
        store.write(bytes([number]), block(number))
        store.drop(bytes([number]))
    assert list(tmp_path.iterdir()) == []
    assert os.fstat(store._file).st_size == store.slot_bytes == 8192
    store.close()


def test_the_peer_ends_with_its_parent():
    found = PeerProcess()
    found.close()
    assert found._process.returncode == 0


def test_without_a_peer_the_cure_is_named():
    with pytest.raises(KvdoctorError) as caught:
        RemoteStore("127.0.0.1", 1)
    assert "kvdoctor.reference.peer" in caught.value.hint


def test_without_mooncake_the_package_is_named():
    try:
        import mooncake.store  # noqa: F401
    except ImportError:
        with pytest.raises(Unavailable) as caught:
            MooncakeStore(Mooncake("127.0.0.1:1", "http://127.0.0.1:1/metadata"))
        assert "mooncake-transfer-engine" in caught.value.cure
    else:
        pytest.skip("mooncake is installed")


def two_levels(first: int, second: int, **options: bool) -> Tiers:
    return Tiers([Tier(HostStore(), blocks=first), Tier(HostStore(), blocks=second)], **options)


def loaded(tiers: Tiers, *keys: bytes) -> list[bytes]:
    """The first byte of each block that arrives."""
    buffers = [bytearray(SIZE) for _ in keys]
    count = tiers.load(keys, lambda index: memoryview(buffers[index]))
    return [bytes(buffer[:1]) for buffer in buffers[:count]]


def test_the_oldest_moves_down_and_out_of_the_last_tier():
    tiers = two_levels(2, 1)
    for number in range(4):
        tiers.store(bytes([number]), block(number))
    assert [tiers.promise([bytes([number])]) for number in range(4)] == [0, 1, 1, 1]
    assert loaded(tiers, b"\1", b"\2", b"\3") == [b"\1", b"\2", b"\3"]
    near, far = (tier.traffic for tier in tiers.levels)
    assert (near.stored_bytes, far.stored_bytes) == (4 * SIZE, 2 * SIZE)
    assert (near.loaded_pieces, far.loaded_pieces, far.dropped_blocks) == (2, 1, 1)


def test_a_block_that_was_hit_far_away_comes_to_lie_near_when_it_is_evicted_again():
    tiers = two_levels(1, 2)
    tiers.store(b"\0", block(0))
    tiers.store(b"\1", block(1))
    assert tiers.holds(b"\0") is tiers.levels[1]
    tiers.store(b"\0", block(0))
    assert [tiers.holds(key) for key in (b"\0", b"\1")] == list(tiers.levels)


def test_a_promise_ends_at_the_first_gap():
    tiers = two_levels(4, 1)
    for number in (0, 1, 3):
        tiers.store(bytes([number]), block(number))
    assert tiers.promise([bytes([number]) for number in range(4)]) == 2


def test_a_promised_block_is_not_evicted_before_it_is_loaded():
    tiers = two_levels(1, 1)
    tiers.store(b"\0", block(0))
    assert tiers.promise([b"\0"]) == 1
    for number in range(1, 5):
        tiers.store(bytes([number]), block(number))
    assert loaded(tiers, b"\0") == [b"\0"]
    tiers.store(b"\5", block(5))
    tiers.store(b"\6", block(6))
    assert tiers.promise([b"\0"]) == 0


def test_without_pins_a_promise_is_broken_and_counted():
    tiers = two_levels(1, 1, pin_promises=False)
    tiers.store(b"\0", block(0))
    assert tiers.promise([b"\0"]) == 1
    for number in range(1, 5):
        tiers.store(bytes([number]), block(number))
    assert loaded(tiers, b"\0") == []
    assert tiers.levels[0].traffic.dropped_blocks == 1


def test_a_forgone_promise_leaves_no_pin():
    tiers = two_levels(1, 1)
    tiers.store(b"\0", block(0))
    tiers.promise([b"\0"])
    tiers.forgo([b"\0"])
    assert all(not tier.pins for tier in tiers.levels)


class Time:
    """A clock that sleeping moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_bucket_lets_its_rate_through_and_no_more():
    time = Time()
    bucket = TokenBucket(1000.0, clock=time.clock, sleep=time.sleep)
    for _ in range(10):
        bucket.take(500)
    assert time.now == pytest.approx(5.0)


def test_a_bucket_saves_no_more_than_its_burst():
    time = Time()
    bucket = TokenBucket(1000.0, burst=500.0, clock=time.clock, sleep=time.sleep)
    time.now = 100.0
    assert bucket.take(500) == 0.0
    assert bucket.take(500) == pytest.approx(0.5)


def test_the_wait_of_a_limited_tier_counts_as_its_time():
    time = Time()
    bucket = TokenBucket(1000.0, clock=time.clock, sleep=time.sleep)
    tiers = Tiers([Tier(HostStore(), blocks=2, limit=bucket)])
    tiers.store(b"\0", block(0))
    loaded(tiers, b"\0")
    traffic = tiers.levels[0].traffic
    assert traffic.stored_seconds >= 5.0
    assert traffic.loaded_seconds >= 5.0


def test_tiers_without_room_are_refused():
    with pytest.raises(KvdoctorError):
        Tiers([])


class Shared(HostStore):
    """A store that others use too: it may be full, and it may lose blocks by itself."""

    is_full = False

    def write(self, key: bytes, data: memoryview) -> bool:
        return not self.is_full and super().write(key, data)


def test_a_store_without_room_drops_the_block_and_promises_nothing():
    store = Shared()
    tiers = Tiers([Tier(store, blocks=4)])
    store.is_full = True
    tiers.store(b"\0", block(0))
    traffic = tiers.levels[0].traffic
    assert (tiers.promise([b"\0"]), traffic.stored_pieces, traffic.dropped_blocks) == (0, 0, 1)
    store.is_full = False
    tiers.store(b"\0", block(0))
    assert loaded(tiers, b"\0") == [b"\0"]


def test_what_a_store_lost_by_itself_is_promised_once_and_stored_again():
    store = Shared()
    tiers = Tiers([Tier(store, blocks=4)])
    tiers.store(b"\0", block(0))
    store.drop(b"\0")
    assert tiers.promise([b"\0"]) == 1
    assert loaded(tiers, b"\0") == []
    assert tiers.promise([b"\0"]) == 0
    tiers.store(b"\0", block(0))
    assert loaded(tiers, b"\0") == [b"\0"]


def test_what_a_near_store_lost_does_not_move_down():
    store = Shared()
    tiers = Tiers([Tier(store, blocks=1), Tier(HostStore(), blocks=4)])
    tiers.store(b"\0", block(0))
    store.drop(b"\0")
    tiers.store(b"\1", block(1))
    assert [tiers.holds(key) for key in (b"\0", b"\1")] == [None, tiers.levels[0]]
    assert tiers.levels[0].traffic.dropped_blocks == 1
