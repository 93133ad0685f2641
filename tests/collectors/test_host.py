"""The places of a family: all of them, each failing alone, and our manners towards the engine."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
from fakes import FakeClock
from hosts import ENGINE, PID, process, write

from kvdoctor.collectors import host
from kvdoctor.collectors.host import HEADROOM_BYTES, headroom, host_places, settle
from kvdoctor.errors import Unavailable
from kvdoctor.record import record
from kvdoctor.target.family import Cgroup, Family


def family(root, *, path: str = "/pod", folder: str = "") -> Family:
    return Family("vllm", PID, (ENGINE,), cgroups=(Cgroup((), path, folder),))


def test_each_place_fails_alone_and_says_why(tmp_path):
    proc = process(tmp_path)
    told: dict[str, str] = {}
    for place in host_places(family(tmp_path), stacks=False, proc=proc, sys=str(tmp_path)):
        try:
            told[place.name] = "read" if place.read().text else ""
        except Unavailable as failure:
            told[place.name] = failure.reason
    assert told.pop("processes") == "read"
    assert told.pop("nvml")  # its reason, or a page where the tests run on a host with cards
    assert set(told) == {"cgroup", "machine", "disks", "network"}
    assert "read" not in told.values()
    assert all(told.values())


def test_every_source_says_whose_it_is(tmp_path):
    places = host_places(family(tmp_path), url="http://h:8000/metrics", stacks=False, proc=process(tmp_path))
    about = [json.loads(place.documents()["family"]) for place in places]
    assert about == [{"root": PID, "engine": "vllm", "url": "http://h:8000/metrics"}] * len(places)


def test_when_its_processes_started_is_told_in_unix_seconds(tmp_path, monkeypatch):
    hertz = os.sysconf("SC_CLK_TCK")
    root, child = (
        replace(ENGINE, start_ticks=40 * hertz),
        replace(ENGINE, pid=PID + 1, start_ticks=90 * hertz),
    )
    proc = process(tmp_path)
    write(tmp_path, {"proc/uptime": "100.00 50.00\n"})
    monkeypatch.setattr(host.time, "time", lambda: 1_000_000.0)
    places = host_places(Family("vllm", PID, (root, child)), stacks=False, proc=proc, sys=str(tmp_path))
    assert json.loads(places[0].documents()["family"])["started"] == [999_940.0, 999_990.0]


def shared(root, *, limit: str, used: int, cpu: str = "max 100000", inactive: int = 0):
    write(
        root,
        {
            "cg/cgroup.procs": "",
            "cg/memory.max": limit,
            "cg/memory.current": str(used),
            "cg/memory.stat": f"anon 1\ninactive_file {inactive}\n",
            "cg/cpu.max": cpu,
            "proc/self/cgroup": "0::/pod\n",
        },
    )
    return family(root, folder=str(root / "cg"))


@pytest.mark.parametrize(("left", "refused"), [(HEADROOM_BYTES - 1, True), (HEADROOM_BYTES, False)])
def test_no_py_spy_is_started_in_a_shared_cgroup_that_is_nearly_full(tmp_path, left, refused):
    shape = shared(tmp_path, limit=str(2**33), used=2**33 - left)
    assert bool(headroom(shape, proc=str(tmp_path / "proc"))) is refused


def test_page_cache_that_can_be_dropped_counts_as_room(tmp_path):
    shape = shared(tmp_path, limit=str(2**33), used=2**33, inactive=HEADROOM_BYTES)
    assert headroom(shape, proc=str(tmp_path / "proc")) is None


@pytest.mark.parametrize(("quota", "refused"), [("99000 100000", True), ("100000 100000", False)])
def test_no_py_spy_is_started_under_a_shared_quota_of_less_than_a_cpu(tmp_path, quota, refused):
    shape = shared(tmp_path, limit="max", used=1, cpu=quota)
    assert bool(headroom(shape, proc=str(tmp_path / "proc"))) is refused


def test_another_cgroup_than_ours_is_not_our_business(tmp_path):
    shape = shared(tmp_path, limit=str(2**30), used=2**30)
    write(tmp_path, {"proc/self/cgroup": "0::/elsewhere\n"})
    assert headroom(shape, proc=str(tmp_path / "proc")) is None


def test_a_withheld_place_becomes_a_gap_with_its_cure(tmp_path):
    shape = shared(tmp_path, limit=str(2**30), used=2**30)
    places = host_places(shape, proc=process(tmp_path), sys=str(tmp_path))
    recording = record(places[-1:], seconds=1.0, interval_s=1.0, clock=FakeClock())
    assert [(gap.source, "debug container" in gap.cure) for gap in recording.gaps] == [("stacks", True)]


@pytest.mark.parametrize(("nice", "more"), [(0, 10), (5, 5), (15, 0)])
def test_we_become_the_least_important_process(tmp_path, monkeypatch, nice, more):
    raised: list[int] = []
    monkeypatch.setattr(os, "nice", lambda by: raised.append(by) or nice)
    write(tmp_path, {"self/oom_score_adj": "0"})
    assert settle(proc=str(tmp_path)) == ()
    assert (raised[-1], (tmp_path / "self/oom_score_adj").read_text()) == (more, str(host.OOM_SCORE))


def test_an_oom_score_that_cannot_be_set_is_a_gap(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "nice", lambda by: 10)
    assert len(settle(proc=str(tmp_path / "missing"))) == 1
