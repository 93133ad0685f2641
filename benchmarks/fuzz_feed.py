"""How each kind of reader is fed with bytes: `FEEDS`, and what real texts it can start from: `corpus`."""

from __future__ import annotations

import gzip
import http.client
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import yaml

from benchmarks.fuzz_process import command_line
from benchmarks.fuzz_report import answer, plain
from kvdoctor import frames
from kvdoctor.collectors.prometheus import Endpoint
from kvdoctor.commands.fleet import read_server
from kvdoctor.errors import KvdoctorError, Unavailable
from kvdoctor.exposition import Parser
from kvdoctor.probes.sse import _events, _timed
from kvdoctor.readers import read
from kvdoctor.readers.evidence import evidence_recording
from kvdoctor.recording import Column, Recording, Source, add_reading
from kvdoctor.render import roofline_html, roofline_json, roofline_text
from kvdoctor.roofline.asked import Asked, report_of
from kvdoctor.roofline.config import shape_from_config
from kvdoctor.wire import Answer, _answer, _Response

ROOT = Path(__file__).resolve().parents[1]
CUT = b"\n\0\n"
"""Stands between two answers or two pages in one input."""
LIMIT = 2**20
MOST = 12 * 2**10
"""Bytes of a real text that is started from: longer ones are cut, they only take longer."""


def file(data: bytes) -> None:
    """Read the bytes as the user's file, and answer from it."""
    standard = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(data))
    try:
        recording = read(["-"])
    finally:
        sys.stdin = standard
    answer(recording, data)


def exposition(data: bytes) -> None:
    """Read pages of one source, one after the other; then the same bytes as a file."""
    columns: list[Column] = []
    parser = Parser(columns)
    for page in data.split(CUT):
        change = parser.read(page)
        if len(change.ids) != len(set(change.ids)) or any(n >= len(columns) for n in change.ids):
            raise ValueError("changes of columns that cannot be")
    parser.gaps("page")
    file(data)


def recording(data: bytes) -> None:
    """Read a recording; of bytes that are none, each piece becomes a frame whose sum is right."""
    if not data.startswith((frames.MAGIC, b"\x1f\x8b")):
        kinds = b"HSDRTFGE"
        pieces = [(kinds[p[0] % 8 : p[0] % 8 + 1], p[1:]) for p in data.split(CUT) if p]
        data = frames.MAGIC + b"1\n" + b"".join(frames.pack(kind, plain_) for kind, plain_ in pieces)
    file(data)


class _Wire:
    """Gives answers that stand ready, the last one again and again."""

    def __init__(self, bodies: list[bytes], kind: str) -> None:
        self._bodies, self._kind = bodies, kind

    def get(self, target: str, headers: dict[str, str], *, deadline_s: float, limit: int) -> Answer:
        body = self._bodies.pop(0) if len(self._bodies) > 1 else self._bodies[0]
        return Answer(200, self._kind, "", body, False)

    def close(self) -> None:
        return


def documents(data: bytes) -> None:
    """Read a page, a version, a list of models and a usage from one server; then the bytes as a file."""
    wire = _Wire(data.split(CUT), "application/json" if data[:1] in b"[{" else "text/plain")
    endpoint = Endpoint("http://127.0.0.1:8000")
    with patch.object(Endpoint, "_open", lambda _: wire):
        with suppress(Unavailable):
            endpoint.read()
        for text in endpoint.documents().values():
            plain(text, "documents")
    with suppress(KvdoctorError):
        _timed(_events(io.BytesIO(b"data: " + data.replace(CUT, b"\ndata: "))), 0.0, 4)  # type: ignore[arg-type]
    file(data)


def prometheus(data: bytes) -> None:
    """Read the answers of a server that speaks Prometheus' API: first names, then samples."""
    wire = _Wire(data.split(CUT), "application/json")
    with patch("kvdoctor.readers.prometheus_api.Wire", lambda _: wire):
        found = read_server("http://127.0.0.1:9090", "1h", [], None)
    answer(found, data)


def rows(data: bytes) -> None:
    """Read the rows of a case: a JSON list of objects with kind, name and value."""
    found = _json(data)
    if isinstance(found, list):
        answer(evidence_recording([row for row in found if isinstance(row, dict)], "case"), data)


