"""System memory measured for real, small; and what the probe calls it."""

from __future__ import annotations

import pytest

from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.probes import cuda, hbm, manners, timing
from kvdoctor.probes.hbm import Options
from kvdoctor.probes.sysmem import SHARED_STEP, TILE, Threads
from kvdoctor.probes.timing import IDLE_FACTOR, Ceiling, ImpossibleRate, Pace

MIB = 2**20


def quiet(doing, share):
    """Say nothing."""


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(manners, "MARGIN", 0)
    monkeypatch.setattr(manners, "last_level_cache", lambda root="/": MIB)
    monkeypatch.setattr(hbm, "LEAST", TILE)
    monkeypatch.setattr(hbm, "LEAST_SHARED", TILE)


def test_without_a_gpu_it_measures_system_memory_and_says_so(small):
    found = hbm.run(Options(device="cpu"), quiet)
    assert (found["measures"], found["device"]) == ("system memory", "CPU")
    count = len(manners.processors())
    assert {(row["op"], row["conditions"]["threads"]) for row in found["rows"]} == {
        (op, threads) for op in ("read", "copy", "write") for threads in {1, count}
    }
    reads = [row["bytes_per_s"] for row in found["rows"] if row["op"] == "read"]
    assert found["achieved_bytes_per_s"] == max(reads)


def test_buffers_lie_beyond_the_last_level_cache(monkeypatch):
    monkeypatch.setattr(manners, "last_level_cache", lambda root="/": 512 * MIB)
    assert hbm.buffer_bytes(Options()) >= 4 * 512 * MIB


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("more", "refused"), [(1, True), (0, False)])
def test_a_buffer_of_less_than_four_caches_is_refused(monkeypatch, shared, more, refused):
    monkeypatch.setattr(manners, "MARGIN", 0)
    size = TILE * len(manners.processors())
    monkeypatch.setattr(manners, "last_level_cache", lambda root="/": size // 4 + more)
    asked = Options(size=size, device="cpu", shared=shared)
    if not refused:
        about = hbm.run(asked, quiet)["conditions"]
        assert about["buffer_bytes"] == 4 * about["last_level_cache_bytes"]
        assert about["possible_cache_reading"] is False
        return
    with pytest.raises(Unavailable, match="its rate would be partly theirs") as caught:
        hbm.run(asked, quiet)
    assert caught.value.cure.startswith("--size ")


def test_caches_that_are_not_known_take_the_larger_buffer_and_are_said(monkeypatch):
    monkeypatch.setattr(manners, "MARGIN", 0)
    monkeypatch.setattr(manners, "last_level_cache", lambda root="/": 0)
    assert hbm.buffer_bytes(Options(shared=True)) == hbm.buffer_bytes(Options()) >= hbm.LEAST
    monkeypatch.setattr(hbm, "LEAST", TILE)
    about = hbm.run(Options(device="cpu"), quiet)["conditions"]
    assert (about["last_level_cache_bytes"], about["possible_cache_reading"]) == (None, True)


def test_beside_a_service_the_bursts_go_over_four_caches_before_they_come_back(small, monkeypatch):
    monkeypatch.setattr(manners, "last_level_cache", lambda root="/": 8 * MIB)
    monkeypatch.setattr(hbm, "PIECE", 4 * MIB)
    monkeypatch.setattr(hbm, "Pace", lambda shared, **more: Pace(shared, lambda seconds: None, **more))
    for row in hbm.run(Options(device="cpu", shared=True), quiet)["rows"]:
        assert row["conditions"]["of_bytes"] >= 4 * 8 * MIB > row["block_bytes"]


def test_a_rate_that_no_socket_has_is_an_internal_error(small, monkeypatch):
    monkeypatch.setattr(hbm, "SOCKET_CEILING", 1e6)
    with pytest.raises(ImpossibleRate, match="internal error"):
        hbm.run(Options(device="cpu"), quiet)


def test_too_little_memory_is_said(monkeypatch):
    monkeypatch.setattr(manners, "available_memory", lambda root="/": 100 * MIB)
    with pytest.raises(Unavailable, match=r"the memory probe needs .* 100 MiB are free"):
        hbm.run(Options(device="cpu"), quiet)


def test_a_gpu_that_is_asked_for_and_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(cuda, "missing", lambda: Unavailable("there is no GPU on this machine", "x"))
    with pytest.raises(Unavailable, match="no GPU"):
        hbm.run(Options(device="cuda"), quiet)


def test_torch_without_cuda_is_a_clear_line(tmp_path):
    pytest.importorskip("torch")
    found = cuda.missing((str(tmp_path),))
    if found is None:
        pytest.skip("this torch has a GPU")
    assert "cannot use a GPU here" in found.reason
    assert "--python" in found.cure


def test_no_torch_is_a_clear_line(tmp_path, monkeypatch):
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: None)
    found = cuda.missing((str(tmp_path),))
    assert found is not None
    assert "no torch" in found.reason


