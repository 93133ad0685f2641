"""Prometheus' API: a real server that scrapes a replayed recording, and a false one that misbehaves."""

from __future__ import annotations

import gzip
import http.server
import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdoctor.commands.fleet import read_server, table
from kvdoctor.diagnose import diagnose
from kvdoctor.errors import KvdoctorError
from kvdoctor.fleet import fleet
from kvdoctor.readers.pages import pages_of
from kvdoctor.readers.prometheus_api import read_api, seconds_of
from kvdoctor.readers.replicas import Replicas

LOGS = Path(__file__).parents[1] / "fixtures" / "logs"
RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"
PROMETHEUS = shutil.which("prometheus")
INTERVAL = 0.25
"""Seconds between two scrapes: each gets the next page of a recording."""


class Replay(http.server.BaseHTTPRequestHandler):
    """Answers every scrape with the next page."""

    server: Pages

    def do_GET(self) -> None:
        page = self.server.next()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        return


class Pages(http.server.ThreadingHTTPServer):
    """A recording's pages, one after the other, the last one again and again."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        super().__init__(("127.0.0.1", 0), Replay)
        with gzip.open(path) as file:
            self._pages = [page.text for page in pages_of(file) if page.wall is not None]
        self._left = list(self._pages)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def done(self) -> bool:
        return not self._left

    def next(self) -> bytes:
        return self._left.pop(0) if self._left else self._pages[-1]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def scraping(folder: Path, *recordings: Path) -> Iterator[tuple[str, list[Pages]]]:
    """Run a Prometheus that scrapes recordings, until it has seen all their pages."""
    replicas = [Pages(path) for path in recordings]
    targets = ", ".join(f'"127.0.0.1:{replica.server_port}"' for replica in replicas)
    config = folder / "prometheus.yml"
    config.write_text(
        f"global: {{scrape_interval: {INTERVAL * 1000:.0f}ms, scrape_timeout: {INTERVAL * 1000:.0f}ms}}\n"
        f"scrape_configs:\n- job_name: vllm\n  static_configs: [{{targets: [{targets}]}}]\n"
    )
    port = free_port()
    log = (folder / "log").open("wb")
    server = subprocess.Popen(
        [str(PROMETHEUS), f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
         f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log,
    )  # fmt: skip
    try:
        end = time.monotonic() + 60
        while not all(replica.done for replica in replicas) and time.monotonic() < end:
            time.sleep(INTERVAL)
        assert all(replica.done for replica in replicas), (folder / "log").read_text()
        time.sleep(2 * INTERVAL)
        yield f"http://127.0.0.1:{port}", replicas
    finally:
        server.terminate()
        server.wait(20)
        log.close()
        for replica in replicas:
            replica.shutdown()
            replica.server_close()


needs_server = pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus here: apt-get install prometheus")


@needs_server
def test_a_real_server_tells_what_the_recording_told_of_each_replica(tmp_path):
    recordings = (LOGS / "vllm-0.32-admission-limit.prom.gz", RECORDINGS / "healthy.prom.gz")
    with scraping(tmp_path, *recordings) as (url, replicas):
        recording = read_server(url, "5m", [], None)
        one = read_server(url, "5m", [f'instance="127.0.0.1:{replicas[0].server_port}"'], None)
    names = [f"127.0.0.1:{replica.server_port}" for replica in replicas]
    assert {source.name for source in recording.sources} == set(names)
    assert [source.name for source in one.sources] == [names[0]]
    found = fleet(recording)
    verdicts = {replica.name: replica.verdict for replica in found.replicas}
    assert verdicts == {names[0]: "queueing/admission_limit", names[1]: "healthy"}
    assert any("waiting" in evidence.name for evidence in found.skew)
    assert all(name in table(found) for name in names)
    assert diagnose(recording).primary_name == "queueing"
    assert any("healthy" in note for note in diagnose(recording).notes)


class Api(http.server.BaseHTTPRequestHandler):
    """A server that knows two metrics of two replicas."""

    server: FakeApi

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.server.asked.append((parts.path, parse_qs(parts.query), dict(self.headers)))
        status, body = self.server.answer(parts.path, parse_qs(parts.query))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


class FakeApi(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, series, *, status: int = 200, body: bytes | None = None, warnings=()) -> None:
        super().__init__(("127.0.0.1", 0), Api)
        self._warnings = list(warnings)
        self.asked: list[tuple[str, dict[str, list[str]], dict[str, str]]] = []
        self._series, self._status, self._body = series, status, body
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, path: str, _query: dict[str, list[str]]) -> tuple[int, bytes]:
        if self._body is not None:
            return self._status, self._body
        names = sorted({labels["__name__"] for labels, _ in self._series})
        data: object = names
        if path.endswith("/query"):
            data = {"resultType": "matrix", "result": [{"metric": m, "values": v} for m, v in self._series]}
        return 200, json.dumps({"status": "success", "data": data, "warnings": self._warnings}).encode()


@contextmanager
def api(series=(), **kwargs):
    server = FakeApi(series, **kwargs)
    try:
        yield server, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


RUNNING, TOKENS = "vllm:num_requests_running", "vllm:generation_tokens_total"
WANTED = {RUNNING, "vllm:generation_tokens"}


def series(name: str, pod: str, *points: tuple[float, float], **labels: str):
    own = {"__name__": name, "pod": pod, "instance": f"{pod}:8000", "job": "vllm", **labels}
    return own, [[at, str(value)] for at, value in points]


def test_raw_samples_of_each_pod_become_a_source_with_their_own_times():
    told = [
        series(RUNNING, "a", (100, 1), (115, 2)),
        series(RUNNING, "b", (101, 5)),
        series(TOKENS, "a", (100, 10), (115, 30)),
    ]
    with api(told) as (_, url):
        recording = read_api(url, since=60, wanted=WANTED, now=120)
    a, b = recording.sources
    assert (a.name, b.name) == ("a", "b")
    assert list(a.at) == [40.0, 55.0]
    assert {c.name: list(c.value) for c in a.columns} == {RUNNING: [1.0, 2.0], TOKENS: [10.0, 30.0]}
    assert all("pod" not in dict(c.labels) for c in a.columns)


def test_a_reset_between_two_scrapes_stays_visible():
    told = [series(TOKENS, "a", *((15 * n, v) for n, v in enumerate((10, 20, 3, 40, 50))), engine="0")]
    with api(told) as (_, url):
        found = diagnose(read_api(url, since=100, wanted=WANTED, now=100))
    assert found.window.restarts == 1


def test_a_series_that_ended_is_gone():
    told = [series(RUNNING, "a", (1, 1)), series(TOKENS, "a", (1, 1), (16, 2), (31, 3))]
    with api(told) as (_, url):
        (source,) = read_api(url, since=60, wanted=WANTED, now=60).sources
    running = next(c for c in source.columns if c.name == RUNNING)
    assert list(running.index) == [0, 1]
    assert running.value[1] != running.value[1]


def test_only_names_of_the_vocabulary_are_asked_for():
    told = [series(RUNNING, "a", (1, 1)), series("node_cpu_seconds_total", "a", (1, 1))]
    with api(told) as (server, url):
        read_api(url, since=60, wanted=WANTED, matches=['namespace="prod"'], now=60)
    queries = [asked["query"][0] for path, asked, _ in server.asked if path.endswith("/query")]
    assert queries == ['{__name__=~"vllm:num_requests_running",namespace="prod"}[60s]']


def test_every_matcher_is_asked_for_beside_a_name_whatever_its_value_holds():
    told = [series(RUNNING, "a", (1, 1))]
    with api(told) as (server, url):
        read_api(url, since=60, wanted=WANTED, matches=['{pod=~"a{2}"}', 'pod!="b"'], now=60)
    listed = next(asked["match[]"] for path, asked, _ in server.asked if path.endswith("/values"))
    assert listed == ['{__name__=~".+",pod=~"a{2}"}', '{__name__=~".+",pod!="b"}']
    queries = [asked["query"][0] for path, asked, _ in server.asked if path.endswith("/query")]
    assert [query.partition(",")[2] for query in queries] == ['pod=~"a{2}"}[60s]', 'pod!="b"}[60s]']


def test_what_a_server_warns_of_is_a_gap_once():
    told = [series(RUNNING, "a", (1, 1), (16, 1)), series(TOKENS, "a", (1, 1), (16, 2))]
    with api(told, warnings=["partial response: store \x1b[31mis down", 7]) as (_, url):
        gaps = read_api(url, since=60, wanted=WANTED, now=60).gaps
    said = [gap.reason for gap in gaps]
    assert said == [
        "it warns that its answer may lack data: partial response: store is down",
        "it warns that its answer may lack data: 7",
    ]


def test_a_token_goes_to_this_server_and_a_prefix_in_the_path_is_kept():
    with api([series(RUNNING, "a", (1, 1))]) as (server, url):
        read_api(f"{url}/prefix/", since=60, wanted=WANTED, token="secret-token", now=60)
    assert {path.split("/api/")[0] for path, _, _ in server.asked} == {"/prefix"}
    assert {headers["Authorization"] for _, _, headers in server.asked} == {"Bearer secret-token"}


def test_the_token_is_in_no_message_and_in_no_recording():
    with api(status=401, body=b"no") as (_, url), pytest.raises(KvdoctorError) as caught:
        read_api(url, since=60, wanted=WANTED, token="secret-token", now=60)
    assert "secret-token" not in f"{caught.value.message} {caught.value.hint}"


TROUBLE = [
    (
        200,
        b'{"status":"error","errorType":"bad_data","error":"invalid parameter \\u001b[31m"}',
        "invalid parameter",
    ),
    (503, b"", "not ready"),
    (404, b"<html>", "no Prometheus API"),
    (200, b"not json", "HTTP 200"),
    (200, b"[" * 100_000, "HTTP 200"),
    (200, b'{"status":"success","data":[]}', "no metric of an engine"),
    (302, b"", "HTTP 302"),
]


@pytest.mark.parametrize(("status", "body", "said"), TROUBLE)
def test_a_server_that_does_not_answer_is_told_in_a_sentence(status, body, said):
    with api(status=status, body=body) as (_, url), pytest.raises(KvdoctorError, match=said) as caught:
        read_api(url, since=60, wanted=WANTED, now=60)
    assert "\x1b" not in caught.value.message


def test_where_nobody_listens_that_is_said():
    with pytest.raises(KvdoctorError):
        read_api(f"http://127.0.0.1:{free_port()}", since=60, wanted=WANTED)


@pytest.mark.parametrize(
    ("since", "seconds"), [("90s", 90), ("15m", 900), ("1h", 3600), ("2d", 172800), ("30", 30)]
)
def test_a_stretch_of_time_is_read(since, seconds):
    assert seconds_of(since) == seconds


@pytest.mark.parametrize("since", ["", "soon", "-1h", "0s", "1y", "9" * 40])
def test_what_is_no_stretch_of_time_is_refused(since):
    with pytest.raises(KvdoctorError):
        seconds_of(since)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(["__name__", "pod", "le", "x"]), st.text(max_size=5)),
            st.lists(st.one_of(st.none(), st.text(), st.lists(st.one_of(st.floats(), st.text(), st.none())))),
        )
    )
)
def test_samples_of_any_kind_are_taken_or_left(told):
    replicas = Replicas()
    for labels, samples in told:
        replicas.add(labels, samples)
    for source in replicas.sources(0.0):
        assert list(source.at) == sorted(source.at)


def test_the_replay_gives_one_page_after_the_other():
    replica = Pages(RECORDINGS / "healthy.prom.gz")
    try:
        url = f"http://127.0.0.1:{replica.server_port}/metrics"
        first, second = (urllib.request.urlopen(url).read() for _ in range(2))
        assert first != second
    finally:
        replica.shutdown()
        replica.server_close()
