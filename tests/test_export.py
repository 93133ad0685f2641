"""The text export reads back as what it was, and is a page that Prometheus can read."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kvdoctor.export import export_text
from kvdoctor.exposition import Parser
from kvdoctor.model import Cost, Gap
from kvdoctor.readers import read
from kvdoctor.recording import Recording, Source, add_reading

TEXTS = (
    b'# TYPE a_seconds histogram\na_seconds_bucket{le="1",x="\\"}\\n\\\\"} 1\na_seconds_sum 0.5\nb 2\n',
    b'# TYPE a_seconds histogram\na_seconds_bucket{le="1",x="\\"}\\n\\\\"} 4\na_seconds_sum 1.5\n'
    b"# TYPE c_total counter\nc_total 2.894350336e+010\na_seconds_count 4\nd -Inf\n",
)


def recorded(*texts: bytes, name: str = "http://h:1/metrics") -> Recording:
    source = Source(name, "prometheus", 1_795_971_282.25, "decode")
    source.texts["version"] = "0.32.0"
    parser = Parser(source.columns)
    for number, text in enumerate(texts):
        change = parser.read(text)
        add_reading(
            source, at=number * 1.0, took=0.0125, size=len(text), ids=change.ids, values=change.values
        )
    gaps, cost = [Gap("s", "why", "cure")], Cost(0.5, 7, 0.0125)
    return Recording(1, "0.1.0", source.wall, [source], gaps, {"gpu": "H200"}, cost)


def written(recording: Recording, folder: Path) -> Recording:
    path = folder / "export.txt"
    path.write_text("".join(export_text(recording)), newline="")
    return read([str(path)])


def state(recording: Recording) -> list[object]:
    """Return all that an export keeps: everything but the order of the series and the sizes of the pages."""
    return [
        recording.kvdoctor,
        recording.wall,
        recording.gaps,
        recording.facts,
        recording.cost,
        recording.complete,
        [
            (s.name, s.kind, s.wall, s.role, s.texts, list(s.at), [round(t, 6) for t in s.took])
            for s in recording.sources
        ],
        [
            sorted(repr((c.name, c.labels, c.type, c.index, c.value)) for c in source.columns)
            for source in recording.sources
        ],
    ]


def test_an_export_reads_back_as_the_recording(tmp_path: Path) -> None:
    recording = recorded(*TEXTS)
    assert state(written(recording, tmp_path)) == state(recording)


def test_two_sources_stay_two(tmp_path: Path) -> None:
    recording = recorded(*TEXTS)
    recording.sources.extend(recorded(TEXTS[0], name="http://other:1/metrics").sources)
    assert state(written(recording, tmp_path)) == state(recording)


@given(st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.text('x"\\\n\r ü', max_size=3), st.floats()))))
def test_any_values_and_labels_read_back(
    tmp_path_factory: object, pages: list[list[tuple[str, str, float]]]
) -> None:
    texts = []
    for page in pages:
        label = {v: v.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"") for _, v, _ in page}
        lines = {(n, v): f'{n}{{l="{label[v]}"}} {value!r}\n' for n, v, value in page}
        texts.append("".join(lines.values()).encode())
    recording = recorded(*(text for text in texts if text))
    if recording.sources[0].at:
        folder = tmp_path_factory.mktemp("export")  # type: ignore[attr-defined]
        assert state(written(recording, folder)) == state(recording)


def test_prometheus_reads_each_page() -> None:
    pages = list(export_text(recorded(*TEXTS)))
    assert all(page.startswith("#@ ") for page in pages)
    families = {f.name: f.type for f in text_string_to_metric_families(pages[1])}
    assert families == {"a_seconds": "histogram", "b": "unknown", "c": "counter", "d": "unknown"}


def test_a_recording_without_a_reading_still_says_why() -> None:
    recording = recorded()
    assert '"why"' in "".join(export_text(recording))
