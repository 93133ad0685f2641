"""The watch over the service while a probe runs, and which service that is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kvdoctor.commands import victim_place
from kvdoctor.commands.probing import print_lines
from kvdoctor.commands.victim import (
    BEFORE,
    LEAST_S,
    LONGEST_BEFORE,
    SILENT,
    UNSTEADY,
    WORSE,
    Second,
    Watcher,
    watch,
)
from kvdoctor.commands.victim_place import Victim, victim
from kvdoctor.errors import KvdoctorError
from kvdoctor.target.family import Mount
from kvdoctor.target.namespaces import Namespaces

GONE = Second(answers=False)


def at(itl, gaps=100, **more):
    """A second in which so many gaps had this mean; None for one without any."""
    return Second(**more) if itl is None else Second(gaps, gaps * itl, **more)


def watcher(*readings, before=BEFORE):
    """A watch over these seconds; the first of them is what every second before the probe was like."""
    seconds = [each if isinstance(each, Second) else at(each) for each in readings]
    left = iter([seconds[0]] * before + seconds[1:])
    return Watcher(lambda: next(left, Second()))


@pytest.mark.parametrize(
    ("before", "now", "stops"),
    [
        (0.040, 0.040 * WORSE - 0.0001, False),
        (0.040, 0.040 * WORSE + 0.0001, True),
        (0.002, 0.002 + LEAST_S - 0.0001, False),
        (0.002, 0.002 + LEAST_S + 0.0001, True),
        (0.040, None, False),
        (None, 0.5, False),
    ],
)
def test_a_probe_stops_when_the_service_suffers(before, now, stops):
    seen = watcher(before, now)
    seen.look()
    assert bool(seen.reason) is stops


def test_the_reason_has_both_latencies():
    seen = watcher(0.040, 0.100)
    seen.look()
    assert seen.reason == seen.stop() == "the service's mean ITL rose from 40.0 ms to 100 ms"


def unsteady(worst, now):
    left = iter([at(0.040), at(worst), at(0.040), at(now)])
    seen = Watcher(lambda: next(left))
    seen.look()
    return seen


def test_a_service_that_is_unsteady_by_itself_is_given_its_own_worst_second():
    assert not unsteady(0.100, 0.099).reason
    assert unsteady(0.100, 0.101).reason


def test_and_no_more_than_three_times_its_mean():
    mean = (0.040 + 9.0 + 0.040) / 3
    assert unsteady(9.0, UNSTEADY * mean + 0.001).reason


def test_what_decodes_only_later_is_held_against_all_that_was_before():
    seen = watcher(Second(since_start=0.040), 0.059, 0.061)
    seen.look()
    assert (seen.reason, seen.is_busy) == ("", True)
    seen.look()
    assert seen.reason == "the service's mean ITL rose with the first load to 61.0 ms"


def test_it_looks_until_the_service_suffers_or_it_is_told_to_end():
    seen = watcher(0.040, 0.041, 0.042, 0.100, 0.040)
    seen.run()
    assert "to 100 ms" in seen.reason
    told = watcher(0.040, 0.100)
    told.ended.set()
    told.run()
    assert told.reason == ""


def test_where_little_decodes_seconds_are_added_up():
    slow = at(0.200, gaps=5)
    seen = watcher(slow, *[at(0.310, gaps=5)] * 4, before=4)
    assert seen.before == pytest.approx(0.200)
    for _ in range(3):
        seen.look()
        assert not seen.reason
    seen.look()
    assert "rose from 200 ms to 310 ms" in seen.reason


def test_where_almost_nothing_decodes_it_does_not_wait_for_ever():
    seen = watcher(at(0.200, gaps=1), before=LONGEST_BEFORE)
    assert (seen.before, seen.is_busy) == (None, True)


def test_a_page_that_falls_silent_stops_the_probe():
    seen = watcher(0.040, *[GONE] * SILENT)
    for _ in range(SILENT - 1):
        seen.look()
        assert not seen.reason
    seen.look()
    assert seen.reason == "the service's metrics page no longer answers"


def test_a_page_that_never_answered_stops_nothing():
    seen = watcher(GONE, GONE, GONE, GONE)
    for _ in range(3):
        seen.look()
    assert not seen.reason
    assert "is not watched" in seen.says


@pytest.mark.parametrize(
    ("before", "says"),
    [
        (0.040, "mean ITL 40.0 ms; the probe stops where it rises above 60.0 ms"),
        (
            Second(since_start=0.040),
            "nothing decodes now; the probe stops where its mean ITL rises above",
        ),
        (None, "its latency has no measure; its page is watched"),
    ],
)
def test_it_says_what_is_watched(before, says):
    assert says in watcher(before).says


def test_without_a_service_there_is_nothing_to_watch(capsys):
    with watch(None) as seen:
        assert seen is None
    assert capsys.readouterr().err == ""


def test_a_service_without_a_page_is_said_not_to_be_watched(capsys):
    with watch(Victim()) as seen:
        assert seen is None
    assert "its latency is not watched" in capsys.readouterr().err


def test_a_password_in_the_address_is_not_shown(capsys):
    with watch(Victim("http://me:hidden@127.0.0.1:9", is_given=True)):
        pass
    said = capsys.readouterr().err
    assert "http://***@127.0.0.1:9: its page does not answer" in said
    assert "hidden" not in said


def test_nobody_named_is_no_victim_and_a_pid_of_nobody_an_error():
    assert victim(None, None) is None
    with pytest.raises(KvdoctorError, match="there is no process"):
        victim(None, 2**22 + 1)


def test_a_service_elsewhere_is_known_by_its_page_alone():
    found = victim("http://203.0.113.9:8000", None)
    assert found == Victim("http://203.0.113.9:8000", is_given=True)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://localhost:8000/metrics", ("localhost", 8000)),
        ("127.0.0.1:8000", ("127.0.0.1", 8000)),
        ("http://[::1]:9", ("::1", 9)),
        ("http://host:port", ("", None)),
    ],
)
def test_a_page_is_known_by_host_and_port(url, place):
    assert victim_place._place(url) == place


def served(folder, differ=frozenset()):
    """A target whose KV tier is a folder."""
    mounts = (Mount("model", "/", "/", "8:1", "ext4"), Mount("kv", str(folder), "/", "8:1", "ext4"))
    return SimpleNamespace(
        family=SimpleNamespace(mounts=mounts), place=Namespaces(7, frozenset(differ), frozenset())
    )


def test_the_folder_of_the_kv_tier_is_taken_where_we_see_the_same_files(tmp_path):
    assert victim_place._kv_folder(served(tmp_path)) == str(tmp_path)
    assert victim_place._kv_folder(served(tmp_path, {"mnt"})) == ""
    assert victim_place._kv_folder(served(tmp_path / "absent")) == ""


def test_lines_keep_their_columns_and_nothing_from_outside_takes_effect(capsys):
    print_lines("read,  64 MiB     31 GB/s\n  name \x1b[31mred\x1b[0m\n")
    said = capsys.readouterr().err
    assert said.splitlines()[0] == "read,  64 MiB     31 GB/s"
    assert said.splitlines()[1].startswith("  name ")
    assert "\x1b" not in said
