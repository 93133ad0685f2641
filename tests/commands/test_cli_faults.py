"""The program as a process against endpoints, files and command lines that are not as they should be."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import badserver
import pytest
import replay
from badserver import PAGE, Behaviour, Handler, dead_url, page, serving, status
from program import Program, Ran, together

from kvdoctor.restore import load

SHORT = ("--seconds", "0.6", "--interval", "0.2")
CAPACITY = str(replay.RECORDINGS / "kv-too-small.prom.gz")
KEY = "sk-secret-0123456789abcdef"
NOT_FINITE = (
    b'vllm:num_requests_waiting{engine="0",model_name="m"} NaN\nvllm:kv_cache_usage_perc{engine="0"} +Inf\n'
)
MANY = PAGE + b"".join(b'vllm:x_total{engine="0",i="%d"} 1.0\n' % i for i in range(100_000))


# name: what the server does, the exit code, what stands on standard error or, after a report, among the gaps
ENDPOINTS: dict[str, tuple[Behaviour, int, str]] = {
    "hangs": (badserver.hanging, 1, "no whole answer within 5 s"),
    "trickles its head": (badserver.trickling_head, 1, "no whole answer within 5 s"),
    "trickles its body": (badserver.trickling_body, 1, "no whole answer within 5 s"),
    "asks for a key": (status(401), 1, "it asks for a key (HTTP 401)"),
    "fails": (status(500), 1, "it answers with an error (HTTP 500)"),
    "is a web page": (page(b"<html>hi</html>", kind="text/html"), 1, "a web page, not with metrics"),
    "is JSON": (page(b'{"a": 1}', kind="application/json"), 1, "it answers with JSON"),
    "is endless": (badserver.endless, 1, "more than 64 MiB"),
    "is an endless chunk": (badserver.endless_chunk, 1, "it broke off before it had said anything"),
    "says it is gzip": (badserver.false_zip, 1, "says that it is gzip and is not"),
    "hangs up": (badserver.drop, 1, "closed the connection without an answer"),
    "speaks no HTTP": (badserver.no_http, 1, "does not speak HTTP"),
    "is empty": (page(b""), 1, "it answers with an empty page"),
    "is no engine": (page(b"# TYPE node_load1 gauge\nnode_load1 0.3\n"), 1, "no engine that is known here"),
    "is cut": (badserver.cut, 0, "readings that were cut short"),
    "is cut in a line": (page(PAGE[:-20]), 0, "readings that were cut short"),
    "has NaN and infinity": (page(PAGE + NOT_FINITE), 0, "reading"),
    "says all twice": (page(PAGE + PAGE), 0, "series that came twice in one text"),
    "writes e+010": (page(PAGE.replace(b"1024.0", b"1.024e+010")), 0, "reading"),
    "is no UTF-8": (page(PAGE.replace(b'"m"', b'"\xff\xfe"')), 0, "bytes that are not UTF-8"),
    "has 100,000 series": (page(MANY), 0, "reading"),
    "dies": (badserver.in_turn(badserver.good, badserver.drop), 0, "readings failed"),
    "is overrun": (badserver.in_turn(badserver.good, status(503)), 0, "it is not ready"),
}


def text_of(ran: Ran) -> str:
    """Everything a run said, with single blanks."""
    return " ".join((ran.out + ran.err).split())


@pytest.fixture(scope="module")
def endpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Ran, Program]]:
    """The end of a run against each endpoint."""
    programs = {name: Program(tmp_path_factory.mktemp("endpoint")) for name in ENDPOINTS}
    with ExitStack() as stack:
        urls = {name: stack.enter_context(serving(ENDPOINTS[name][0])).url for name in ENDPOINTS}
        jobs = {
            name: partial(program.run, "diagnose", "--url", urls[name], *SHORT)
            for name, program in programs.items()
        }
        ran = together(jobs)
    return {name: (ran[name], programs[name]) for name in ENDPOINTS}


@pytest.mark.parametrize("name", ENDPOINTS)
def test_an_endpoint_that_misbehaves_is_a_sentence(
    name: str, endpoints: dict[str, tuple[Ran, Program]]
) -> None:
    (ran, program), (_, code, said) = endpoints[name], ENDPOINTS[name]
    assert ran.code == code, ran.err
    assert said in text_of(ran)
    answered = code == 0 or name == "is no engine"
    assert len(program.saved) == (1 if answered else 0)
    if answered:
        assert str(program.saved[0]) in ran.err
        assert load(program.saved[0]).complete
    else:
        assert ran.err.startswith("kvdoctor: ")
        assert "\n  try: " in ran.err


def test_nothing_listening_is_a_sentence(tmp_path: Path) -> None:
    ran = Program(tmp_path).run("diagnose", "--url", dead_url(), *SHORT)
    assert (ran.code, ran.out) == (1, "")
    assert "(connection refused)\n  try: " in ran.err


def test_one_dead_endpoint_of_two_is_a_gap(tmp_path: Path) -> None:
    dead = dead_url()
    with serving(badserver.good) as server:
        ran = Program(tmp_path).run("diagnose", "--url", dead, "--url", server.url, *SHORT, "--json")
    gaps = json.loads(ran.out)["gaps"]
    assert ran.code == 0
    assert [gap["source"] for gap in gaps if "connection refused" in gap["reason"]] == [f"{dead}/metrics"]


def test_a_restart_splits_the_window(tmp_path: Path) -> None:
    before = replay.pages("overload")[-1]
    after = before.replace(b"process_start_time_seconds 1.79", b"process_start_time_seconds 1.80")
    with serving(badserver.in_turn(page(before), page(before), page(after))) as server:
        ran = Program(tmp_path).run("diagnose", "--url", server.url, *SHORT, "--json")
    window = json.loads(ran.out)["window"]
    assert (ran.code, window["restarts"], window["requests"]) == (0, 1, 0)


def locked(handler: Handler) -> None:
    """Answer who has the key; tell others what they sent."""
    sent = handler.headers.get("Authorization", "")
    known = sent == f"Bearer {KEY}"
    handler.answer(PAGE if known else f"no: {sent}".encode(), status=200 if known else 401)


@pytest.mark.parametrize("by_environment", [True, False])
def test_a_key_is_used_and_stands_nowhere(by_environment: bool, tmp_path: Path) -> None:
    program = Program(tmp_path, **({"KVDOCTOR_API_KEY": KEY} if by_environment else {}))
    words = () if by_environment else ("--api-key", KEY)
    reports = ("--json", "r.json", "--markdown", "r.md")
    with serving(locked) as server:
        ran = program.run("diagnose", "--url", server.url, *SHORT, *words, *reports)
    assert ran.code == 0
    saved = load(program.saved[0])
    kept = [ran.out, ran.err, repr(saved), program.run("export", str(program.saved[0])).out]
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 3
    assert not any(KEY in text for text in kept)
    assert not any(KEY.encode() in data for data in files)


@pytest.mark.parametrize(
    ("url", "words", "said"),
    [
        ("http://{place}", ("--api-key", "wrong" + KEY), "it does not accept the key"),
        ("http://user:" + KEY + "@{place}", (), "it does not accept the key"),
        ("http://{place}/metrics?api_key=" + KEY, (), "it asks for a key"),
        ("http://{place}", ("--api-key", KEY + "\n"), "characters that no HTTP header can carry"),
    ],
)
def test_a_key_that_is_not_accepted_is_not_shown(
    url: str, words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    with serving(locked) as server:
        place = server.url.removeprefix("http://")
        ran = Program(tmp_path).run("diagnose", "--url", url.format(place=place), *words, *SHORT)
    assert ran.code == 1
    assert said in ran.err
    assert KEY not in ran.out + ran.err


def test_a_key_is_not_sent_on(tmp_path: Path) -> None:
    with serving(badserver.good) as other, serving(status(302, Location=other.url + "/metrics")) as first:
        ran = Program(tmp_path).run("diagnose", "--url", first.url, "--api-key", KEY, *SHORT)
    assert (ran.code, other.requests, len(first.requests)) == (1, [], 1)
    assert "no redirect is followed" in ran.err


# words of the command line, and what is said about them; each is wrong usage
MISUSES: dict[str, str] = {
    "diagnose F --url http://127.0.0.1:9": "FILE stands alone",
    "diagnose F --slow foo": "--slow is ttft or itl",
    "diagnose F --slo rubbish": "is not an objective",
    "diagnose F --slo ttft=0s": "is not a time above 0",
    "diagnose F --fail-on nonsense": "--fail-on does not know 'nonsense'",
    "diagnose F --fail-on ,": "--fail-on names nothing",
    "diagnose F --bandwidth nan": "--bandwidth must be above 0",
    "diagnose F --tp 0": "--tp must be 1 or more",
    "diagnose F --tp x": "--tp",
    "diagnose F --json - --markdown -": "only one report can go to standard output",
    "diagnose F --json same --html same": "same is named for two things",
    "diagnose F --save same --json same": "same is named for two things",
    "diagnose F --html=": "--html names no file",
    "diagnose F --nonsense": "No such option",
    "diagnose --url U --seconds 0": "--seconds must be above 0",
    "diagnose --url U --seconds -1": "--seconds must be above 0",
    "diagnose --url U --seconds nan": "--seconds must be above 0",
    "diagnose --url U --seconds 1e12": "more than 1,000,000 readings",
    "diagnose --url U --interval 0": "--interval must be above 0",
    "diagnose --url U --interval inf": "--interval must be above 0",
    "diagnose --url": "requires an argument",
    "record --url U --seconds 0": "--seconds must be above 0",
    "record": "give --url URL, or --urls FILE",
    "report": "Missing argument",
    "diff F": "Missing argument",
    "nonsense": "No such command",
}


@pytest.fixture(scope="module")
def misuses(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Ran], Program]:
    """The end of each wrong command line."""
    program, url = Program(tmp_path_factory.mktemp("misuse")), dead_url()
    values = {"F": CAPACITY, "U": url}
    lines = {line: [values.get(word, word) for word in line.split()] for line in MISUSES}
    return together({line: partial(program.run, *words) for line, words in lines.items()}), program


@pytest.mark.parametrize("line", MISUSES)
def test_wrong_usage_is_exit_2_and_leaves_nothing(line: str, misuses: tuple[dict[str, Ran], Program]) -> None:
    ran, program = misuses[0][line], misuses[1]
    assert (ran.code, ran.out) == (2, "")
    assert MISUSES[line] in ran.err
    assert not program.saved
    assert not (program.folder / "same").exists()


def saved_recording(program: Program) -> bytes:
    assert program.run("diagnose", CAPACITY, "--save", "whole.kvrec").code == 0
    return (program.folder / "whole.kvrec").read_bytes()


def newer(whole: bytes) -> bytes:
    head, _, rest = whole.partition(b"\n")
    return re.sub(rb"\d+\Z", b"999", head) + b"\n" + rest


# name: how it is made of a whole recording, the exit code, what is said
FILES: dict[str, tuple[Callable[[bytes], bytes], int, str]] = {
    "empty": (lambda _: b"", 1, "is empty"),
    "blank": (lambda _: b"\n \n", 1, "it is blank"),
    "picture": (lambda _: b"\x89PNG\r\n\x1a\n\0\0", 1, "is binary"),
    "page.html": (lambda _: b"<html><body>x", 1, "is a web page"),
    "a.json": (lambda _: b'{"a": 1}\n', 1, "is JSON"),
    "some.log": (lambda _: b"INFO started\nINFO went on\n", 1, "it begins with: INFO started"),
    "not.gz": (lambda _: b"\x1f\x8bhello", 1, "the gzip data is damaged"),
    "node": (lambda _: b"# TYPE node_load1 gauge\nnode_load1 0.3\n", 1, "no engine that is known here"),
    "newer.kvrec": (newer, 1, "was written by a newer kvdoctor (format 999"),
    "headless.kvrec": (lambda whole: whole[:40], 1, "headless.kvrec holds no reading"),
    "half.kvrec": (lambda whole: whole[: len(whole) // 2], 0, "the recording breaks off"),
    "damaged.kvrec": (lambda whole: whole[:-900] + b"\xff" * 900, 0, "it is damaged there"),
    "half.gz": (lambda _: Path(CAPACITY).read_bytes()[:20_000], 0, "the gzip file is cut short"),
    "bomb.gz": (lambda _: gzip.compress(bytes(2**28), 1), 1, "is binary"),
    "naïve name ☃": (lambda whole: whole, 0, "Bound by capacity"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """The report of each file."""
    program = Program(tmp_path_factory.mktemp("files"))
    whole = saved_recording(program)
    for name, (make, _, _) in FILES.items():
        (program.folder / name).write_bytes(make(whole))
    return together({name: partial(program.run, "report", name) for name in FILES})


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_reported_or_refused_in_a_sentence(name: str, files: dict[str, Ran]) -> None:
    _, code, said = FILES[name]
    assert files[name].code == code
    assert said in text_of(files[name])
    assert bool(files[name].out) == (code == 0)


def test_a_folder_a_missing_file_and_an_empty_stdin_are_sentences(tmp_path: Path) -> None:
    program = Program(tmp_path)
    for words, given, said in (
        (".", None, ". is a folder"),
        ("nope", None, "nope cannot be read: No such file"),
        ("-", b"", "stdin is empty"),
    ):
        ran = program.run("report", words, given=given)
        assert (ran.code, ran.out) == (1, "")
        assert said in ran.err


@pytest.mark.parametrize(
    ("bounds", "code"), [("capacity", 3), ("network,capacity", 3), ("network", 0), ("healthy", 0)]
)
def test_fail_on_asks_for_the_primary(bounds: str, code: int, tmp_path: Path) -> None:
    assert Program(tmp_path).run("report", CAPACITY, "--fail-on", bounds).code == code


@pytest.mark.parametrize(
    ("model", "said"),
    [("{", "cannot be read as JSON"), ("[]", "is not a JSON object"), ("{}", "`model_type`")],
)
def test_a_model_that_cannot_be_read_is_a_sentence(model: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(model)
    ran = Program(tmp_path).run("report", CAPACITY, "--model", "config.json")
    assert (ran.code, ran.out) == (1, "")
    assert said in ran.err


def test_a_card_and_a_model_nobody_knows_are_sentences(tmp_path: Path) -> None:
    program = Program(tmp_path)
    card = program.run("report", CAPACITY, "--gpu", "Z9000")
    model = program.run("report", CAPACITY, "--model", "nope")
    assert (card.code, model.code) == (1, 1)
    assert "'Z9000' is not known" in card.err
    assert "called 'nope'" in model.err


def test_diff_refuses_what_has_no_engine(tmp_path: Path) -> None:
    (tmp_path / "node").write_bytes(b"# TYPE node_load1 gauge\nnode_load1 0.3\n")
    ran = Program(tmp_path).run("diff", CAPACITY, "node")
    assert (ran.code, ran.out) == (1, "")
    assert "no engine that is known here exports node" in ran.err


def test_file_names_may_hold_bytes_that_are_no_text(tmp_path: Path) -> None:
    name = os.fsdecode(b"r\xff.gz")
    shutil.copy(CAPACITY, tmp_path / name)
    ran = Program(tmp_path).run("report", name, "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["targets"][0]["url"] == "r\ufffd.gz"