def config(data: bytes) -> None:
    """Read a model's config.json, its side file behind it, and work the roofline out in every format."""
    texts = data.split(CUT)
    found, side = _json(texts[0]), _json(texts[1]) if len(texts) > 1 else None
    if not isinstance(found, dict):
        return
    shape = shape_from_config(found, side=side if isinstance(side, dict) else None)
    report = report_of(Asked("config.json", gpu="H100", batch=8.0, context="4k"), shape)
    plain(roofline_text.render(report), "terminal")
    plain(roofline_html.render(report), "HTML")
    json.loads(roofline_json.render(report), parse_constant=_refuse)


def answer_of_http(data: bytes) -> None:
    """Read the bytes as what came over a connection."""

    class Connection:
        def makefile(self, mode: str) -> io.BufferedReader:
            return io.BufferedReader(io.BytesIO(data))

    response = _Response(Connection(), method="GET")  # type: ignore[arg-type]
    with suppress(OSError, http.client.HTTPException, Unavailable):
        response.begin()
        found = _answer(response, LIMIT)
        if len(found.body) > LIMIT:
            raise MemoryError("more than the limit")


def _later(line: bytes) -> bytes:
    """Return a line of a page as it might read some time later: half as much again, and three."""
    head, _, value = line.rpartition(b" ")
    try:
        return line if line.startswith(b"#") else b"%s %.17g" % (head, 1.5 * float(value) + 3)
    except ValueError:
        return line


def _json(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _refuse(text: str) -> float:
    raise ValueError(f"{text} in JSON")


FEEDS: Mapping[str, Callable[[bytes], None]] = {
    "exposition": exposition,
    "recording": recording,
    "json": documents,
    "log": file,
    "prometheus": prometheus,
    "rows": rows,
    "config": config,
    "argv": command_line,
    "http": answer_of_http,
}

_FILES: Mapping[str, tuple[str, ...]] = {
    "exposition": ("*.prom", "*.prom.gz"),
    "recording": ("*.kvrec",),
    "log": ("*.log",),
    "rows": ("*.yaml",),
    "config": ("presets/*.json", "model-configs/*.json"),
}
"""Which files of a folder a reader can start from."""


def corpus(reader: str, folders: list[Path]) -> Iterator[bytes]:
    """Yield real texts for a reader: its own under tests/corpus, and those found in folders."""
    own = ROOT / "tests" / "corpus" / reader
    yield from (path.read_bytes() for path in sorted(own.glob("*")))
    for folder in folders:
        for pattern in _FILES.get(reader, ()):
            for path in sorted(folder.rglob(pattern)):
                yield _start(path)


def _start(path: Path) -> bytes:
    """Return the beginning of a real text; of a case's YAML its rows as JSON."""
    data = path.read_bytes()
    if path.suffix == ".yaml":
        found = yaml.safe_load(data)
        return json.dumps(found.get("evidence") if isinstance(found, dict) else None, default=str).encode()
    if path.suffix == ".prom":
        page = data[: data.rfind(b"\n", 0, MOST) + 1]
        return b"#@ 1 1\n" + page + b"#@ 20 1\n" + b"\n".join(_later(line) for line in page.split(b"\n"))
    whole = path.suffix in (".json", ".kvrec") and len(data) < 4 * MOST
    return data if whole else (gzip.decompress(data) if path.suffix == ".gz" else data)[:MOST]


_PAGE = b'vllm:num_requests_running{engine="0"} 1\nvllm:generation_tokens_total{engine="0"} %d\n'


def warm() -> None:
    """Import everything that is imported late, so that it counts for no input."""
    answer(_two_pages(), b"", every=True)


def _two_pages() -> Recording:
    columns: list[Column] = []
    source, parser = Source("page", "prometheus", columns=columns), Parser(columns)
    for at in (0, 1):
        change = parser.read(_PAGE % at)
        add_reading(source, at=at, took=0.0, size=9, ids=change.ids, values=change.values)
    return Recording(frames.VERSION, "0", 0.0, [source])