def test_beside_a_service_it_moves_pieces_and_rests_between_them(small, monkeypatch):
    slept = []
    monkeypatch.setattr(hbm, "Pace", lambda shared, **more: Pace(shared, slept.append, **more))
    monkeypatch.setattr(hbm, "PIECE", MIB)
    found = hbm.run(Options(device="cpu", shared=True), quiet)
    about, count = found["conditions"], len(manners.processors())
    assert {row["conditions"]["threads"] for row in found["rows"]} == {count}
    assert {row["block_bytes"] for row in found["rows"]} == {count * MIB}
    assert sum(slept) == pytest.approx(IDLE_FACTOR * about["active_seconds"])
    assert about["shared_with_others"] is True


def test_its_buffers_are_filled_in_small_steps_with_rests():
    slept = []
    pace = Pace(shared=True, sleep=slept.append)
    threads = Threads(manners.processors()[:1], TILE, piece=MIB, pace=pace)
    assert len(slept) == 1 + TILE // SHARED_STEP
    threads.read()
    for place in range(0, TILE, SHARED_STEP):
        assert threads._slices[0].source[place] != 0, "every step was filled"
    threads.close()


def test_when_the_second_is_used_up_the_rest_is_left(small, monkeypatch):
    monkeypatch.setattr(timing, "ACTIVE_S", 0.0)
    monkeypatch.setattr(hbm, "Pace", lambda shared, **more: Pace(shared, lambda seconds: None, **more))
    found = hbm.run(Options(device="cpu", shared=True), quiet)
    assert [row["op"] for row in found["rows"]] == ["read"]


def test_how_much_of_the_time_we_had_the_processors_is_told(small):
    shares = [row["conditions"]["on_processor"] for row in hbm.run(Options(device="cpu"), quiet)["rows"]]
    assert all(0 < share <= 1 for share in shares)
    seen = Pace(on_cpu=True)
    threads = Threads(manners.processors()[:1], TILE)
    row = hbm._row("read", lambda: threads.read() + 1.0, threads, Ceiling(None, ""), seen, 1, {})
    assert row.conditions["on_processor"] < 0.5, "it waited a second each time"
    threads.close()


def test_pieces_go_over_the_whole_slice_and_begin_again():
    threads = Threads(manners.processors()[:1], TILE, piece=TILE // 2)
    places = []
    for _ in range(3):
        threads.copy()
        threads.verify()
        places.append(threads._before())
    assert places == [0, TILE // 2, 0]
    assert threads.payload == TILE // 2
    threads.close()


def test_one_operation_passes_so_often_that_starting_threads_hardly_counts():
    threads = Threads(manners.processors()[:1], TILE)
    threads.fill_time(100 * threads.read())
    assert threads.passes > 1
    threads.close()


def test_a_copy_that_arrives_changed_is_seen():
    threads = Threads(manners.processors()[:1], TILE)
    threads.copy()
    threads.verify()
    threads.write()
    with pytest.raises(KvdoctorError, match="arrived changed"):
        threads.verify()
    threads.close()


def test_reading_reads_every_byte():
    threads = Threads(manners.processors()[:1], TILE)
    threads.read()
    threads._slices[0].source[TILE - 1] = 0
    with pytest.raises(KvdoctorError, match="never written"):
        threads.read()
    threads.close()
