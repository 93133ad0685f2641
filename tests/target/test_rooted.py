"""A process's own tree of files: no way out of it, and no more than its own user may read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvdoctor.errors import Unavailable
from kvdoctor.target.process import Ids
from kvdoctor.target.rooted import View, exists, names, read_file

ME = Ids(os.geteuid(), os.getegid(), frozenset(), (1,), 0)
STRANGER = Ids(64_001, 64_001, frozenset(), (1,), 0)


@pytest.fixture
def tree(tmp_path: Path) -> View:
    root = tmp_path / "root"
    (root / "models" / "m").mkdir(parents=True)
    (root / "models" / "m" / "config.json").write_text("{}")
    (tmp_path / "secret").write_text("host only")
    return View(str(root), ME)


def test_a_file_is_read_below_the_root(tree: View) -> None:
    assert read_file(tree, "/models/m/config.json", 10) == b"{}"
    assert read_file(tree, "models/./m/../m/config.json", 10) == b"{}"
    assert names(tree, "/models") == ("m",)


@pytest.mark.parametrize("path", ["/../secret", "/models/../../secret", "../../../../secret"])
def test_dots_do_not_lead_out(tree: View, path: str) -> None:
    assert not exists(tree, path)


@pytest.mark.parametrize("target", ["../../../../secret", "/../secret", "{outside}/secret"])
def test_a_link_does_not_lead_out(tree: View, tmp_path: Path, target: str) -> None:
    link = Path(tree.root) / "models" / "m" / "link.json"
    link.symlink_to(target.format(outside=tmp_path))
    with pytest.raises(Unavailable):
        read_file(tree, "/models/m/link.json", 100)


def test_a_link_inside_is_followed_as_the_process_would(tree: View) -> None:
    (Path(tree.root) / "absolute").symlink_to("/models/m")
    (Path(tree.root) / "models" / "relative").symlink_to("../absolute")
    assert read_file(tree, "/models/relative/config.json", 10) == b"{}"


def test_links_in_a_ring_end(tree: View) -> None:
    (Path(tree.root) / "a").symlink_to("b")
    (Path(tree.root) / "b").symlink_to("a")
    with pytest.raises(Unavailable, match="too many symbolic links"):
        read_file(tree, "/a", 10)


def test_a_pipe_is_not_opened(tree: View) -> None:
    os.mkfifo(Path(tree.root) / "pipe")
    with pytest.raises(Unavailable, match="not a regular file"):
        read_file(tree, "/pipe", 10)


def test_a_large_file_is_not_read(tree: View) -> None:
    (Path(tree.root) / "big").write_bytes(b"x" * 11)
    with pytest.raises(Unavailable, match="11 bytes"):
        read_file(tree, "/big", 10)


@pytest.mark.parametrize(("mode", "readable"), [(0o600, False), (0o640, False), (0o604, True)])
def test_what_the_processs_user_may_not_read_is_not_read_for_it(
    tree: View, mode: int, readable: bool
) -> None:
    path = Path(tree.root) / "models" / "m" / "config.json"
    path.chmod(mode)
    for folder in (Path(tree.root), Path(tree.root) / "models", Path(tree.root) / "models" / "m"):
        folder.chmod(0o755)
    stranger = View(tree.root, STRANGER)
    if readable:
        assert read_file(stranger, "/models/m/config.json", 10) == b"{}"
    else:
        with pytest.raises(Unavailable, match="own user"):
            read_file(stranger, "/models/m/config.json", 10)


def test_a_folder_closed_to_the_processs_user_closes_what_is_in_it(tree: View) -> None:
    Path(tree.root).chmod(0o755)
    (Path(tree.root) / "models").chmod(0o700)
    with pytest.raises(Unavailable, match="closed to the process's own user"):
        read_file(View(tree.root, STRANGER), "/models/m/config.json", 10)


def test_a_group_of_the_process_counts(tree: View) -> None:
    path = Path(tree.root) / "models" / "m" / "config.json"
    path.chmod(0o640)
    for folder in (Path(tree.root), Path(tree.root) / "models", Path(tree.root) / "models" / "m"):
        folder.chmod(0o755)
    member = Ids(64_001, 64_001, frozenset((path.stat().st_gid,)), (1,), 0)
    assert read_file(View(tree.root, member), "/models/m/config.json", 10) == b"{}"


@pytest.mark.parametrize("path", ["/nothing", "/models/m/config.json/x", "/a\0b", "/" + "n" * 5000])
def test_a_path_that_is_not_there_says_so(tree: View, path: str) -> None:
    with pytest.raises(Unavailable):
        read_file(tree, path, 10)


def test_no_handle_is_left_open(tree: View) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in ("/models/m/config.json", "/nothing", "/models/../../x"):
        exists(tree, path)
    assert len(os.listdir("/proc/self/fd")) == before
