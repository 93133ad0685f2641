"""Disks on the path, and memory in swap: reads and waits together, never one alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hosts import PID, view
from loads import case

from kvdoctor.causes import capacity, hostdisk, offload
from kvdoctor.hostview import Disk, Thread
from kvdoctor.model import Finding, Verdict

STEADY = case()
VDA = Disk("vda", ("kv",), 5e8, 0.0, 0.9, 0.004)


def blocked(share: float) -> tuple[Thread, ...]:
    return (Thread(PID, "loop", "main", 0.2, 0.0, 100.0, 1.0, share),)


def reading(rate: float | None, share: float) -> Finding:
    host = view(read=rate, threads=blocked(share), disks=(VDA,))
    (found,) = offload.check(replace(STEADY, host=host))
    return found


@pytest.mark.parametrize(
    ("rate", "share", "verdict"),
    [
        (hostdisk.READS, hostdisk.BLOCKED, Verdict.LIKELY),
        (hostdisk.READS - 1, 1.0, Verdict.NO_DATA),
        (1e9, hostdisk.BLOCKED - 0.01, Verdict.POSSIBLE),
        (None, 1.0, Verdict.NO_DATA),
    ],
)
def test_a_disk_is_on_the_path_when_the_engine_reads_and_waits(rate, share, verdict):
    found = reading(rate, share)
    assert found.verdict is verdict


def test_the_disk_and_its_rate_are_the_evidence():
    names = {line.name: line.value for line in reading(5e8, 0.5).evidence}
    assert names["the engine reads from devices"] == 5e8
    assert names["vda (kv): busy"] == 0.9


@pytest.mark.parametrize(
    ("swapped", "faults", "swap_in", "stall", "verdict"),
    [
        (hostdisk.SWAPPED, hostdisk.FAULTS, hostdisk.FAULTS, 0.2, Verdict.LIKELY),
        (hostdisk.SWAPPED - 1, 1e3, 1e3, 0.2, Verdict.RULED_OUT),
        (1e9, hostdisk.FAULTS - 1, 1e3, 0.2, Verdict.RULED_OUT),
        (1e9, 1e3, hostdisk.FAULTS - 1, 0.2, Verdict.RULED_OUT),
        (1e9, 1e3, 1e3, None, Verdict.POSSIBLE),
    ],
)
def test_swap_needs_memory_there_and_faults_that_fetch_it(swapped, faults, swap_in, stall, verdict):
    host = view(swapped=swapped, faults=faults, swap_in=swap_in, memory_stall=stall)
    assert capacity.swap(replace(STEADY, host=host)).verdict is verdict


def test_without_a_host_swap_is_what_the_engine_says():
    assert capacity.swap(STEADY).verdict is Verdict.RULED_OUT
