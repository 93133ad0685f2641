"""Every reader holds against its corpus, what once broke it among it, and against a second of made input."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from benchmarks.fuzz_feed import FEEDS, corpus
from benchmarks.fuzz_make import near
from benchmarks.fuzz_report import Leak, plain
from benchmarks.fuzz_watch import LIMIT_S, Watch, guard_time
from kvdoctor.errors import KvdoctorError
from kvdoctor.render.text import visible
from kvdoctor.secrets import clean, mask_argv, mask_url

CORPUS = Path(__file__).parents[1] / "corpus"
INPUTS = sorted(path for path in CORPUS.glob("*/*") if path.parent.name in FEEDS)
SEEDS = {reader: list(corpus(reader, [])) for reader in FEEDS}


@pytest.fixture(autouse=True)
def _guarded():
    """Bound the CPU time of one input."""
    before = signal.getsignal(signal.SIGPROF)
    guard_time()
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_once_broke_a_reader_does_so_no_more(path, monkeypatch):
    monkeypatch.setattr("benchmarks.fuzz_report.JUDGED_ONE_IN", 1)
    fault = Watch(FEEDS[path.parent.name]).tried(path.read_bytes())
    assert fault is None, fault.trace


@pytest.mark.parametrize("reader", FEEDS)
def test_made_input_is_read_or_refused(reader):
    watch = Watch(FEEDS[reader])

    @settings(
        max_examples=60, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(near(SEEDS[reader]))
    def feed(data: bytes) -> None:
        watch(data)

    feed()
    assert watch.runs >= 50
    assert not watch.faults, [fault.trace for fault in watch.faults.values()]


def test_each_reader_has_texts_to_start_from():
    assert all(SEEDS.values())


def _raises(data: bytes) -> None:
    if b"bad" in data:
        raise ZeroDivisionError(len(data))
    if b"no" in data:
        raise KvdoctorError("no")


def test_a_failure_is_kept_once_and_made_small(tmp_path):
    watch = Watch(_raises, tmp_path)
    for data in (b"x" * 50 + b"bad" + b"y" * 50, b"bad", b"no", b"good"):
        watch(data)
    (fault,) = watch.faults.values()
    assert (fault.data, fault.times, watch.runs, watch.refused) == (b"bad", 2, 4, 1)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"bad"]


def test_an_input_that_takes_too_long_is_a_failure(monkeypatch):
    monkeypatch.setattr("benchmarks.fuzz_watch.LIMIT_S", 0.05)

    def forever(data: bytes) -> None:
        while True:
            pass

    fault = Watch(forever).tried(b"")
    assert fault is not None
    assert "Slow" in fault.key
    assert LIMIT_S > 1


LONG = {
    "letters": "a" * 200_000,
    "words for secrets": "?" + "token" * 40_000,
    "queries": "?token" * 30_000,
    "a key": '"' + "token" * 40_000,
    "an option": "--" + "token-" * 30_000,
    "introducers": "\x9d" * 200_000,
    "escapes": "\x1b]" * 100_000,
    "schemes": "a://a" * 40_000,
    "blanks": "bearer" + " " * 200_000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
@pytest.mark.parametrize("cleaned", [clean, mask_url, visible, lambda text: mask_argv([text, f"--{text}"])])
def test_a_long_text_from_outside_is_cleaned_in_time(text, cleaned):
    fault = Watch(lambda data: cleaned(data.decode()) and None).tried(text.encode())
    assert fault is None, fault.trace


@pytest.mark.parametrize("text", ["\x1b[31m", "\x9b", "\u202e", "\ud800", "\r", "\x00"])
def test_what_steers_a_terminal_is_no_plain_text(text):
    with pytest.raises(Leak):
        plain(f"a{text}b", "test")


@pytest.mark.parametrize("text", ["a\tb", "a\nb", "\u00e4", "\u6f22", "\U0001f600"])
def test_lines_and_letters_are_plain_text(text):
    assert plain(text, "test") is None
