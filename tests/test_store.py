"""What is written is read back, and no file, however it was cut or altered, breaks the reader."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import signal
import stat
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdoctor import frames, restore
from kvdoctor.errors import KvdoctorError
from kvdoctor.exposition import Parser
from kvdoctor.model import Cost, Gap
from kvdoctor.recording import Recording, Source, add_reading
from kvdoctor.restore import load, load_stream
from kvdoctor.store import Writer, create_in_state, save

TEXTS = (b'a{x="1"} 1\nb 2\n', b'a{x="1"} 5\nb NaN\n', b'a{x="1"} 5\nc{h="\\"[red]\\n"} +Inf\n', b"b 7\n")


def add_texts(recording: Recording, source: Source, texts: tuple[bytes, ...], writer: Writer | None) -> None:
    parser = Parser(source.columns)
    for number, text in enumerate(texts):
        change = parser.read(text)
        add_reading(source, at=float(number), took=0.01, size=len(text), ids=change.ids, values=change.values)
        if writer:
            writer.reading(recording.sources.index(source), source, (change.ids, change.values))


def sample(writer: Writer | None = None) -> Recording:
    sources = [Source("http://a/metrics", "prometheus", 1000.0), Source("b.log", "log", 1000.0, "prefill")]
    sources[0].texts["version"] = "0.32.0"
    recording = Recording(1, "0.1.0", 1000.0, sources, facts={"gpu": "H200"})
    if writer:
        writer.begin(recording)
    for source in sources:
        add_texts(recording, source, TEXTS, writer)
    recording.gaps = [Gap("b.log", "a reason", "a cure")]
    recording.cost = Cost(0.25, 123, 0.01)
    if writer:
        writer.end(recording)
    return recording


def whole(recording: Recording) -> str:
    return repr(recording)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "r.kvrec"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("store") / "r.kvrec"
    sample(Writer.create(path))
    return path.read_bytes()


def test_what_was_written_is_read_back(path: Path) -> None:
    assert whole(sample(Writer.create(path))) == whole(load(path))


def test_a_recording_saved_at_once_says_the_same(path: Path, tmp_path: Path) -> None:
    recording = sample(Writer.create(path))
    save(recording, tmp_path / "other.kvrec")
    assert whole(load(tmp_path / "other.kvrec")) == whole(recording)


def test_nan_and_infinity_come_back(path: Path) -> None:
    sample(Writer.create(path))
    a, b, c = load(path).sources[0].columns
    assert [a.at(i) for i in range(3)] == [1.0, 5.0, 5.0]
    assert math.isnan(a.at(3))
    assert math.isnan(b.at(1))
    assert b.at(3) == 7.0
    assert (c.labels, c.at(2)) == ((("h", '"[red]\n'),), math.inf)


def test_only_the_owner_may_read_it(path: Path) -> None:
    Writer.create(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_is_written_over(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(KvdoctorError, match="exists already"):
        Writer.create(path)
    assert path.read_text() == "precious"


def test_a_link_is_not_followed_to_a_new_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(KvdoctorError):
        Writer.create(tmp_path / "link")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("name", ["no/such/folder", "nul\0byte"])
def test_a_file_that_cannot_be_made_is_said(name: str, tmp_path: Path) -> None:
    with pytest.raises(KvdoctorError, match="cannot be written"):
        Writer.create(f"{tmp_path}/{name}")


def test_each_reading_is_on_disk_before_the_next(path: Path) -> None:
    writer = Writer.create(path)
    recording = Recording(1, "0.1.0", 1000.0, [Source("s", "prometheus", 1000.0)])
    writer.begin(recording)
    source = recording.sources[0]
    parser = Parser(source.columns)
    for readings, text in enumerate(TEXTS, 1):
        change = parser.read(text)
        add_reading(source, at=0.0, took=0.0, size=0, ids=change.ids, values=change.values)
        writer.reading(0, source, (change.ids, change.values))
        assert len(load(path).sources[0].at) == readings
    writer.close()


def test_kill_9_leaves_a_file_that_opens(path: Path) -> None:
    code = (
        "import os, signal, sys; sys.path[:0] = sys.argv[2].split(os.pathsep)\n"
        "from test_store import Recording, Source, TEXTS, Writer, add_texts\n"
        "writer = Writer.create(sys.argv[1])\n"
        "recording = Recording(1, '0.1.0', 1000.0, [Source('s', 'prometheus', 1000.0)])\n"
        "writer.begin(recording)\n"
        "add_texts(recording, recording.sources[0], TEXTS, writer)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    folders = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run([sys.executable, "-c", code, str(path), folders], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    recording = load(path)
    assert len(recording.sources[0].at) == len(TEXTS)
    assert not recording.complete
    assert "breaks off" in recording.gaps[-1].reason
    assert recording.cost.bytes == sum(len(text) for text in TEXTS)


def test_a_cut_at_any_byte_opens_with_what_is_whole(data: bytes) -> None:
    readings = []
    for end in range(len(frames.MAGIC) + 2, len(data)):
        recording = load_stream(io.BytesIO(data[:end]), "r")
        assert not recording.complete
        assert recording.gaps[-1].source == "r"
        readings.append(sum(len(source.at) for source in recording.sources))
    assert readings == sorted(readings)
    assert readings[-1] == 2 * len(TEXTS)


def test_an_altered_frame_and_all_behind_it_are_left_out_with_a_gap(data: bytes) -> None:
    altered = bytearray(data)
    altered[len(data) // 2] ^= 0x10
    recording = load_stream(io.BytesIO(bytes(altered)), "r")
    assert not recording.complete
    assert recording.gaps[-1].reason.startswith("the recording breaks off")


@pytest.mark.parametrize("start", [b"", b"# TYPE a counter\n", b"kvdoctor recording x\n", b"\x89PNG"])
def test_a_foreign_file_is_none_of_ours(start: bytes) -> None:
    with pytest.raises(KvdoctorError, match="is not a kvdoctor recording"):
        load_stream(io.BytesIO(start), "r")


def test_a_newer_format_asks_for_an_upgrade() -> None:
    with pytest.raises(KvdoctorError, match="newer kvdoctor") as caught:
        load_stream(io.BytesIO(b"kvdoctor recording 2\n"), "r")
    assert "upgrade" in caught.value.hint


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(KvdoctorError, match="No such file"):
        load(tmp_path / "none")


class FullDisk:
    """Takes so many bytes and no more; a write that does not fit is half done first, as on a real disk."""

    def __init__(self, room: int) -> None:
        self.room, self.write = room, os.write

    def __call__(self, descriptor: int, data: memoryview) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = self.write(descriptor, data[: self.room])
        self.room -= done
        return done


def test_a_full_disk_keeps_the_whole_frames_and_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer.create(path)
    monkeypatch.setattr("kvdoctor.store.os.write", FullDisk(500))
    recording = sample(writer)
    assert writer.failure == "the disk is full"
    assert len(recording.sources[0].at) == len(TEXTS)
    found = load(path)
    assert not found.complete
    assert 0 < path.stat().st_size < 500


def test_saving_on_a_full_disk_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = sample()
    monkeypatch.setattr("kvdoctor.store.os.write", FullDisk(500))
    with pytest.raises(KvdoctorError, match="the disk is full"):
        save(recording, path)


def test_a_file_in_the_state_folder_has_a_name_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first, second = create_in_state(0.0).path, create_in_state(0.0).path
    assert first == tmp_path / "kvdoctor" / "1970-01-01T00-00-00.kvrec"
    assert second.name == "1970-01-01T00-00-00-1.kvrec"
    assert stat.S_IMODE(first.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(("state", "home"), [("relative", "/nowhere"), ("", "relative")])
def test_no_state_folder_is_made_where_we_happen_to_stand(
    state: str, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", state)
    monkeypatch.setenv("HOME", home)
    monkeypatch.setattr(Path, "mkdir", lambda path, **_: None)
    with pytest.raises(KvdoctorError):
        create_in_state(0.0)
    assert not list(tmp_path.iterdir())


HEAD = frames.MAGIC + b"1\n"
SOURCE = frames.pack(frames.SOURCE, b'{"name":"s","kind":"k","wall":1,"role":null}')


def opened(*pieces: bytes) -> Recording:
    return load_stream(io.BytesIO(b"".join((HEAD, *pieces))), "r")


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (frames.HEAD, b"[]"),
        (frames.HEAD, b'{"kvdoctor":"x","wall":"nan"}'),
        (frames.SOURCE, b'{"name":"s"}'),
        (frames.SERIES, b'{"source":7,"first":0,"series":[]}'),
        (frames.SERIES, b'{"source":-1,"first":0,"series":[]}'),
        (frames.SERIES, b'{"source":0,"first":5,"series":[]}'),
        (frames.SERIES, b'{"source":0,"first":0,"series":[["a",[["b"]],""]]}'),
        (frames.READING, b"short"),
        (frames.READING, frames._READING.pack(0, 0.0, 0.0, 0, 2**31)),
        (frames.READING, frames._READING.pack(9, 0.0, 0.0, 0, 0)),
        (frames.READING, frames._READING.pack(0, math.nan, 0.0, 0, 0)),
        (frames.READING, frames._READING.pack(0, 0.0, 0.0, 0, 1) + bytes(12)),
        (frames.TEXT, b"{}"),
        (frames.FACTS, b"[]"),
        (frames.GAPS, b'[{"source":1}]'),
        (frames.END, b'{"complete":true,"cpu_seconds":"x"}'),
        (frames.FACTS, b"[" * 100_000),
        (frames.FACTS, b"\xff"),
    ],
)
def test_a_frame_that_says_what_cannot_be_ends_the_reading_with_a_gap(kind: bytes, plain: bytes) -> None:
    recording = opened(SOURCE, frames.pack(kind, plain))
    assert not recording.complete
    assert "damaged" in recording.gaps[-1].reason


def test_time_cannot_go_back() -> None:
    at = [frames.pack(frames.READING, frames._READING.pack(0, t, 0.0, 0, 0)) for t in (2.0, 1.0)]
    assert list(opened(SOURCE, *at).sources[0].at) == [2.0]


def test_a_frame_that_unpacks_without_end_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_PLAIN", 1000)
    assert not opened(frames.pack(frames.FACTS, b" " * 2000 + b"{}")).complete


def test_memory_has_a_limit(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(restore, "MAX_CHANGES", 8)
    recording = load_stream(io.BytesIO(data), "r")
    assert 0 < sum(len(source.at) for source in recording.sources) < 8
    monkeypatch.setattr(restore, "MAX_DOCUMENTS", 100)
    assert load_stream(io.BytesIO(data), "r").sources == []


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(tail: bytes) -> None:
    assert not load_stream(io.BytesIO(HEAD + tail), "r").complete


@given(draw=st.data())
def test_no_altered_byte_breaks_the_reader(data: bytes, draw: st.DataObject) -> None:
    altered = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        altered[draw.draw(st.integers(len(HEAD), len(data) - 1))] = draw.draw(st.integers(0, 255))
    recording = load_stream(io.BytesIO(bytes(altered)), "r")
    assert recording.complete == (bytes(altered) == data)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "kind", "wall", "role", "source", "first", "series", "key", "text", "cure"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(frames.KINDS)), json_values | st.binary(max_size=60)), max_size=5
    )
)
def test_no_well_packed_nonsense_breaks_the_reader(pieces: list[tuple[bytes, object]]) -> None:
    packed = [
        frames.pack(kind, value if isinstance(value, bytes) else json.dumps(value).encode())
        for kind, value in pieces
    ]
    recording = opened(SOURCE, *packed)
    for source in recording.sources:
        assert len(source.at) == len(source.took) == len(source.size)


def test_the_checksum_covers_the_kind() -> None:
    frame = bytearray(frames.pack(frames.FACTS, b"{}"))
    frame[:1] = frames.GAPS
    assert zlib.crc32(frames.GAPS + frame[9:]) != int.from_bytes(frame[5:9], "little")
    assert not opened(bytes(frame)).complete
