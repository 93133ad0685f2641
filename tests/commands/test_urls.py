"""Addresses from a file: comments and blanks pass, a bad line is named by its number."""

from __future__ import annotations

import io

import pytest

from kvdoctor.commands import urls as module
from kvdoctor.commands.urls import MAX_FILE, MOST, SPARE, make_room, urls_of
from kvdoctor.errors import KvdoctorError


def written(tmp_path, text: str | bytes) -> str:
    """A file with a text; its path."""
    path = tmp_path / "urls"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_one_address_a_line_behind_those_given(tmp_path):
    text = "# our replicas\n\nhttp://a:8000\n  b:8000/metrics   # the new one\r\nhttp://c:8000/#part\n#http://d:8000\n"
    found = urls_of(["http://z:1"], written(tmp_path, text))
    assert found == ["http://z:1", "http://a:8000", "b:8000/metrics", "http://c:8000/#part"]


def test_without_a_file_the_addresses_stay_as_they_are():
    assert urls_of(["x", "x"], None) == ["x", "x"]


def test_standard_input_is_read(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("a:8000\nb:8000\n"))
    assert urls_of((), "-") == ["a:8000", "b:8000"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a:8000\nftp://b\n", "line 2: ftp://b: ftp is not read"),
        ("a:8000\n\nb:8000 c:8000\n", "line 3: b:8000 c:8000 is not a URL"),
        ("a:8000\nhttp://a:8000/metrics\n", r"line 2: http://a:8000/metrics was given already \(.*line 1\)"),
        ("# nothing\n", "names 0 endpoints"),
        ("".join(f"a:{n + 1}\n" for n in range(MOST + 1)), f"names {MOST + 1} endpoints"),
        (b"\xff\xfe\n", "it is no text"),
        ("#" * (MAX_FILE + 1), "too long"),
    ],
)
def test_what_is_no_list_of_addresses_is_refused_with_its_line(tmp_path, text, said):
    with pytest.raises(KvdoctorError, match=said):
        urls_of((), written(tmp_path, text))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(KvdoctorError, match="No such file"):
        urls_of((), str(tmp_path / "none"))


def test_an_address_given_and_in_the_file_is_refused(tmp_path):
    with pytest.raises(KvdoctorError, match="--url"):
        urls_of(["a:8000"], written(tmp_path, "a:8000\n"))


def test_credentials_of_a_bad_line_are_not_shown(tmp_path):
    with pytest.raises(KvdoctorError) as caught:
        urls_of((), written(tmp_path, "ftp://user:secret@host\n"))
    assert "secret" not in caught.value.message


class Limits:
    """The limit of open files of a process that is not ours."""

    RLIMIT_NOFILE, RLIM_INFINITY = 7, -1

    def __init__(self, soft: int, hard: int) -> None:
        self.now = (soft, hard)

    def getrlimit(self, which: int) -> tuple[int, int]:
        return self.now

    def setrlimit(self, which: int, limits: tuple[int, int]) -> None:
        self.now = limits


@pytest.mark.parametrize(
    ("soft", "hard", "then"),
    [(1000 + SPARE, 4096, 1000 + SPARE), (1024, 4096, 1000 + SPARE), (1024, -1, 1000 + SPARE), (-1, -1, -1)],
)
def test_the_limit_of_open_files_is_raised_as_far_as_is_needed(monkeypatch, soft, hard, then):
    limits = Limits(soft, hard)
    monkeypatch.setattr(module, "resource", limits)
    make_room(1000)
    assert limits.now == (then, hard)


def test_a_limit_that_cannot_be_raised_is_told_with_the_number_that_is_needed(monkeypatch):
    monkeypatch.setattr(module, "resource", Limits(256, 1024))
    with pytest.raises(KvdoctorError, match=r"1,200 open files, and this process may have 1,024"):
        make_room(1000)
