"""Folders to file systems, processes to cgroups."""

from __future__ import annotations

from pathlib import Path

from fakeproc import FakeProc

from kvdoctor.target.mounts import cgroups_of, mount_of
from kvdoctor.target.process import Proc

INFO = r"""21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 21 259:2 / /models rw - xfs /dev/nvme0n1p1 rw
31 30 0:55 / /models/a\040b rw master:3 - nfs4 u:p@filer:/export rw
32 21 0:60 / /models-other rw - tmpfs tmpfs rw
33 21 259:3 / /models rw - ext4 /dev/nvme1n1 rw
broken
"""


def test_the_longest_mount_point_counts_and_the_later_covers_the_earlier(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    folder = fake.process(10, ["x"])
    (folder / "mountinfo").write_text(INFO)
    proc = Proc(fake.root)

    def device(path: str) -> tuple[str, str] | None:
        found = mount_of(proc, 10, path, "model")
        return (found.device, found.fstype) if found else None

    assert device("/models/m") == ("259:3", "ext4")
    assert device("/models/a b/m") == ("0:55", "nfs4")
    assert device("/models-other") == ("0:60", "tmpfs")
    assert device("/modelsx") == ("8:1", "ext4")
    assert mount_of(proc, 11, "/models", "model") is None


def test_cgroups_of_both_versions_are_found_once(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    both = "9:name=systemd:/a\n4:memory:/kube/pod\n2:cpu,cpuacct:/kube/pod\n0::/\nbroken\n"
    fake.process(10, ["x"], cgroup=both)
    fake.process(11, ["x"], cgroup=both)
    root = tmp_path / "cgroup"
    for name in ("memory/kube/pod", "cpu,cpuacct/kube/pod", "unified"):
        (root / name).mkdir(parents=True)
        (root / name / "cgroup.procs").write_text("")
    found = {group.controllers: group.folder for group in cgroups_of(Proc(fake.root), (10, 11, 12), root)}
    assert found == {
        ("name=systemd",): "",
        ("memory",): str(root / "memory/kube/pod"),
        ("cpu", "cpuacct"): str(root / "cpu,cpuacct/kube/pod"),
        (): str(root / "unified"),
    }


def test_a_cgroup_above_what_we_see_has_no_folder(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.process(10, ["x"], cgroup="0::/../../other\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "cgroup.procs").write_text("")
    (group,) = cgroups_of(Proc(fake.root), (10,), tmp_path / "a" / "b")
    assert group.folder == ""
