"""The disk probe on a real folder, and every way in which a folder is not fit for it."""

from __future__ import annotations

import os

import pytest

from kvdoctor.errors import Unavailable
from kvdoctor.probes import filesystem, manners, nvme, nvme_session
from kvdoctor.probes.blockio import File
from kvdoctor.probes.nvme import Options
from kvdoctor.probes.timing import IDLE_FACTOR, Pace

MIB = 2**20


def quiet(doing, share):
    """Say nothing."""


@pytest.fixture
def quick(monkeypatch):
    for module in (nvme, nvme_session):
        monkeypatch.setattr(module, "LEAST_SIZE", 4 * MIB)
    monkeypatch.setattr(nvme_session, "OPERATION_S", 0.3)
    monkeypatch.setattr(manners, "MARGIN", 0)


@pytest.fixture
def done(quick, tmp_path):
    found = nvme.run(Options(str(tmp_path), 4 * MIB, blocks=(10_000,), depths=(1, 4)), quiet)
    assert list(tmp_path.iterdir()) == []
    return found


def test_it_reads_and_writes_in_every_way(done):
    rows = {
        (row["op"], row["block_bytes"], row["queue_depth"], row["conditions"]["path"]) for row in done["rows"]
    }
    path = done["conditions"]["path"]
    wanted = {
        ("sequential write", MIB, 1, path),
        *(("random read", block, depth, path) for block in (12288, MIB) for depth in (1, 4)),
        *(("sequential read", block, 1, path) for block in (12288, MIB)),
        ("random write", MIB, 4, path),
        ("sequential read", MIB, 1, "page cache, first reading"),
        ("sequential read", MIB, 1, "page cache, second reading: memory"),
    }
    assert rows == wanted


def test_every_row_has_latencies_and_small_blocks_are_lower_bounds(done):
    for row in done["rows"]:
        assert 0 < row["latency_seconds"]["p50"] <= row["latency_seconds"]["p99"]
        assert ("bound" in row["conditions"]) == (row["block_bytes"] < 65536)


def test_where_direct_access_is_refused_the_fall_back_is_named(quick, tmp_path, monkeypatch):
    real = filesystem.open_unlinked

    def refusing(folder, flags=0):
        if flags & os.O_DIRECT:
            raise Unavailable(filesystem.NO_DIRECT)
        return real(folder)

    monkeypatch.setattr(filesystem, "open_unlinked", refusing)
    found = nvme.run(Options(str(tmp_path), 4 * MIB, depths=(1,)), quiet)
    if found["conditions"]["file_system"] != "tmpfs":
        assert found["conditions"]["path"].startswith("page cache, emptied")


def test_memory_is_called_memory(quick):
    if not os.path.isdir("/dev/shm") or filesystem.file_system("/dev/shm").kind != "tmpfs":
        pytest.skip("needs a tmpfs at /dev/shm")
    found = nvme.run(Options("/dev/shm", 4 * MIB, depths=(1,)), quiet)
    assert "memory" in found["measures"]
    assert found["conditions"]["path"] == "memory"


def test_no_folder_no_probe(tmp_path):
    with pytest.raises(Unavailable, match="is not a folder"):
        nvme.run(Options(str(tmp_path / "absent")), quiet)


def test_a_folder_behind_a_closed_one_is_said_to_be_closed(tmp_path, monkeypatch):
    def closed(path):
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(nvme.os, "stat", closed)
    with pytest.raises(Unavailable, match="cannot be looked at: Permission denied"):
        nvme._check_folder(str(tmp_path))


def test_a_disk_that_fills_up_meanwhile_is_a_clear_line(quick, tmp_path, monkeypatch):
    def full(self, block, pace):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(File, "fill", full)
    with pytest.raises(Unavailable, match="took no more data: No space left on device"):
        nvme.run(Options(str(tmp_path), 4 * MIB), quiet)
    assert list(tmp_path.iterdir()) == []


def test_data_that_is_not_on_the_disk_is_refused(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(filesystem, "written_bytes", lambda fd, size: size // 2)
    with pytest.raises(Unavailable, match="sparse or preallocated"):
        nvme.run(Options(str(tmp_path), 4 * MIB), quiet)


def test_too_little_memory_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(manners, "available_memory", lambda root="/": 100 * MIB)
    with pytest.raises(Unavailable, match="100 MiB are free"):
        nvme.run(Options(str(tmp_path)), quiet)


def test_beside_a_service_it_reads_in_short_bursts_with_rests_and_writes_nothing_over(
    quick, tmp_path, monkeypatch
):
    slept = []
    monkeypatch.setattr(nvme_session, "Pace", lambda shared: Pace(shared, sleep=slept.append))
    found = nvme.run(Options(str(tmp_path), 8 * MIB, shared=True), quiet)
    about = found["conditions"]
    assert {row["op"] for row in found["rows"]} == {"sequential write", "random read", "sequential read"}
    assert {row["queue_depth"] for row in found["rows"]} == {1, 16}
    assert sum(slept) == pytest.approx(IDLE_FACTOR * about["active_seconds"])
    assert "nothing is written over" in found["gaps"][0]["reason"]


def test_the_footprint_is_what_is_really_written(tmp_path):
    assert nvme.footprint(Options(str(tmp_path), MIB)).disk_bytes == nvme_session.LEAST_SIZE
    assert nvme.footprint(Options(str(tmp_path), shared=True)).disk_bytes == nvme.SHARED_SIZE


def test_the_footprint_is_the_file_and_not_more():
    cost = nvme.footprint(Options(size=64 * MIB))
    assert cost.disk_bytes == 64 * MIB
    assert cost.moved_bytes > cost.disk_bytes
