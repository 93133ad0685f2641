"""The recorder that is one file: it runs without an install, and what it writes is diagnosed."""

from __future__ import annotations

import ast
import contextlib
import gzip
import itertools
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from loads import endpoint
from typer.testing import CliRunner

import kvdoctor.standalone
from kvdoctor.cli import app
from kvdoctor.diagnose import diagnose
from kvdoctor.export import export_text
from kvdoctor.readers import read
from kvdoctor.recording import Recording

SCRIPT = Path(kvdoctor.standalone.__file__)
DEADLINE = kvdoctor.standalone.DEADLINE


def pages(count=6, **numbers):
    """The texts of an engine's readings, one after the other."""
    source = endpoint(seconds=15.0, readings=count, **numbers).source()
    whole = "".join(export_text(Recording(1, "0", source.wall, [source])))
    parts = [part.partition("\n")[2] for part in ("\n" + whole).split("\n#@ ")[1:]]
    return ["\n".join(line for line in part.split("\n") if not line.startswith("#=")) for part in parts]


class Server:
    """Answers each GET with the next of some texts."""

    def __init__(self, texts, *, status=200, kind="text/plain"):
        self.asked: list[tuple[str, str | None]] = []
        turns = itertools.chain(texts, itertools.repeat(texts[-1]))
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append((self.path, self.headers["Authorization"]))
                body = next(turns).encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *args):
        self.server.shutdown()
        self.server.server_close()


class Dripping:
    """Sends some bytes, then nothing more but one now and then; or closes at once."""

    def __init__(self, answer, *, drips=True):
        self.answer, self.drips = answer, drips
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.ended = threading.Event()

    def __enter__(self):
        threading.Thread(target=self._serve, daemon=True).start()
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def _serve(self):
        with contextlib.suppress(OSError):
            connection, _ = self.listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(self.answer)
                while self.drips and not self.ended.wait(0.3):
                    connection.sendall(b"x")

    def __exit__(self, *args):
        self.ended.set()
        self.listener.close()


def run(folder, *arguments, environment=None):
    """Run the file as a copy, with nothing but the standard library in reach."""
    copy = folder / "record.py"
    copy.write_bytes(SCRIPT.read_bytes())
    command = [sys.executable, "-I", "-S", str(copy), *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False, env=environment
    )


def test_what_it_writes_in_a_bare_python_is_diagnosed(tmp_path):
    with Server(pages()) as one, Server(pages(prompt=900)) as two:
        urls = ("--url", one.url, "--url", f"{two.url}/metrics")
        done = run(tmp_path, *urls, "--seconds", "1.0", "--interval", "0.2", "--out", "pod")
    assert done.returncode == 0, done.stderr
    files = sorted(tmp_path.glob("pod-*.prom.gz"))
    assert len(files) == 2
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    assert {path for path, _ in one.asked} == {"/metrics"}
    found = diagnose(read([str(file) for file in files]))
    assert [target.engine for target in found.targets] == ["vllm", "vllm"]
    assert {target.url for target in found.targets} == {f"{one.url}", f"{two.url}/metrics"}
    assert found.window.scrapes >= 4
    assert not found.window.lifetime


def test_the_command_prints_it_as_it_is():
    result = CliRunner().invoke(app, ["record", "--print-script"])
    assert result.exit_code == 0
    assert result.output == SCRIPT.read_text()


