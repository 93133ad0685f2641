"""Files are recognised by what is in them; whatever is not ours is refused in a sentence."""

from __future__ import annotations

import gzip
import io
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdoctor.errors import KvdoctorError
from kvdoctor.exposition import Parser
from kvdoctor.readers import opened, pages, read
from kvdoctor.recording import Recording, Source, add_reading
from kvdoctor.store import save

PAGE = b"process_start_time_seconds 100\na_total 1\nb 2\n"
LATER = b"process_start_time_seconds 100\na_total 5\nb 2\n"
OTHER = b"process_start_time_seconds 300\na_total 5\nb 2\n"
SERIES = b"#@ 1000.5 11.9\n" + PAGE + b"#@ 1001.5 25.4\n#! scrape failed: timed out\n#@ 1002.5 9\n" + LATER

SHARED = Path(os.environ.get("KVDOCTOR_SHARED") or Path(__file__).resolve().parents[2] / ".." / "shared")


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, name: str, data: bytes, *, modified: float | None = None) -> str:
        path = self.path / name
        path.write_bytes(data)
        if modified is not None:
            os.utime(path, (modified, modified))
        return str(path)

    def read(self, data: bytes) -> Recording:
        return read([self.file("f", data)])


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def reasons(recording: Recording) -> list[str]:
    return [gap.reason for gap in recording.gaps]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_series_is_read_plain_and_zipped(pack: object, folder: Folder) -> None:
    recording = folder.read(pack(SERIES))  # type: ignore[operator]
    (source,) = recording.sources
    assert (source.name, source.wall, list(source.at)) == ("f", 1000.5, [0.0, 2.0])
    assert list(source.took) == pytest.approx([0.0119, 0.009])
    assert source.columns[1].value.tolist() == [1.0, 5.0]
    assert reasons(recording) == ["1 readings failed, from 1.0 s to 1.0 s: scrape failed: timed out"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_page_is_one_reading_and_says_that_it_is_no_window(pack: object, folder: Folder) -> None:
    recording = folder.read(pack(PAGE))  # type: ignore[operator]
    assert list(recording.sources[0].at) == [0.0]
    assert "no window of time" in reasons(recording)[0]


def test_stdin_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(SERIES)))
    assert read(["-"]).sources[0].name == "stdin"


def test_a_recording_is_read_zipped_too(folder: Folder, tmp_path: Path) -> None:
    recording = folder.read(SERIES)
    save(recording, tmp_path / "r.kvrec")
    packed = folder.file("r.gz", gzip.compress((tmp_path / "r.kvrec").read_bytes()))
    assert repr(read([packed])) == repr(read([str(tmp_path / "r.kvrec")])) == repr(recording)


def test_pages_of_one_process_are_readings_of_one_source(folder: Folder) -> None:
    paths = [folder.file("1", PAGE, modified=1000), folder.file("2", LATER, modified=1020)]
    recording = read(paths)
    (source,) = recording.sources
    assert (list(source.at), source.wall) == ([0.0, 20.0], 1000.0)
    assert reasons(recording) == ["the times of its pages are those of the files"]


def test_where_the_files_tell_no_time_it_is_assumed_and_said(folder: Folder) -> None:
    paths = [folder.file("1", PAGE, modified=1000), folder.file("2", LATER, modified=1000)]
    recording = read(paths)
    assert list(recording.sources[0].at) == [0.0, 15.0]
    assert "are assumed: 15 s apart" in reasons(recording)[0]


@pytest.mark.parametrize(
    ("first", "second"),
    [(PAGE, OTHER), (PAGE, b"x 1\ny 2\nz 3\n"), (b"a_total 5\n", b"a_total 4\n")],
    ids=["other start time", "other names", "a counter that fell"],
)
def test_pages_of_two_processes_are_two_sources(first: bytes, second: bytes, folder: Folder) -> None:
    recording = read([folder.file("1", first), folder.file("2", second)])
    assert [len(source.at) for source in recording.sources] == [1, 1]


def test_pages_without_a_start_time_are_of_one_process_when_nothing_fell(folder: Folder) -> None:
    recording = read([folder.file("1", b"a_total 4\nb 9\n"), folder.file("2", b"a_total 5\nb 1\n")])
    assert len(recording.sources) == 1


