"""Disks: their counters, the mounts of model and KV files, and files that lie elsewhere."""

from __future__ import annotations

import pytest
from hosts import captured, values, write

from kvdoctor.collectors.disk import Disks
from kvdoctor.target.family import Mount

NVME = """259 0 nvme0n1 100 0 2000 500 10 0 80 40 0 300 540 0 0 0 0 0 0
259 1 nvme0n1p1 90 0 1900 480 9 0 70 30 0 290 510
"""


def tree(root, rows: str) -> dict[str, str]:
    write(root, {"proc/diskstats": rows, "sys/devices/nvme0n1/nvme0n1p1/partition": "1\n"})
    for link, target in (
        ("dev/block/259:1", "devices/nvme0n1/nvme0n1p1"),
        ("class/block/nvme0n1p1", "devices/nvme0n1/nvme0n1p1"),
        ("class/block/nvme0n1", "devices/nvme0n1"),
    ):
        path = root / "sys" / link
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(root / "sys" / target)
    return {"proc": str(root / "proc"), "sys": str(root / "sys")}


def test_a_mount_on_a_partition_is_counted_on_its_disk(tmp_path):
    mount = Mount("model", "/models", "/models", "259:1", "xfs", "/dev/nvme0n1p1")
    found = values(Disks((mount,), **tree(tmp_path, NVME)).read().text)
    assert found['host_mount{purpose="model",point="/models",fstype="xfs",disk="nvme0n1"}'] == 1
    assert found['host_disk_bytes_total{disk="nvme0n1",operation="read"}'] == 2000 * 512
    assert found['host_disk_in_flight_seconds_total{disk="nvme0n1",operation="read"}'] == 0.5
    assert found['host_disk_busy_seconds_total{disk="nvme0n1"}'] == 0.3
    assert not any("nvme0n1p1" in key for key in found)


def test_a_captured_table_gives_the_disk_that_is_used_and_no_loop_devices(tmp_path):
    found = values(Disks((), **tree(tmp_path, captured("diskstats"))).read().text)
    assert {key.split('disk="')[1].split('"')[0] for key in found} == {"vda"}


@pytest.mark.parametrize(
    ("fstype", "gap"),
    [("nfs4", "on another host"), ("overlay", "on a layered file system"), ("tmpfs", None)],
)
def test_files_without_a_disk_of_this_host_are_a_gap_unless_in_memory(tmp_path, fstype, gap):
    mount = Mount("kv", "/kv", "/kv", "0:50", fstype, "server:/x")
    found = values(Disks((mount,), **tree(tmp_path, NVME)).read().text)
    gaps = [key for key in found if key.startswith("host_gap")]
    assert bool(gaps) is (gap is not None)
    assert gap is None or gap in gaps[0]
