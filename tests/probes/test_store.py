"""KV-sized objects through a real Mooncake store, by the network probe."""

from __future__ import annotations

import pytest
from mooncakes import free_ports, master, program

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.probes import network, store
from kvdoctor.reference.mooncake import MooncakeStore

KIB, MIB = 2**10, 2**20


def test_without_a_store_that_is_named_the_option_is_named():
    with pytest.raises(Unavailable) as caught:
        store.rows("", ())
    assert "--mooncake" in caught.value.cure


def test_objects_go_in_and_out_and_none_stays(tmp_path, monkeypatch):
    keys: list[bytes] = []
    objects = store._objects

    def watched(write, read, drop, size, pace):
        return objects(lambda key, data: (keys.append(key), write(key, data))[1], read, drop, size, pace)

    monkeypatch.setattr(store, "_objects", watched)
    with master(tmp_path) as where:
        served = MooncakeStore(where)
        found = store.rows(f"{where.master},{where.metadata}", (64 * KIB, MIB))
        assert len(keys) == 2 * store.OBJECTS
        assert not any(
            served.read(key, memoryview(bytearray(size))) for key in keys for size in (64 * KIB, MIB)
        )
        served.close()
    assert [(row.op, row.block_bytes) for row in found] == [
        ("store put", 64 * KIB),
        ("store get", 64 * KIB),
        ("store put", MIB),
        ("store get", MIB),
    ]
    assert all(len(row.repeats) == len(row.latency_s) == store.OBJECTS for row in found)
    assert all(rate == size / each for row in found for size in [row.block_bytes]
               for rate, each in zip(row.repeats, row.latency_s, strict=True))  # fmt: skip


def test_a_store_that_is_not_there_is_a_reason_at_once():
    program()
    rpc, http = free_ports(2)
    with pytest.raises(Unavailable, match="no Mooncake store listens"):
        store.rows(f"127.0.0.1:{rpc},http://127.0.0.1:{http}/metadata", ())


def test_a_store_where_nobody_brings_memory_has_no_room_and_gets_none_of_ours(tmp_path):
    with master(tmp_path) as where, pytest.raises(Unavailable, match="no room"):
        store.rows(f"{where.master},{where.metadata}", ())


@pytest.mark.parametrize(
    ("sizes", "expected"), [((), 64 * MIB), ((KIB,), 64 * MIB), ((32 * MIB,), 128 * MIB)]
)
def test_the_footprint_counts_the_clients_buffer(sizes, expected):
    plain, named = (network.footprint(network.Options(blocks=sizes, mooncake=name)) for name in ("", "a:1,b"))
    assert named.host_bytes - plain.host_bytes == expected


def test_an_object_that_comes_back_changed_is_said():
    def read(key: bytes, into: memoryview) -> bool:
        into[:1] = b"\0" if into[:1] != b"\0" else b"\1"
        return True

    with pytest.raises(KvdoctorError, match="changed"):
        store._objects(lambda key, data: True, read, lambda key: None, 64 * KIB)
