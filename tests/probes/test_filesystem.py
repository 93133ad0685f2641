"""File systems named, files that lie recognised, and nothing left behind."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvdoctor.errors import Unavailable
from kvdoctor.probes import filesystem
from kvdoctor.probes.filesystem import file_system, open_unlinked, require_room, written_bytes

MIB = 2**20
# Captured on Linux 6.18; the overlay line is a Docker container's, the NFS line an NFS 4.2 client's.
MOUNTS = """\
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 21 0:26 / /dev/shm rw,nosuid - tmpfs tmpfs rw
40 21 0:50 / /var/lib/app rw - overlay overlay rw,lowerdir=/a
50 21 0:60 / /mnt/kv\\040tier rw - nfs4 host:/kv rw,vers=4.2
60 21 0:70 / /mnt/fuse rw - fuse.juicefs JuiceFS:kv rw
"""


@pytest.mark.parametrize(
    ("folder", "kind", "says"),
    [
        ("/home/x", "ext4", ""),
        ("/dev/shm/a", "tmpfs", "memory: no disk takes part"),
        ("/dev/shmem", "ext4", ""),
        ("/var/lib/app", "overlay", "layered file system"),
        ("/mnt/kv tier/b", "nfs4", "over a network"),
        ("/mnt/fuse/x", "fuse.juicefs", "over a network or a user process"),
    ],
)
def test_a_folder_is_on_the_file_system_of_its_longest_mount(folder, kind, says):
    found = file_system(folder, MOUNTS)
    assert found.kind == kind
    assert says in found.says
    assert bool(says) == bool(found.says)


def room(free, total=1000, blocks=None, flags=0):
    blocks = total if blocks is None else blocks
    return SimpleNamespace(f_bavail=free, f_bfree=free, f_blocks=blocks, f_frsize=MIB, f_flag=flags)


@pytest.mark.parametrize(
    ("stat", "size", "reason"),
    [
        (room(101), 10, None),
        (room(99), 1, "90% full"),
        (room(300), 40, "300 MiB free, and a probe of 40 MiB wants 400 MiB"),
        (room(900, flags=os.ST_RDONLY), 1, "mounted read-only"),
        (room(0, blocks=0), 1, "100% full"),
    ],
)
def test_a_file_system_is_never_filled(stat, size, reason):
    if reason is None:
        require_room("/x", size * MIB, stat)
        return
    with pytest.raises(Unavailable, match=reason) as refused:
        require_room("/x", size * MIB, stat)
    assert refused.value.cure


def test_the_file_has_no_name_in_its_folder(tmp_path):
    fd, how = open_unlinked(str(tmp_path))
    os.write(fd, b"x")
    assert (list(tmp_path.iterdir()), os.fstat(fd).st_nlink) == ([], 0)
    assert how in ("O_TMPFILE", "unlinked at once")
    os.close(fd)


def test_where_there_is_no_tmpfile_the_name_goes_at_once(tmp_path, monkeypatch):
    real = os.open

    def refusing(path, flags, *rest, **more):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(filesystem.os, "open", refusing)
    fd, how = open_unlinked(str(tmp_path))
    assert (how, list(tmp_path.iterdir())) == ("unlinked at once", [])
    os.close(fd)


@pytest.mark.parametrize(
    ("number", "reason", "cure"),
    [
        (13, "Permission denied", "that you may write"),
        (30, "Read-only file system", "that you may write"),
        (28, "No space left on device", "another folder"),
    ],
)
def test_a_folder_that_is_closed_is_refused_with_its_cure(tmp_path, monkeypatch, number, reason, cure):
    def failing(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(filesystem.os, "open", failing)
    with pytest.raises(Unavailable, match=reason) as refused:
        open_unlinked(str(tmp_path))
    assert cure in refused.value.cure


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(Unavailable, match="Permission denied"):
        open_unlinked(str(tmp_path))


def on_disk():
    """A folder on a file system that knows holes and preallocation; the test is skipped without one."""
    folder = Path(__file__).parent
    if file_system(os.path.realpath(folder)).kind not in ("ext4", "xfs", "btrfs"):
        pytest.skip("needs ext4, xfs or btrfs")
    return str(folder)


def test_a_sparse_file_is_recognised():
    fd, _ = open_unlinked(on_disk())
    os.truncate(fd, 4 * MIB)
    os.pwrite(fd, b"x" * MIB, 0)
    assert written_bytes(fd, 4 * MIB) == MIB
    os.close(fd)


def test_a_preallocated_file_is_recognised():
    fd, _ = open_unlinked(on_disk())
    os.posix_fallocate(fd, 0, 4 * MIB)
    assert os.fstat(fd).st_blocks * 512 >= 4 * MIB
    assert written_bytes(fd, 4 * MIB) == 0
    os.close(fd)


def test_a_preallocated_file_is_recognised_where_seek_hole_is_a_stub(monkeypatch):
    fd, _ = open_unlinked(on_disk())
    os.posix_fallocate(fd, 0, 4 * MIB)
    monkeypatch.setattr(filesystem.os, "lseek", lambda *_: 4 * MIB)
    assert written_bytes(fd, 4 * MIB) == 0
    os.close(fd)


def test_a_written_file_is_written():
    fd, _ = open_unlinked(on_disk())
    os.pwrite(fd, os.urandom(4 * MIB), 0)
    os.fsync(fd)
    assert written_bytes(fd, 4 * MIB) == 4 * MIB
    os.close(fd)
