"""Where a process lives, and what a cgroup's path tells of its container."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakeproc import FakeProc

from kvdoctor.target.namespaces import containers, in_container, namespaces
from kvdoctor.target.process import Proc

ID = "4f" * 32


def test_the_same_namespaces_need_no_words(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.process(10, ["x"])
    found = namespaces(Proc(fake.root), 10)
    assert (found.differ, found.unknown, found.words()) == (frozenset(), frozenset(), "")


def test_a_container_is_told_by_inodes_and_cgroup(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.process(10, ["x"], namespaces={"pid": 1, "net": 2}, cgroup=f"0::/system.slice/docker-{ID}.scope\n")
    found = namespaces(Proc(fake.root), 10)
    assert found.differ == {"pid", "net"}
    assert found.words() == f"container {ID[:12]}; own pid, network namespaces"


def test_another_users_pid_namespace_shows_in_its_status(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.process(10, ["x"], ns_pids=(1,))
    fake.process(11, ["x"])
    fake.closes(10)
    fake.closes(11)
    proc = Proc(fake.root)
    assert "pid" in namespaces(proc, 10).differ
    assert "pid" not in namespaces(proc, 11).differ | namespaces(proc, 11).unknown
    assert namespaces(proc, 11).unknown == {"net", "mnt", "user"}


@pytest.mark.parametrize(
    ("cgroup", "expected"),
    [
        (f"0::/docker/{ID}\n", (ID[:12], "")),
        (f"0::/system.slice/docker-{ID}.scope\n", (ID[:12], "")),
        (
            "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
            f"1d2c3b4a_0000_4000_8000_123456789abc.slice/cri-containerd-{ID}.scope\n",
            (ID[:12], "1d2c3b4a-0000-4000-8000-123456789abc"),
        ),
        (
            f"9:memory:/kubepods/besteffort/pod1d2c3b4a-0000-4000-8000-123456789abc/{ID}\n0::/\n",
            (ID[:12], "1d2c3b4a-0000-4000-8000-123456789abc"),
        ),
        (f"0::/machine.slice/libpod-{ID}.scope/container\n", (ID[:12], "")),
        ("0::/user.slice/user-1000.slice\n", ("", "")),
        (f"0::/x{ID}\n", ("", "")),
        ("", ("", "")),
    ],
)
def test_containers_and_pods(cgroup: str, expected: tuple[str, str]) -> None:
    assert containers(cgroup) == expected


def test_we_are_in_a_container_when_our_pid_namespace_is_not_the_first(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    assert not in_container(Proc(fake.root))
    (fake.root / "self" / "ns" / "pid").unlink()
    (fake.root / "self" / "ns" / "pid").symlink_to("pid:[4026532000]")
    assert in_container(Proc(fake.root))
