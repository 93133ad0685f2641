"""The sampling loop: on a clock that tests own, and against a real server that dies and comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import badserver
import pytest
from badserver import in_turn, page, serving, status
from fakes import FakeClock, FakePage, FakePlace

from kvdoctor import record as record_module
from kvdoctor.clock import SystemClock
from kvdoctor.collectors.prometheus import Endpoint
from kvdoctor.crew import WORKERS
from kvdoctor.errors import KvdoctorError, Refused, Unanswered, Unavailable
from kvdoctor.record import record
from kvdoctor.recording import Recording
from kvdoctor.restore import load
from kvdoctor.session import Session
from kvdoctor.store import Writer

A, B = b"a 1\n", b"a 2\n"
DOWN = Unavailable("it is down", "start it")
GONE = Unanswered("nothing listens", "start it")


def run(
    *places: FakePlace, seconds: float = 4.0, clock: FakeClock | None = None, **options: object
) -> Recording:
    clock = clock or FakeClock()
    return record(places, seconds=seconds, interval_s=1.0, clock=clock, **options)  # type: ignore[arg-type]


def reasons(recording: Recording) -> list[str]:
    return [gap.reason for gap in recording.gaps]


def test_the_first_and_the_last_moment_are_read() -> None:
    recording = run(FakePlace([A]), seconds=3.5)
    assert [round(at, 6) for at in recording.sources[0].at] == [0.0, 1.0, 2.0, 3.0, 3.5]


def test_a_recording_of_no_length_has_one_reading() -> None:
    assert len(run(FakePlace([A]), seconds=0.0).sources[0].at) == 1


@pytest.mark.parametrize(
    ("seconds", "interval"), [(1, 0), (1, -1), (-1, 1), (float("inf"), 1), (float("nan"), 1)]
)
def test_a_length_that_cannot_be_is_refused(seconds: float, interval: float) -> None:
    with pytest.raises(KvdoctorError):
        record([FakePlace([A])], seconds=seconds, interval_s=interval, clock=FakeClock())


def test_the_clock_pair_and_the_facts_are_kept() -> None:
    recording = run(FakePlace([A]), facts={"gpu": "H200"})
    assert recording.wall == recording.sources[0].wall == 1_000_000.0
    assert recording.facts == {"gpu": "H200"}


def test_values_and_documents_arrive() -> None:
    recording = run(FakePlace([A, B, B], documents={"version": "1"}))
    source = recording.sources[0]
    assert [source.columns[0].at(i) for i in range(3)] == [1.0, 2.0, 2.0]
    assert source.texts == {"version": "1"}


def test_the_same_failure_again_is_counted_and_not_repeated() -> None:
    recording = run(FakePlace([A, DOWN, DOWN, A]))
    assert len(recording.sources[0].at) == 3
    (gap,) = recording.gaps
    assert gap.reason == "2 of 5 readings failed (from 1.0 s to 2.0 s): it is down"
    assert gap.cure == "start it"


@pytest.mark.parametrize(
    ("pages", "seconds"),
    [
        pytest.param([A, GONE, GONE, GONE, GONE], 4.0, id="and never comes back"),
        pytest.param([A, GONE, GONE, A, A], None, id="comes back"),
        pytest.param([GONE, GONE, GONE, GONE, GONE], None, id="never answered"),
    ],
)
def test_since_when_nobody_answered_is_kept(pages, seconds, tmp_path: Path) -> None:
    path = tmp_path / "r.kvrec"
    recording = run(FakePlace(pages), writer=Writer.create(path))
    for each in (recording, load(path)):
        noted = each.sources[0].texts.get("unanswered")
        assert (json.loads(noted) if noted else None) == (
            {"seconds": seconds, "reason": "nothing listens", "answered": False} if seconds else None
        )


def test_since_when_something_answered_with_no_page_is_kept() -> None:
    noted = json.loads(run(FakePlace([A, GONE, DOWN, DOWN, DOWN])).sources[0].texts["unanswered"])
    assert noted == {"seconds": 4.0, "reason": "it is down", "answered": True}


def test_when_nobody_answers_the_recording_ends_at_once() -> None:
    places = FakePlace([DOWN], name="one"), FakePlace([DOWN], name="two")
    recording = record(places, seconds=1e6, interval_s=1e5, clock=SystemClock())
    assert reasons(recording) == ["it is down", "it is down"]
    assert [list(source.at) for source in recording.sources] == [[], []]


def test_one_that_refuses_is_not_asked_again_while_the_other_is_read() -> None:
    refusing = FakePlace([Refused("it asks for a key", "--api-key")], name="refusing")
    recording = run(refusing, FakePlace([A]))
    assert refusing.reads == 1
    assert reasons(recording) == ["it asks for a key"]
    assert recording.sources[1].at


def test_one_that_answered_before_is_asked_again_after_a_refusal() -> None:
    recording = run(FakePlace([A, Refused("404"), A]))
    assert len(recording.sources[0].at) == 4


def test_a_page_without_a_series_is_a_failure_and_takes_nothing_away() -> None:
    recording = run(FakePlace([A, b"ok\n", A]))
    assert recording.sources[0].columns[0].value.tolist() == [1.0]
    assert any("no series" in reason for reason in reasons(recording))


def test_a_slow_server_is_read_less_often_and_recovers() -> None:
    clock = FakeClock()
    place = FakePlace([A], clock=clock, took=[0.1, 0.9, 0.1])
    recording = run(place, seconds=8.0, clock=clock)
    assert [round(at) for at in recording.sources[0].at] == [0, 1, 5, 6, 7, 8]
    assert reasons(recording) == ["it took up to 0.9 s to answer, so it was read less often than every 1 s"]


def test_a_very_slow_server_is_still_read_at_both_ends() -> None:
    clock = FakeClock()
    recording = run(FakePlace([A], clock=clock, took=[3.0]), seconds=10.0, clock=clock)
    assert [round(at) for at in recording.sources[0].at] == [0, 10]


def test_a_reading_that_waited_for_a_cpu_does_not_make_its_server_slow(monkeypatch) -> None:
    clock = FakeClock()
    place = FakePlace([A], clock=clock, took=[0.9])
    monkeypatch.setattr(record_module, "_cpu_wait", lambda: clock.monotonic())
    recording = run(place, seconds=4.0, clock=clock)
    assert [round(at) for at in recording.sources[0].at] == [0, 1, 2, 3, 4]
    assert reasons(recording) == []
    assert recording.cost.longest_read_seconds == pytest.approx(0.9)


def test_a_recorder_without_a_cpu_names_itself_and_not_the_server() -> None:
    session = Session([FakePlace([A])], wall=0.0, interval_s=1.0, writer=None, facts={}, on_scrape=None)
    session.page(0, 0.0, 7.0, FakePage(A))
    session.late(0.9)
    assert any("took up to 7" in gap.reason for gap in session.finish().gaps)
    session.late(3.0)
    assert [gap.source for gap in session.finish().gaps] == ["kvdoctor"]


def test_a_slow_source_delays_no_other() -> None:
    with serving(badserver.hanging) as slow, serving(badserver.good) as fast:
        places = [Endpoint(slow.url, deadline_s=1.0), Endpoint(fast.url)]
        recording = record(places, seconds=0.2, interval_s=0.1, clock=SystemClock())
    assert len(recording.sources[0].at) == 0
    assert recording.sources[1].at[0] < 1.0
    assert "no whole answer within 1 s" in reasons(recording)


def test_a_stop_ends_it_early_with_what_there_is() -> None:
    stop = threading.Event()
    seen: list[int] = []

    def look(recording: Recording, source: object) -> None:
        seen.append(len(recording.sources[0].at))
        stop.set()

    place = FakePlace([A])
    recording = record([place], seconds=1e6, interval_s=1e5, clock=SystemClock(), stop=stop, on_scrape=look)
    assert seen == [1]
    assert place.closed
    assert len(recording.sources[0].at) == 1
    assert reasons(recording)[0].startswith("stopped after 0.")


def test_a_stop_ends_a_reading_that_hangs() -> None:
    stop = threading.Event()
    with serving(badserver.hanging) as server:
        threading.Timer(0.2, stop.set).start()
        recording = record(
            [Endpoint(server.url, deadline_s=60)], seconds=60, interval_s=1, clock=SystemClock(), stop=stop
        )
    assert reasons(recording)[0].startswith("stopped after")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_a_saved_recording(number: signal.Signals, tmp_path: Path) -> None:
    code = (
        "import os, sys; sys.path[:0] = sys.argv[2].split(os.pathsep)\n"
        "from fakes import FakePlace\n"
        "from kvdoctor.clock import SystemClock\n"
        "from kvdoctor.record import record\n"
        "from kvdoctor.store import Writer\n"
        "kill = lambda recording, source: os.kill(os.getpid(), int(sys.argv[3]))\n"
        "options = dict(writer=Writer.create(sys.argv[1]), on_scrape=kill, clock=SystemClock())\n"
        "record([FakePlace([b'a 1\\n'])], seconds=1e6, interval_s=1e5, **options)\n"
    )
    path = tmp_path / "r.kvrec"
    folders = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    arguments = [sys.executable, "-c", code, str(path), folders, str(int(number))]
    done = subprocess.run(arguments, check=False, timeout=60, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    recording = load(path)
    assert recording.complete
    assert len(recording.sources[0].at) == 1
    assert reasons(recording)[0].startswith("stopped after")


def test_signals_act_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    run(FakePlace([A]))
    assert signal.getsignal(signal.SIGINT) is before


def test_what_is_saved_is_what_is_returned(tmp_path: Path) -> None:
    path = tmp_path / "r.kvrec"
    places = (
        FakePlace([A, DOWN, B, FakePage(b"a 3\nb", cut=True)], documents={"models": "[]"}),
        FakePlace([DOWN]),
    )
    assert repr(run(*places, writer=Writer.create(path))) == repr(load(path))


def test_a_gap_is_on_disk_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "r.kvrec"
    found: list[Recording] = []
    run(
        FakePlace([A, DOWN, B]),
        writer=Writer.create(path),
        on_scrape=lambda recording, source: found.append(load(path)),
    )
    assert "it is down" in found[-1].gaps[0].reason


def test_a_full_disk_is_a_gap_and_the_recording_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer.create(tmp_path / "r.kvrec")
    writer.failure = "the disk is full"
    recording = run(FakePlace([A, B]), writer=writer)
    assert len(recording.sources[0].at) == 5
    assert reasons(recording) == ["the recording could not be saved to its end: the disk is full"]


def test_its_own_cost_is_measured() -> None:
    clock = FakeClock()
    cost = run(FakePlace([A], clock=clock, took=[0.125, 0.0]), clock=clock).cost
    assert cost.bytes == 5 * len(A)
    assert cost.longest_read_seconds == pytest.approx(0.125)
    assert cost.cpu_seconds > 0


def scenario(*behaviours: badserver.Behaviour) -> Recording:
    """Read a real server that behaves in one way after the other."""
    with serving(in_turn(*behaviours)) as server:
        return record([Endpoint(server.url)], seconds=len(behaviours) - 1, interval_s=1.0, clock=FakeClock())


def test_an_engine_that_dies_and_comes_back_is_read_again() -> None:
    before = b"process_start_time_seconds 100\na_total 50\n"
    after = b"process_start_time_seconds 200\na_total 3\n"
    # a connection that was kept open is tried anew once, hence two drops for one failure
    recording = scenario(page(before), badserver.drop, badserver.drop, status(502), page(after), page(after))
    source = recording.sources[0]
    assert [column.value.tolist() for column in source.columns] == [[100.0, 200.0], [50.0, 3.0]]
    assert {gap.cure for gap in recording.gaps} >= {
        "look at the server's log",
        "give the server's own address",
    }


def test_an_engine_that_changes_its_model_starts_new_series_and_ends_the_old() -> None:
    recording = scenario(page(b'a{model_name="x"} 1\n'), page(b'a{model_name="y"} 2\n'))
    old, new = recording.sources[0].columns
    assert old.at(0) == 1.0
    assert old.at(1) != old.at(1)
    assert (new.labels, new.at(1)) == ((("model_name", "y"),), 2.0)


def test_hostile_labels_are_kept_as_they_are() -> None:
    hostile = "[red]\x1b[31m\x1b]8;;http://x\x07</script>$x$"
    recording = scenario(page(f'a{{model_name="{hostile}"}} 1\n'.encode()))
    assert recording.sources[0].columns[0].labels == (("model_name", hostile),)


def test_a_cut_page_is_read_as_far_as_it_is_whole_and_told() -> None:
    recording = scenario(badserver.good, badserver.cut)
    assert len(recording.sources[0].at) == 2
    assert any("cut short: 1" in reason for reason in reasons(recording))


def test_importing_the_loop_is_cheap() -> None:
    code = (
        "import sys, kvdoctor.record, kvdoctor.collectors.prometheus, kvdoctor.readers\n"
        "heavy = {'ssl', 'http.client', 'urllib.request', 'email', 'asyncio', 'concurrent.futures', 'numpy'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, timeout=60)
    assert done.stderr == b""


def test_more_places_than_threads_are_all_read_at_the_first_and_the_last_tick() -> None:
    places = [FakePlace([A, B], name=str(n), documents={"version": "1"}) for n in range(WORKERS + 40)]
    recording = record(places, seconds=0.2, interval_s=0.2, clock=SystemClock())
    assert {len(source.at) for source in recording.sources} == {2}
    assert all(source.texts == {"version": "1"} for source in recording.sources)


def test_a_place_whose_turn_never_comes_is_a_gap_and_the_end_is_not_put_off() -> None:
    clock = FakeClock()
    hanging = [FakePlace([DOWN], name=f"hangs {n}", clock=clock, took=[50.0]) for n in range(WORKERS)]
    last = FakePlace([A], name="last")
    first = FakePlace([A], name="first")
    recording = run(first, *hanging, last, seconds=1.0, clock=clock)
    assert len(recording.sources[0].at) >= 1
    assert last.reads == 0
    (gap,) = (g for g in recording.gaps if g.source == "last")
    assert "never read" in gap.reason