def test_series_are_brought_on_one_clock(folder: Folder) -> None:
    recording = read([folder.file("1", SERIES.replace(b"#@ 100", b"#@ 101")), folder.file("2", SERIES)])
    assert recording.wall == 1000.5
    assert [list(source.at) for source in recording.sources] == [[10.0, 12.0], [0.0, 2.0]]
    assert [source.wall for source in recording.sources] == [1000.5, 1000.5]


def test_a_clock_that_was_set_back_does_not_turn_time_round(folder: Folder) -> None:
    series = b"#@ 100 1\na 1\n#@ 102 1\na 2\n#@ 50 1\na 3\n#@ 52 1\na 4\n"
    recording = folder.read(series)
    assert list(recording.sources[0].at) == [0.0, 2.0, 4.0, 6.0]
    assert "was set back 1 times" in reasons(recording)[0]


@pytest.mark.parametrize("end", [-1, -5, -9, -200])
def test_a_gzip_file_that_is_cut_is_read_up_to_the_cut(end: int, folder: Folder) -> None:
    text = SERIES + b"".join(b"#@ %d 1\na_total %d\n" % (2000 + i, i * i) for i in range(200))
    recording = folder.read(gzip.compress(text)[:end])
    assert recording.sources[0].at
    assert any("cut short" in reason for reason in reasons(recording))


def test_a_gzip_file_of_several_members_is_read_whole(folder: Folder) -> None:
    recording = folder.read(gzip.compress(SERIES[:50]) + gzip.compress(SERIES[50:]) + b"\0" * 20)
    assert len(recording.sources[0].at) == 2


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"\n \n", "it is blank"),
        (b"\x00\x01\x02" * 99, "is binary"),
        (b"<html><body>", "is a web page"),
        (b'{"a": 1}', "is JSON"),
        (b"[1]", "is JSON"),
        (b"INFO 07-01 12:00:00 [loggers.py:116] Engine 000: Avg prompt\n", "begins with: INFO 07-01"),
        (b"# a heading\n\nSome prose.\n", "begins with: # a heading"),
        (b"a 1\nthis is\nprose with\none number\n", "neither"),
        (b"\x1f\x8b", "nothing in it: the gzip file is cut short"),
        (b"\x1f\x8bnonsense", "nothing in it: the gzip data is damaged"),
        (b"#@ 1 2\n#! scrape failed: x\n", "all failed (scrape failed: x)"),
        (b"#@ soon 2\na 1\n", "its time could not be read"),
        (b"#@ 1 2\nprose\n", "neither"),
        (b"kvdoctor recording 99\n", "newer kvdoctor"),
    ],
)
def test_what_cannot_be_read_is_said_with_a_cure(data: bytes, words: str, folder: Folder) -> None:
    with pytest.raises(KvdoctorError) as caught:
        folder.read(data)
    assert words in caught.value.message
    assert caught.value.hint


def test_a_folder_a_missing_file_and_no_file_are_said(tmp_path: Path) -> None:
    for paths, words in (
        ([str(tmp_path)], "is a folder"),
        ([str(tmp_path / "x")], "No such"),
        ([], "no file"),
    ):
        with pytest.raises(KvdoctorError, match=words):
            read(paths)


def test_a_first_line_cannot_colour_the_terminal(folder: Folder) -> None:
    with pytest.raises(KvdoctorError) as caught:
        folder.read(b"\x1b[31mred prose\n")
    assert "\x1b" not in caught.value.message


def test_a_bomb_is_read_up_to_the_limit_of_a_page(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pages, opened):
        monkeypatch.setattr(module, "PIECE", 2**10)
    monkeypatch.setattr(pages, "MAX_TEXT", 2**12)
    monkeypatch.setattr(pages, "MAX_SKIPPED", 2**14)
    monkeypatch.setattr("kvdoctor.exposition.MAX_TEXT", 2**12)
    recording = folder.read(gzip.compress(b"a 1\n" * 2**18))
    assert "the rest was left out" in " ".join(reasons(recording))


