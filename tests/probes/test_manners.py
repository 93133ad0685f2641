"""What may be taken, read from captured files of a machine and its cgroups."""

from __future__ import annotations

import os

import pytest

from kvdoctor.errors import Unavailable
from kvdoctor.probes import manners

GIB = 2**30


@pytest.fixture
def machine(tmp_path):
    """A machine with 8 GiB available whose process is in /kubepods/pod of the unified hierarchy."""

    def write(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    write("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable:    8388608 kB\n")
    write("proc/self/cgroup", "0::/kubepods/pod\n")
    return str(tmp_path), write


def limited(write, size, used, cache=0, folder="kubepods/pod"):
    base = f"sys/fs/cgroup/{folder}"
    write(f"{base}/memory.max", f"{size}\n")
    write(f"{base}/memory.current", f"{used}\n")
    write(f"{base}/memory.stat", f"anon 1\ninactive_file {cache}\n")


def test_without_limits_the_machine_decides(machine):
    root, _ = machine
    assert manners.cgroup_headroom(root) is None
    manners.require_memory(7 * GIB, "it", root)
    with pytest.raises(
        Unavailable, match=r"needs 7,680 MiB of memory and 512 MiB beside it, and 8,192 MiB are free"
    ):
        manners.require_memory(int(7.5 * GIB) + 1, "it", root)


def test_a_cgroup_without_headroom_is_refused_with_its_cure(machine):
    root, write = machine
    limited(write, 2 * GIB, 2 * GIB - 2**20)
    with pytest.raises(Unavailable, match="this cgroup has 1 MiB left to its limit") as refused:
        manners.require_memory(GIB, "the probe", root)
    assert "memory.max" in refused.value.cure


def test_idle_page_cache_of_the_cgroup_counts_as_free(machine):
    root, write = machine
    limited(write, 4 * GIB, 4 * GIB, cache=3 * GIB)
    assert manners.cgroup_headroom(root) == 3 * GIB
    assert manners.room(root) == int(manners.SHARE * (3 * GIB - manners.MARGIN))
    manners.require_memory(2 * GIB, "the probe", root)
    with pytest.raises(Unavailable, match="this cgroup has 3,072 MiB left"):
        manners.require_memory(3 * GIB, "the probe", root)


def test_the_tightest_cgroup_above_counts(machine):
    root, write = machine
    limited(write, 6 * GIB, GIB)
    limited(write, 3 * GIB, 2 * GIB, folder="kubepods")
    assert manners.cgroup_headroom(root) == GIB


def test_no_more_processors_than_the_quota_pays_for(machine):
    root, write = machine
    write("sys/fs/cgroup/kubepods/pod/cpu.max", "150000 100000\n")
    assert len(manners.processors(root)) == 1
    write("sys/fs/cgroup/kubepods/pod/cpu.max", "max 100000\n")
    assert manners.processors(root) == tuple(sorted(os.sched_getaffinity(0)))


def test_the_last_level_caches_of_all_sockets_are_added_once_each(machine):
    root, write = machine
    for cpu, shared in enumerate(("0-1", "0-1", "2-3", "2-3")):
        base = f"sys/devices/system/cpu/cpu{cpu}/cache"
        for level, size, kind, who in (
            (1, 32, "Data", cpu),
            (2, 1024, "Unified", cpu),
            (3, 32768, "Unified", shared),
        ):
            for name, text in (
                ("level", level),
                ("size", f"{size}K"),
                ("type", kind),
                ("shared_cpu_list", who),
            ):
                write(f"{base}/index{level}/{name}", f"{text}\n")
        write(f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", f"{cpu // 2}\n")
    assert manners.last_level_cache(root) == 64 * 2**20
    assert manners.sockets(root) == 2


def test_a_thread_is_kept_on_the_processors_of_its_node(machine):
    root, write = machine
    write("sys/devices/system/node/node0/cpulist", "0-1,4\n")
    write("sys/devices/system/node/node1/cpulist", "2-3\n")
    assert manners.node_processors((0, 2, 4), root) == (frozenset({0, 4}), frozenset({2}), frozenset({0, 4}))


def test_without_nodes_every_processor_will_do(machine):
    assert manners.node_processors((0, 1), machine[0]) == (frozenset({0, 1}),) * 2
