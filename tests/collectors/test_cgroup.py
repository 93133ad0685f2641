"""Cgroups: v2 and v1, up to the root; and the headroom that we leave the engine."""

from __future__ import annotations

import pytest
from hosts import values, write

from kvdoctor.collectors.cgroup import Cgroups, levels, limits
from kvdoctor.errors import Refused
from kvdoctor.target.family import Cgroup

# cgroup v2, the text of Linux 6.18; the numbers are a container's with two CPUs of quota
V2 = {
    "kubepods/pod1/cgroup.procs": "",
    "kubepods/pod1/cpu.max": "200000 100000\n",
    "kubepods/pod1/cpu.stat": "usage_usec 5\nnr_periods 100\nnr_throttled 40\nthrottled_usec 2500000\n",
    "kubepods/pod1/memory.max": "1073741824\n",
    "kubepods/pod1/memory.current": "1000000000\n",
    "kubepods/pod1/memory.events": "low 0\nhigh 0\nmax 7\noom 0\noom_kill 1\noom_group_kill 0\n",
    "kubepods/pod1/io.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 total=500000\n",
    "kubepods/pod1/app/cgroup.procs": "1\n",
    "kubepods/pod1/app/cpu.max": "max 100000\n",
    "kubepods/pod1/app/cpu.stat": "usage_usec 5\n",
    "kubepods/pod1/app/memory.max": "max\n",
    "kubepods/pod1/app/memory.current": "900000000\n",
    "kubepods/cgroup.procs": "",
    "cgroup.procs": "",
}
# cgroup v1, captured on Linux 6.18.44: a loop of 2 s under a quota of 0.2 CPUs
V1 = {
    "probe/cgroup.procs": "1\n",
    "probe/cpu.cfs_quota_us": "20000\n",
    "probe/cpu.cfs_period_us": "100000\n",
    "probe/cpu.stat": "nr_periods 22\nnr_throttled 20\nthrottled_time 1164520070\nnr_bursts 0\nburst_time 0\n",
    "cgroup.procs": "",
    "cpu.cfs_quota_us": "-1\n",
    "cpu.cfs_period_us": "100000\n",
}


def test_v2_gives_the_pods_limit_for_a_container_without_one(tmp_path):
    write(tmp_path, V2)
    cgroup = Cgroup((), "/kubepods/pod1/app", str(tmp_path / "kubepods/pod1/app"))
    found = values(Cgroups((cgroup,)).read().text)
    pod = 'cgroup="/kubepods/pod1"'
    assert found[f"host_cgroup_quota_cpus{{{pod}}}"] == 2
    assert found[f"host_cgroup_throttled_seconds_total{{{pod}}}"] == 2.5
    assert found[f"host_cgroup_throttled_periods_total{{{pod}}}"] == 40
    assert found[f"host_cgroup_memory_limit_bytes{{{pod}}}"] == 2**30
    assert found[f"host_cgroup_memory_limit_hits_total{{{pod}}}"] == 7
    assert found[f"host_cgroup_oom_kills_total{{{pod}}}"] == 1
    assert found[f'host_cgroup_pressure_seconds_total{{{pod},resource="io",kind="some"}}'] == 1.5
    assert found['host_cgroup_memory_bytes{cgroup="/kubepods/pod1/app"}'] == 9e8
    assert 'host_cgroup_memory_limit_bytes{cgroup="/kubepods/pod1/app"}' not in found


def test_v1_counts_throttled_time_in_nanoseconds(tmp_path):
    write(tmp_path, V1)
    found = values(Cgroups((Cgroup(("cpu",), "/probe", str(tmp_path / "probe")),)).read().text)
    assert found['host_cgroup_quota_cpus{cgroup="/probe"}'] == 0.2
    assert found['host_cgroup_throttled_seconds_total{cgroup="/probe"}'] == pytest.approx(1.16452007)
    assert found['host_cgroup_periods_total{cgroup="/probe"}'] == 22


def test_v1s_largest_number_is_no_memory_limit(tmp_path):
    write(tmp_path, {"memory.limit_in_bytes": "9223372036854771712\n", "memory.usage_in_bytes": "5\n"})
    assert limits(str(tmp_path)).memory is None


def test_levels_end_where_the_cgroups_end(tmp_path):
    write(tmp_path, V2)
    inner = str(tmp_path / "kubepods/pod1/app")
    assert [level.removeprefix(str(tmp_path)) for level in levels(inner)] == [
        "/kubepods/pod1/app", "/kubepods/pod1", "/kubepods", "",
    ]  # fmt: skip


def test_a_cgroup_that_is_not_visible_is_refused_with_a_cure():
    with pytest.raises(Refused) as refused:
        Cgroups((Cgroup((), "/kubepods/x", ""),)).read()
    assert "on the host" in refused.value.cure