def test_a_page_that_is_too_long_does_not_hide_the_next(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PIECE", 7)
    monkeypatch.setattr(pages, "MAX_TEXT", 100)
    monkeypatch.setattr("kvdoctor.exposition.MAX_TEXT", 100)
    recording = folder.read(b"#@ 1 1\na 1\n#@ 2 1\n" + b"a 2\n" * 90 + b"#@ 3 1\na 3\n")
    assert recording.sources[0].columns[0].value.tolist() == [1.0, 2.0, 3.0]


def test_plain_bytes_out_of_gzip_have_a_limit(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "MAX_PLAIN", 100)
    monkeypatch.setattr(opened, "PIECE", 50)
    text = b"".join(b"#@ %d 1\na %d\n" % (i, i) for i in range(99))
    recording = folder.read(gzip.compress(text))
    assert "GiB were read" in recording.gaps[-1].reason


def test_a_series_has_a_limit(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvdoctor.readers.series.MAX_READINGS", 1)
    recording = folder.read(SERIES)
    assert len(recording.sources[0].at) == 1
    assert "the rest was left out" in recording.gaps[-1].reason


def sources(folder: Folder, data: bytes) -> list[Source]:
    """Return what was read, nothing where it was refused."""
    try:
        return folder.read(data).sources
    except KvdoctorError:
        return []


pieces = st.sampled_from(
    [
        SERIES,
        PAGE,
        OTHER,
        b"#@ ",
        b"#! x\n",
        b"#= {}\n",
        b'#= {"source":1}\n',
        b'#= {"recording":{"wall":"nan"}}\n',
    ]
)


@given(
    st.lists(pieces | st.binary(max_size=30), max_size=6),
    st.booleans(),
    st.integers(0, 400),
    st.integers(0, 255),
)
def test_no_bytes_give_anything_but_a_recording_or_a_sentence(
    tmp_path: Path, found: list[bytes], zipped: bool, at: int, byte: int
) -> None:
    data = bytearray(gzip.compress(b"".join(found)) if zipped else b"".join(found))
    if at < len(data):
        data[at] = byte
    for source in sources(Folder(tmp_path), bytes(data)):
        assert list(source.at) == sorted(source.at)
        assert all(math.isfinite(at) for at in source.at)


@given(st.data())
def test_no_altered_recording_breaks_the_reader(tmp_path_factory: object, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("flip")  # type: ignore[attr-defined]
    source = Source("s", "prometheus", 1.0)
    change = Parser(source.columns).read(PAGE)
    add_reading(source, at=0.0, took=0.0, size=0, ids=change.ids, values=change.values)
    save(Recording(1, "0", 1.0, [source]), folder / "r")
    altered = bytearray((folder / "r").read_bytes())
    altered[data.draw(st.integers(0, len(altered) - 1))] = data.draw(st.integers(0, 255))
    assert len(sources(Folder(folder), bytes(altered))) <= 1


@pytest.mark.skipif(not SHARED.exists(), reason="the shared folder is not here")
@pytest.mark.parametrize("path", sorted(SHARED.glob("recordings/*.gz")), ids=lambda path: path.stem)
def test_a_series_of_a_real_engine_is_read_without_a_gap(path: Path) -> None:
    recording = read([str(path)])
    assert len(recording.sources[0].at) > 20
    assert recording.gaps == []


@pytest.mark.parametrize("piece", [1, 2, 5, 64])
def test_a_mark_is_found_wherever_a_piece_ends(
    piece: int, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = folder.read(SERIES)
    monkeypatch.setattr(pages, "PIECE", piece)
    assert repr(folder.read(SERIES)) == repr(whole)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_text_in_utf_16_is_told_as_such(tmp_path, encoding):
    mark = b"" if encoding == "utf-16" else b"\xfe\xff"
    file = tmp_path / "powershell.log"
    file.write_bytes(mark + "INFO 11-29 10:00:00 Engine 000: Running: 1 reqs".encode(encoding))
    with pytest.raises(KvdoctorError, match="is UTF-16 text") as caught:
        read([str(file)])
    assert "UTF-8" in caught.value.hint
