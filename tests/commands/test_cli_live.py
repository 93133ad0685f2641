"""The program as a process that watches a replayed engine: the answer, the recording, and how it can be ended."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import threading
import time
from functools import partial
from pathlib import Path

import badserver
import pytest
import replay
from attacks import ATTACKS
from badserver import Handler, serving
from program import LIMIT, Program, Ran, together

from kvdoctor.restore import load

SPEED = 2.0
"""Much faster, and what waiting costs by the clock no longer fits what the histograms say it does."""
FAST = ("--seconds", "10", "--interval", "0.5")
ANSWERS = {
    "healthy": ("healthy", None),
    "kv-too-small": ("capacity", "preemption"),
    "overload": ("queueing", "admission_limit"),
    "salted": ("compute", "prefill"),
    "pd-slow-network": ("network", "used_badly"),
}
HOSTILE = (("markup", "ansi", "osc"), ("bidi", "html", "maths"))


@pytest.mark.parametrize("name", ANSWERS)
def test_a_recording_of_a_real_run_gives_the_right_answer(name: str, tmp_path: Path) -> None:
    ran = Program(tmp_path).run("report", str(replay.RECORDINGS / f"{name}.prom.gz"), "--json")
    answer = json.loads(ran.out)
    assert (answer["primary"], answer["subclass"]) == ANSWERS[name]


def replayed(name: str, program: Program) -> Ran:
    """Watch a fixture that passes faster than it was recorded."""
    with serving(replay.at_speed(name, SPEED)) as server:
        return program.run("diagnose", "--url", server.url, *FAST, "--json")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Ran, Program]]:
    """A live run of each load that lasts."""
    names = ("healthy", "kv-too-small", "overload")
    programs = {name: Program(tmp_path_factory.mktemp(name)) for name in names}
    ran = together({name: partial(replayed, name, program) for name, program in programs.items()})
    return {name: (ran[name], programs[name]) for name in names}


@pytest.mark.parametrize("name", ["healthy", "kv-too-small", "overload"])
def test_a_live_engine_gets_its_answer_its_header_and_its_recording(
    name: str, live: dict[str, tuple[Ran, Program]]
) -> None:
    ran, program = live[name]
    assert ran.code == 0
    (path,) = program.saved
    assert f"recording: {path}\n" in ran.err
    assert "vllm >=0.32.0, tiny, up " in ran.err
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(ran.out)["primary"] == ANSWERS[name][0]


@pytest.mark.parametrize("name", ["healthy", "kv-too-small", "overload"])
def test_the_recording_says_what_the_live_run_said_byte_for_byte(
    name: str, live: dict[str, tuple[Ran, Program]]
) -> None:
    ran, program = live[name]
    again = [program.run("report", str(program.saved[0]), "--json").out for _ in range(2)]
    assert again == [ran.out, ran.out]


def test_nothing_changed_between_a_recording_and_itself(tmp_path: Path) -> None:
    same = str(replay.RECORDINGS / "overload.prom.gz")
    ran = Program(tmp_path).run("diff", same, same)
    assert ran.code == 0
    assert ran.out.splitlines()[0].count("(unchanged)") == 2
    assert not re.search(r"[-+]\d+%", ran.out)


@pytest.mark.parametrize("name", ["kv-too-small", "overload"])
def test_every_page_read_once_gives_the_answer(name: str, tmp_path: Path) -> None:
    program = Program(tmp_path)
    count = len(replay.pages(name))
    with serving(replay.page_by_page(name)) as server:
        seconds = f"{0.1 * (count - 1):.1f}"
        ran = program.run(
            "diagnose", "--url", server.url, "--seconds", seconds, "--interval", "0.1", "--json"
        )
    answer = json.loads(ran.out)
    assert answer["window"]["finished"] > 0
    assert load(program.saved[0]).complete


class Watched:
    """A replayed engine that says when it has been read `enough` times."""

    def __init__(self, name: str, enough: int) -> None:
        self._answer, self._left = replay.page_by_page(name), enough
        self.read = threading.Event()

    def __call__(self, handler: Handler) -> None:
        self._answer(handler)
        self._left -= handler.path == "/metrics"
        if self._left <= 0:
            self.read.set()


def ended(program: Program, number: int, *words: str) -> Ran:
    """Watch for an hour, and send a signal once five pages were read."""
    watched = Watched("kv-too-small", 5)
    with serving(watched) as server:
        url = ("--url", server.url, "--seconds", "3600", "--interval", "0.05")
        process = program.start("diagnose", *url, *words)
        assert watched.read.wait(LIMIT)
        process.send_signal(number)
        return program.end(process)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_is_stopped_reports_what_it_saw(number: int, tmp_path: Path) -> None:
    program = Program(tmp_path)
    ran = ended(program, number, "--json")
    answer = json.loads(ran.out)
    assert ran.code == 0
    assert answer["targets"][0]["model"] == "tiny"
    assert any(re.match(r"stopped after .* s of 3600 s", gap["reason"]) for gap in answer["gaps"])
    assert load(program.saved[0]).complete
    assert program.run("report", str(program.saved[0]), "--json").out == ran.out


def test_one_that_is_stopped_before_it_saw_anything_says_so(tmp_path: Path) -> None:
    asked = threading.Event()

    def hang(handler: Handler) -> None:
        asked.set()
        badserver.hanging(handler)

    program = Program(tmp_path)
    with serving(hang) as server:
        process = program.start("diagnose", "--url", server.url, "--seconds", "3600")
        assert asked.wait(LIMIT)
        process.send_signal(signal.SIGINT)
        ran = program.end(process)
    assert (ran.code, ran.out, list(program.saved)) == (1, "", [])
    assert ran.err.startswith("kvdoctor: stopped after ")


def test_one_that_is_killed_leaves_a_file_that_opens(tmp_path: Path) -> None:
    program = Program(tmp_path)
    assert ended(program, signal.SIGKILL).code == -signal.SIGKILL
    ran = program.run("report", str(program.saved[0]), "--json")
    gaps = [gap["reason"] for gap in json.loads(ran.out)["gaps"]]
    assert ran.code == 0
    assert any("the recording breaks off: the process that wrote it was killed" in gap for gap in gaps)
    assert len(load(program.saved[0]).sources[0].at) >= 4


@pytest.mark.parametrize("names", HOSTILE)
def test_a_hostile_model_name_steers_nothing(names: tuple[str, ...], tmp_path: Path) -> None:
    label = " ".join(ATTACKS[name] for name in names).replace("\\", "\\\\").replace('"', '\\"').encode()
    folder = Program(tmp_path)
    text = b"".join(
        b"#@ %d 1\n" % at + page.replace(b'model_name="tiny"', b'model_name="' + label + b'"')
        for at, page in enumerate(replay.pages("healthy")[:2])
    )
    (tmp_path / "hostile.prom").write_bytes(text)
    ran = folder.run("report", "hostile.prom", "--html", "r.html", "--json", "r.json", "--markdown", "r.md")
    reports = {path.name: path.read_text() for path in tmp_path.glob("r.*")}
    assert ran.code == 0
    assert len(reports) == 3
    for shown in (ran.out, ran.err, *reports.values()):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert "<script" not in reports["r.html"]
    assert "<img" not in reports["r.md"]
    assert json.loads(reports["r.json"])["targets"][0]["model"]


@pytest.mark.parametrize(("size", "state"), [(6000, "is not whole"), (0, "is not saved")])
def test_a_full_disk_takes_no_report_down(size: int, state: str, tmp_path: Path) -> None:
    program = Program(tmp_path)
    with serving(replay.page_by_page("kv-too-small")) as server:
        url = ("--url", server.url, "--seconds", "0.6", "--interval", "0.1")
        ran = program.run("diagnose", *url, "--json", largest=size)
    answer = json.loads(ran.out)
    assert ran.code == 0
    assert state in ran.err
    assert any("could not be saved to its end" in gap["reason"] for gap in answer["gaps"])
    assert answer["window"]["scrapes"] >= 2
    assert [load(path).complete for path in program.saved] == ([False] if size else [])


def test_record_fails_where_it_cannot_save(tmp_path: Path) -> None:
    nowhere = Program(tmp_path, XDG_STATE_HOME="/proc/nowhere")
    with serving(badserver.good) as server:
        url = ("--url", server.url, "--seconds", "0.3", "--interval", "0.1")
        full = Program(tmp_path).run("record", *url, "--save", "r.kvrec", largest=300)
        none = nowhere.run("record", *url)
        answered = nowhere.run("diagnose", *url)
        asked = len(server.requests)
        there = nowhere.run("record", *url, "--save", "r.kvrec")
        assert len(server.requests) == asked
    assert (full.code, none.code, there.code, answered.code) == (1, 1, 1, 0)
    assert "the recording r.kvrec is not whole" in full.err
    assert "/proc/nowhere/kvdoctor cannot be made" in none.err
    assert "r.kvrec exists already" in there.err
    assert "the recording is not saved: /proc/nowhere/kvdoctor cannot be made" in answered.err


def test_runs_of_one_second_have_files_of_their_own(tmp_path: Path) -> None:
    program = Program(tmp_path)
    with serving(badserver.good) as server:
        url = ("--url", server.url, "--seconds", "0.2", "--interval", "0.1")
        ran = together({str(n): partial(program.run, "record", *url) for n in range(4)})
    assert [one.code for one in ran.values()] == [0] * 4
    assert len({one.err for one in ran.values()}) == len(program.saved) == 4
    assert all(load(path).complete for path in program.saved)


def test_the_header_comes_before_the_end(tmp_path: Path) -> None:
    program = Program(tmp_path)
    with serving(replay.page_by_page("overload")) as server:
        process = program.start("diagnose", "--url", server.url, "--seconds", "3600", "--interval", "0.2")
        begun = time.monotonic()
        assert process.stderr is not None
        ready = select.select([process.stderr], [], [], LIMIT)[0]
        first = os.read(process.stderr.fileno(), 200)
        process.send_signal(signal.SIGINT)
        program.end(process)
    assert ready
    assert first.startswith(b"  vllm >=0.32.0, tiny, up ")
    assert time.monotonic() - begun < LIMIT


def test_on_a_terminal_the_progress_line_is_cleared_before_anything_else(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    with serving(replay.page_by_page("overload")) as server:
        url = ("--url", server.url, "--seconds", "0.8", "--interval", "0.2")
        process = Program(tmp_path).start("record", *url, stderr=theirs)
        os.close(theirs)
        said = b""
        while select.select([ours], [], [], LIMIT)[0] and (piece := read_terminal(ours)):
            said += piece
        assert process.wait(LIMIT) == 0
    os.close(ours)
    process.stdout.close() if process.stdout else None
    after = re.findall(rb"reading: \d of 0.8 s (.)", said, re.DOTALL)
    assert len(after) >= 2
    assert set(after) == {b"\r"}
    assert b"\r  vllm >=0.32.0, tiny, up " in said


def read_terminal(descriptor: int) -> bytes:
    """Return what came; nothing once the other side has closed it, which some systems call an error."""
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""
