"""Streams and files that take nothing: never a traceback, never silence, and no other report is kept back."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import replay
from program import LIMIT, PROGRAM, Program

from kvdoctor.commands import streams

RECORDED = str(replay.RECORDINGS / "kv-too-small.prom.gz")
FULL = Path("/dev/full")


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def shell(program: Program, line: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of the shell in which `KV` is the program and `FILE` a recording."""
    line = line.replace("KV", " ".join(PROGRAM)).replace("FILE", RECORDED)
    return subprocess.run(
        ["sh", "-c", line],
        env=program.environment,
        cwd=program.folder,
        capture_output=True,
        timeout=LIMIT,
        check=False,
    )


# a line of the shell, its exit code, what stands on standard error
STREAMS: dict[str, tuple[int, bytes]] = {
    "KV report FILE --fail-on capacity >&-": (1, b"standard output could not be written: it is closed"),
    "KV report nope 2>&-": (1, b""),
    "KV report FILE --json r.json >&- 2>&-": (1, b""),
    "KV report FILE --json >/dev/null 2>&-": (0, b""),
    "KV report - <&-": (1, b"stdin is empty"),
    "KV report FILE --json r.json 2>/dev/full": (0, b""),
}


@pytest.mark.skipif(not FULL.exists(), reason="this system has no full device")
@pytest.mark.parametrize("line", STREAMS)
def test_a_stream_that_is_closed_or_full_is_no_traceback(line: str, program: Program) -> None:
    done = shell(program, line)
    code, said = STREAMS[line]
    assert done.returncode == code
    assert said in done.stderr
    assert b"Traceback" not in done.stderr
    assert bool(done.stderr) == bool(said)


NAMES_OF_CLOSED = (
    "KV report FILE --json /dev/stdout >&-",
    "KV report FILE --html /dev/fd/1 --json >&-",
    "KV report FILE --markdown /proc/self/fd/1 >&-",
    "ln -s /dev/stdout mine; KV report FILE --json mine >&-",
    "KV roofline Llama-3.1-8B --json /dev/stdout >&-",
)


@pytest.mark.parametrize("line", NAMES_OF_CLOSED)
def test_a_closed_stream_by_its_name_takes_no_report_either(line: str, program: Program) -> None:
    done = shell(program, line)
    assert done.returncode == 1
    assert b"cannot be written: it is closed\n  try: name a file: --" in done.stderr
    assert b" written\n" not in done.stderr


def test_nothing_is_written_and_nothing_said_where_the_only_place_is_a_closed_stderr(
    program: Program,
) -> None:
    done = shell(program, "KV report FILE --html /dev/stderr >/dev/null 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


@pytest.mark.parametrize("line", ["KV report FILE --json /dev/stdout", "KV report FILE --json /dev/null"])
def test_an_open_stream_or_the_null_device_by_its_name_does(line: str, program: Program) -> None:
    done = shell(program, line)
    assert done.returncode == 0
    assert b" written\n" in done.stderr


# Every command that says something on standard output.
SPEAKING = (
    "report FILE",
    "report FILE --json",
    "report FILE --markdown",
    "report FILE --json r.json",
    "diagnose FILE",
    "diff FILE FILE",
    "export FILE",
    "fleet FILE",
    "roofline Llama-3.1-8B",
    "roofline Llama-3.1-8B --json",
    "roofline --example",
    "probe",
    "targets",
    "demo --fault list",
    "record --print-script",
    "--help",
    "--version",
)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no full device")
@pytest.mark.parametrize("words", SPEAKING)
def test_an_answer_that_nobody_can_get_is_a_failure_and_a_sentence(words: str, program: Program) -> None:
    closed, full = shell(program, f"KV {words} >&-"), shell(program, f"KV {words} >/dev/full")
    assert (closed.returncode, full.returncode) == (1, 1)
    sentence = b"kvdoctor: standard output could not be written: "
    assert sentence + b"it is closed\n  try: > FILE, or >/dev/null\n" in closed.stderr
    assert sentence + b"No space left on device\n  try: make room\n" in full.stderr
    assert b"Traceback" not in closed.stderr + full.stderr


@pytest.mark.skipif(not FULL.exists(), reason="this system has no full device")
@pytest.mark.parametrize(
    "words",
    [
        "diagnose FILE --json /dev/full",
        "diagnose FILE --html /dev/full",
        "diagnose FILE --markdown /dev/full",
        "diagnose FILE --save /dev/full",
        "fleet FILE --save /dev/full",
        "record --url http://127.0.0.1:9 --save /dev/full",
        "roofline Llama-3.1-8B --json /dev/full",
        "roofline Llama-3.1-8B --html /dev/full",
    ],
)
def test_a_file_that_takes_nothing_is_a_failure_and_a_sentence(words: str, program: Program) -> None:
    done = shell(program, f"KV {words}")
    assert done.returncode == 1
    assert b"kvdoctor: /dev/full " in done.stderr
    assert b"\n  try: " in done.stderr
    assert b"Traceback" not in done.stderr


def test_what_says_nothing_needs_no_output(program: Program) -> None:
    done = shell(program, "KV record --url http://127.0.0.1:9 --seconds 1 --save r.kvrec >&-")
    assert b"standard output" not in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("report", RECORDED), 0),
        (("report", RECORDED, "--json", "--fail-on", "capacity"), 3),
        (("export", RECORDED), 0),
        (("diff", RECORDED, RECORDED), 0),
        (("--help",), 0),
    ],
)
def test_a_reader_that_leaves_ends_nothing_early(words: tuple[str, ...], code: int, program: Program) -> None:
    process = program.start(*words)
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    ran = program.end(process)
    assert (ran.code, ran.err) == (code, "")


def test_a_stream_drops_what_nobody_reads(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    stream = streams.Stream(writing)
    os.close(reading)
    assert (stream.write(b"abc"), stream.write(b"de"), stream.gone, stream.failure) == (3, 2, True, "")
    os.close(writing)


def test_a_stream_waits_for_a_reader_that_is_slow() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    stream = io.BufferedWriter(streams.Stream(writing))
    child = subprocess.Popen(["sh", "-c", "cat | wc -c"], stdin=reading, stdout=subprocess.PIPE)
    os.close(reading)
    stream.write(b"x" * 2**20)
    stream.flush()
    os.close(writing)
    assert child.communicate(timeout=LIMIT)[0].split() == [str(2**20).encode()]


@pytest.mark.parametrize("make", [lambda: streams.reader_gone(), lambda: bool(streams.failure())])
def test_a_stream_of_somebody_else_is_left_alone(make: Callable[[], bool]) -> None:
    streams.guard()
    assert make() is False