def test_it_needs_nothing_but_the_standard_library_of_3_8():
    tree = ast.parse(SCRIPT.read_text(), feature_version=(3, 8))
    names = {a.name.partition(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    names |= {(n.module or "").partition(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert names <= set(sys.stdlib_module_names)


def test_json_that_a_reading_drains_is_asked_for_once_only(tmp_path):
    with Server(['[{"iter": 1}]'], kind="application/json") as server:
        done = run(tmp_path, "--url", f"{server.url}/metrics", "--seconds", "1", "--interval", "0.2")
    assert done.returncode == 1
    assert len(server.asked) == 1
    assert "JSON" in done.stderr


def test_a_failure_is_written_down_and_tried_again(tmp_path):
    with Server(["no"], status=503) as server:
        done = run(tmp_path, "--url", server.url, "--seconds", "0.6", "--interval", "0.2")
    assert done.returncode == 1
    text = gzip.decompress((tmp_path / "kvdoctor-1.prom.gz").read_bytes())
    assert text.count(b"#! HTTP 503") == len(server.asked) > 1


def test_a_token_goes_to_the_url_and_into_no_file(tmp_path):
    environment = {**os.environ, "TOKEN": "s3cret-value"}
    with Server(pages()) as server:
        run(
            tmp_path, "--url", server.url, "--seconds", "0", "--api-key-env", "TOKEN", environment=environment
        )
    assert server.asked == [("/metrics", "Bearer s3cret-value")]
    assert b"s3cret" not in gzip.decompress((tmp_path / "kvdoctor-1.prom.gz").read_bytes())


@pytest.mark.parametrize(
    "arguments",
    [
        ("--url", "ftp://h/metrics"),
        ("--url", "http://user:word@h/metrics"),
        ("--url", "http://h:port/metrics"),
        ("--url", "http://[::1"),
        ("--url", "http://127.0.0.1:1", "--seconds", "99999999"),
        ("--url", "http://127.0.0.1:1", "--interval", "0"),
        ("--url", "http://127.0.0.1:1", "--api-key-env", "NO_SUCH_VARIABLE_HERE"),
        (),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_read(tmp_path, arguments):
    done = run(tmp_path, *arguments)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "word" not in done.stderr
    assert not list(tmp_path.glob("*.gz"))


@pytest.mark.parametrize("value", ["s3cret\nline", "s3cret\u20ac", "\n"])
def test_a_token_that_no_header_can_carry_is_refused_without_being_shown(tmp_path, value):
    environment = {**os.environ, "TOKEN": value}
    done = run(tmp_path, "--url", "http://127.0.0.1:1", "--api-key-env", "TOKEN", environment=environment)
    assert done.returncode == 1
    assert "TOKEN holds characters" in done.stderr
    assert "s3cret" not in done.stderr


def test_a_line_feed_behind_a_token_is_no_part_of_it(tmp_path):
    environment = {**os.environ, "TOKEN": "s3cret-value\n"}
    arguments = ("--seconds", "0", "--api-key-env", "TOKEN")
    with Server(pages()) as server:
        run(tmp_path, "--url", server.url, *arguments, environment=environment)
    assert server.asked == [("/metrics", "Bearer s3cret-value")]


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"]
)
def test_an_answer_that_drips_ends_at_the_deadline(tmp_path, answer):
    with Dripping(answer) as url:
        begin = time.monotonic()
        done = run(tmp_path, "--url", url, "--seconds", "0")
        assert time.monotonic() - begin < 3 * DEADLINE
    assert done.returncode == 1
    assert "took too long" in done.stderr


def test_a_page_that_breaks_off_is_a_failure(tmp_path):
    with Dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nvllm:a 1\n", drips=False) as url:
        done = run(tmp_path, "--url", url, "--seconds", "0")
    assert done.returncode == 1
    assert "broke off" in done.stderr


def test_interrupted_it_closes_its_file(tmp_path):
    copy = tmp_path / "record.py"
    copy.write_bytes(SCRIPT.read_bytes())
    with Server(pages()) as server:
        words = ["--url", server.url, "--seconds", "60", "--interval", "0.2"]
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(copy), *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True
        )
        end = time.monotonic() + 20
        while len(server.asked) < 4 and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "Traceback" not in said
    assert "0 failed" in said
    recording = read([str(tmp_path / "kvdoctor-1.prom.gz")])
    assert not any("cut" in gap.reason for gap in recording.gaps)


def test_an_engine_that_dies_leaves_its_pages_and_its_failures(tmp_path):
    copy = tmp_path / "record.py"
    copy.write_bytes(SCRIPT.read_bytes())
    server = Server(pages(20))
    with server:
        words = ["--url", server.url, "--seconds", "2", "--interval", "0.2"]
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(copy), *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True
        )
        end = time.monotonic() + 20
        while len(server.asked) < 3 and time.monotonic() < end:
            time.sleep(0.05)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "ConnectionRefusedError" in said
    recording = read([str(tmp_path / "kvdoctor-1.prom.gz")])
    assert any("ConnectionRefusedError" in gap.reason for gap in recording.gaps)
    assert len(recording.sources[0].at) >= 3


def test_nothing_is_written_over(tmp_path):
    (tmp_path / "kvdoctor-1.prom.gz").write_text("mine")
    done = run(tmp_path, "--url", "http://127.0.0.1:1", "--seconds", "0")
    assert done.returncode != 0
    assert (tmp_path / "kvdoctor-1.prom.gz").read_text() == "mine"


def test_a_page_with_our_mark_in_it_stays_one_page(tmp_path):
    text = pages()[0] + "\n#@ 1 2\nvllm:evil 1\n"
    with Server([text]) as server:
        run(tmp_path, "--url", server.url, "--seconds", "0")
    recording = read([str(tmp_path / "kvdoctor-1.prom.gz")])
    assert len(recording.sources[0].at) == 1


def test_killed_it_leaves_what_it_had(tmp_path):
    copy = tmp_path / "record.py"
    copy.write_bytes(SCRIPT.read_bytes())
    with Server(pages()) as server:
        command = [
            sys.executable,
            "-I",
            "-S",
            str(copy),
            "--url",
            server.url,
            "--seconds",
            "60",
            "--interval",
            "0.2",
        ]
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while len(server.asked) < 4 and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=20)
    recording = read([str(tmp_path / "kvdoctor-1.prom.gz")])
    assert len(recording.sources[0].at) >= 2
