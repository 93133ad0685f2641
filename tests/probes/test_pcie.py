"""The arithmetic of the PCIe probe over a card that is a table: t = start + bytes / rate."""

from __future__ import annotations

import ctypes

import pytest

from kvdoctor.errors import Unavailable
from kvdoctor.probes import cuda, manners, pcie
from kvdoctor.probes.batchcopy import Attributes, BatchCopy
from kvdoctor.probes.pcie import Options
from kvdoctor.probes.timing import (
    ACTIVE_S,
    BURST_S,
    IDLE_FACTOR,
    SHARED_REPEATS,
    SHARED_WARM,
    Ceiling,
    ImpossibleRate,
    Pace,
)

MIB = 2**20
LINK, START = 50e9, 5e-6


class Table:
    """A Gen5 card: 50 GB/s pinned, a fifth of it pageable, 5 us for each piece, 0.5 us batched."""

    name = "a table"

    def __init__(self, *, ceiling=63e9, peers=()):
        self.ceiling, self._peers = Ceiling(ceiling, "Gen5 x16"), peers

    def copy(self, direction, size, *, pinned):
        return START + size / (LINK if pinned else LINK / 5)

    def both(self, size):
        return START + size / (0.8 * LINK)

    def scattered(self, direction, block, pieces, method):
        each = {"one by one": START, "batched": 0.5e-6, "gathered": 0.0}[method]
        return START + max(pieces * each, block * pieces / LINK)

    def methods(self):
        return ("one by one", "gathered", "batched")

    def peers(self):
        return iter(self._peers)

    def about(self):
        return {"link_lanes_during_copy": 16}


def measured(card, **options):
    return pcie.measured(card, 512 * MIB, Options(**options), lambda doing, share: None)


def test_every_way_is_measured():
    found = measured(Table(peers=[("cuda:0 to cuda:1", 1e-3, 256 * MIB)]))
    ops = {row["op"] for row in found["rows"]}
    assert ops == {
        "pinned",
        "pageable",
        "both ways",
        "blocks one by one",
        "blocks gathered",
        "blocks batched",
        "peer",
    }
    assert found["conditions"]["link_lanes_during_copy"] == 16
    large = max(
        row["bytes_per_s"] for row in found["rows"] if row["op"] == "pinned" and row["direction"] == "d2h"
    )
    assert large == pytest.approx(LINK, rel=0.01)


def test_both_ways_count_the_bytes_of_both():
    row = next(row for row in measured(Table())["rows"] if row["op"] == "both ways")
    assert row["bytes_per_s"] == pytest.approx(1.6 * LINK, rel=0.01)


def test_the_knee_is_where_pieces_stop_being_free():
    """5 us at 50 GB/s are 250 KB: 256 KiB pieces are free one by one, 64 KiB pieces are not."""
    knees = measured(Table())["knee_bytes"]
    assert knees["h2d, one by one"] == 256 * 1024
    assert knees["h2d, batched"] == 32 * 1024
    assert knees["h2d, gathered"] == 4 * 1024


def test_the_targets_own_block_is_among_the_blocks():
    sizes = {row["block_bytes"] for row in measured(Table(), blocks=(10_240,))["rows"]}
    assert 10_240 in sizes


def test_a_rate_above_the_link_is_an_internal_error():
    with pytest.raises(ImpossibleRate, match="Gen5 x16"):
        measured(Table(ceiling=40e9))


def test_without_a_gpu_it_is_refused_in_a_sentence(monkeypatch):
    monkeypatch.setattr(cuda, "missing", lambda: Unavailable("there is no GPU on this machine", "elsewhere"))
    with pytest.raises(Unavailable, match="need one: there is no GPU on this machine"):
        pcie.run(Options(), lambda doing, share: None)


def test_pinned_memory_is_a_small_share_of_what_is_available(monkeypatch):
    monkeypatch.setattr(manners, "available_memory", lambda root="/": 8 * 2**30)
    monkeypatch.setattr(manners, "cgroup_headroom", lambda root="/": None)
    largest = pcie._largest(Options())
    assert 2 * largest <= 0.05 * 8 * 2**30
    assert largest & (largest - 1) == 0


def test_the_attributes_of_a_batched_copy_are_laid_out_as_the_driver_has_them():
    """24 bytes: access order at 0, source hint at 4, destination hint at 12, flags at 20."""
    assert ctypes.sizeof(Attributes) == 24
    assert (Attributes.source_hint.offset, Attributes.target_hint.offset, Attributes.flags.offset) == (
        4,
        12,
        20,
    )


@pytest.mark.parametrize(("has_index", "count"), [(True, 9), (False, 8)])
def test_each_form_of_the_batched_copy_gets_its_own_number_of_arguments(has_index, count):
    seen = []

    def call(*arguments):
        seen.append(arguments)
        return 0

    BatchCopy(call, has_index).submit([1, 2], [3, 4], 64, 99)
    assert len(seen[0]) == count
    assert seen[0][-1].value == 99
    assert list(seen[0][0]) == [1, 2]
    assert list(seen[0][2]) == [64, 64]


def test_without_a_driver_there_is_no_batched_copy():
    assert BatchCopy.load("libnothing-of-that-name.so") is None


def test_beside_a_service_bursts_are_short_few_and_followed_by_rests(monkeypatch):
    slept = []
    monkeypatch.setattr(pcie, "Pace", lambda shared: Pace(shared, sleep=slept.append))
    options = Options(shared=True, blocks=(8192,))
    found = pcie.measured(Table(), pcie._largest(options), options, lambda doing, share: None)
    about = found["conditions"]
    assert about["longest_burst_seconds"] <= BURST_S
    assert about["active_seconds"] <= ACTIVE_S + about["longest_burst_seconds"] * (
        SHARED_WARM + SHARED_REPEATS
    )
    assert sum(slept) == pytest.approx(IDLE_FACTOR * about["active_seconds"])
    assert max(row["block_bytes"] for row in found["rows"]) <= 64 * MIB
    assert {row["block_bytes"] for row in found["rows"] if "blocks" in row["op"]} == {8192, 32768, 2 * MIB}
