"""From a host's pages to a view: rates over the window, joins by family, and gaps that were written down."""

from __future__ import annotations

import json

import pytest
from fakenvml import FakeNvml
from hosts import ENGINE, PID, process, source, write

from kvdoctor.collectors.cgroup import Cgroups
from kvdoctor.collectors.lines import Lines
from kvdoctor.collectors.nvml import Nvml
from kvdoctor.collectors.process import Processes
from kvdoctor.collectors.stacks import Stacks
from kvdoctor.hostread import families, host_of, host_view
from kvdoctor.recording import Recording, Source
from kvdoctor.stackclass import Doing
from kvdoctor.target.family import Card, Cgroup

ABOUT = {"family": json.dumps({"root": PID, "engine": "vllm", "url": None})}


def pages(root, *, seconds: int = 10, run: float = 0.5, wait: float = 0.25) -> list[bytes]:
    """Pages of a process whose main thread runs and waits for these shares of each second."""
    proc = process(root)
    place = Processes((ENGINE,), proc=proc, sys=str(root))
    found = []
    for second in range(seconds + 1):
        times = f"{int((100 + run * second) * 1e9)} {int((50 + wait * second) * 1e9)} 1\n"
        write(root, {f"proc/{PID}/task/{PID}/schedstat": times})
        found.append(place.read().text)
    return found


def test_a_thread_is_seen_in_cpus_and_in_waits(tmp_path):
    view = host_view([source(pages(tmp_path), texts=ABOUT)], 0.0, 10.0)
    assert view is not None
    (thread,) = view.threads
    assert (thread.cpus, thread.waiting) == (pytest.approx(0.5), pytest.approx(0.25))
    assert thread.wait_share == pytest.approx(1 / 3)
    assert (view.root, view.engine, view.roles) == (PID, "vllm", ((PID, "engine_core"),))


@pytest.mark.parametrize(
    ("told", "started"),
    [
        ([1.5e9, 1.6e9], (1.5e9, 1.6e9)),
        (None, ()),
        ("soon", ()),
        ([None, "x", -1, 0, 10**400, float("nan"), float("inf"), 1.5e9], (1.5e9,)),
    ],
)
def test_the_starts_of_its_processes_are_those_that_a_clock_can_show(tmp_path, told, started):
    about = {"family": json.dumps({"root": PID, "engine": "vllm", "url": None, "started": told})}
    view = host_view([source(pages(tmp_path), texts=about)], 0.0, 10.0)
    assert view is not None
    assert view.started == started


def test_only_the_window_counts(tmp_path):
    early, late = pages(tmp_path, run=0.0), pages(tmp_path, run=1.0)
    view = host_view([source(early[:6] + late[:6], texts=ABOUT)], 6.0, 11.0)
    assert view is not None
    assert view.threads[0].cpus == pytest.approx(1.0)


def test_a_single_reading_gives_no_rates(tmp_path):
    view = host_view([source(pages(tmp_path, seconds=0), texts=ABOUT)], 0.0, 0.0)
    assert view is not None
    assert (view.threads, view.read) == ((), None)
    assert view.resident is not None


def test_a_source_that_ended_before_the_window_tells_nothing_of_it(tmp_path):
    view = host_view([source(pages(tmp_path, seconds=3), texts=ABOUT)], 60.0, 70.0)
    assert view is not None
    assert view.threads == ()


def test_stacks_are_sorted_when_they_are_read_not_when_they_are_written():
    dump = json.dumps(
        [{"thread_name": "MainThread", "active": True, "frames": [
            {"name": "Scheduler.schedule", "filename": "/v/site-packages/vllm/v1/core/sched/scheduler.py"}]}]
    ).encode()  # fmt: skip
    place = Stacks((ENGINE,), dump=lambda pid: dump)
    view = host_view([source([place.read().text for _ in range(9)], name="stacks", texts=ABOUT)], 0.0, 8.0)
    assert view is not None
    (mix,) = view.stacks
    assert (mix.samples, mix.counts) == (8, ((Doing.SCHEDULER, 8),))
    assert view.sampled


def test_a_quota_is_seen_as_shares_of_periods_and_of_time(tmp_path):
    texts = []
    for second in range(11):
        stat = f"nr_periods {10 * second}\nnr_throttled {5 * second}\nthrottled_usec {300_000 * second}\n"
        write(tmp_path, {"cgroup.procs": "", "cpu.max": "50000 100000\n", "cpu.stat": stat})
        texts.append(Cgroups((Cgroup((), "/pod", str(tmp_path)),)).read().text)
    view = host_view([source(texts, name="cgroup", texts=ABOUT)], 0.0, 10.0)
    assert view is not None
    (quota,) = view.quotas
    assert (quota.cpus, quota.throttled_periods) == (0.5, 0.5)
    assert quota.lost == pytest.approx(0.3)


def test_a_card_is_judged_by_its_readings_under_load():
    nvml = FakeNvml(1)
    place = Nvml((), (PID,), load=lambda: nvml)
    texts = []
    for busy in (0, 0, 90, 90, 90):
        nvml.answers["nvmlDeviceGetUtilizationRates"].gpu = busy
        nvml.answers["nvmlDeviceGetClockInfo"] = 990 if busy else 300
        nvml.answers["nvmlDeviceGetCurrPcieLinkGeneration"] = 4 if busy else 1
        nvml.answers["nvmlDeviceGetCurrentClocksEventReasons"] = 0x20 if busy else 0x1
        texts.append(place.read().text)
    view = host_view([source(texts, name="nvml", texts=ABOUT)], 0.0, 4.0)
    assert view is not None
    (card,) = view.cards
    assert (card.loaded, card.sm_clock, card.generation) == (3, pytest.approx(0.5), (4, 5))
    assert card.reasons == (("software_thermal", 1.0),)
    assert card.occupancy == pytest.approx(0.54)
    assert [(f.pid, f.occupancy) for f in card.foreign] == [(77, pytest.approx(0.3))]


def test_where_no_member_is_seen_on_a_card_nobody_is_called_foreign():
    nvml = FakeNvml(1)
    place = Nvml((Card(0),), (1,), load=lambda: nvml)
    view = host_view([source([place.read().text] * 3, name="nvml", texts=ABOUT)], 0.0, 2.0)
    assert view is not None
    assert [card.foreign for card in view.cards] == [()]


def test_what_a_collector_could_not_read_is_a_gap_of_the_view(tmp_path):
    proc = process(tmp_path)
    (tmp_path / f"proc/{PID}/task/{PID}/schedstat").unlink()
    text = Processes((ENGINE,), proc=proc, sys=str(tmp_path)).read().text
    view = host_view([source([text, text], texts=ABOUT)], 0.0, 1.0)
    assert view is not None
    assert [(gap.source, bool(gap.cure)) for gap in view.gaps] == [("run-queue wait", True)]


# -- joins -------------------------------------------------------------------------------------------------


def host(root: int, url: str | None = None) -> Source:
    return source([b"host_process_threads 1\n"], texts={"family": json.dumps({"root": root, "url": url})})


def joined(recording: Recording, name: str, engines: int) -> list[int]:
    sources = host_of(recording, Source(name, "prometheus"), engines)
    return [root for root, group in families(recording).items() if group == sources]


@pytest.mark.parametrize(
    ("hosts", "engines", "root"),
    [
        ([(1, "http://a"), (2, "http://b")], 2, [2]),
        ([(1, None)], 1, [1]),
        ([(1, None)], 2, []),
        ([(1, None), (2, None)], 1, []),
        ([(1, "http://a")], 1, []),
        ([], 1, []),
    ],
)
def test_a_host_belongs_to_its_endpoint_or_to_the_only_one(hosts, engines, root):
    recording = Recording(1, "0", 0.0, [host(*each) for each in hosts])
    assert joined(recording, "http://b", engines) == root


@pytest.mark.parametrize("text", ["", "[]", "{", '{"root": "x"}'])
def test_a_source_that_does_not_say_whose_it_is_joins_nothing(text):
    lost = source([b"host_process_threads 1\n"], texts={"family": text})
    assert families(Recording(1, "0", 0.0, [lost])) == {}


def test_gaps_of_one_reason_are_one_and_others_stay_apart():
    page = Lines()
    for what in ("power", "energy"):
        page.gap("GPU 0", f"{what}: this card does not tell")
    page.gap("GPU 0", "it did not answer", "look")
    page.gap("disks", "a: no such file", "look")
    page.gap("disks", "b: no such file", "look")
    view = host_view([source([page.page().text] * 3, texts=ABOUT)], 0.0, 2.0)
    assert view is not None
    assert [(gap.source, gap.reason) for gap in view.gaps] == [
        ("GPU 0", "power, energy: this card does not tell"),
        ("GPU 0", "it did not answer"),
        ("disks", "a: no such file"),
        ("disks", "b: no such file"),
    ]


# -- processes that die ------------------------------------------------------------------------------------


def resident(*rows: dict[int, float]) -> Source:
    """One reading a row: resident bytes of engine cores by pid; one that is left out is gone."""
    name = 'host_process_resident_bytes{{pid="{}",role="engine_core"}} {}\n'
    text = [
        "# TYPE host_process_resident_bytes gauge\n" + "".join(name.format(*p) for p in row.items())
        for row in rows
    ]
    return source([page.encode() for page in text], texts=ABOUT)


@pytest.mark.parametrize(
    ("rows", "ended"),
    [
        pytest.param(({7: 1e9}, {7: 1e9}, {7: 1e9}), (), id="it lives"),
        pytest.param(({7: 1e9}, {7: 1e9}, {7: 0.0}), ((7, "engine_core"),), id="a zombie has no memory"),
        pytest.param(
            ({7: 1e9, 8: 1e9}, {8: 1e9}, {8: 1e9}), ((7, "engine_core"),), id="it is gone, another lives"
        ),
        pytest.param(({7: 1e9}, {9: 1e9}, {9: 1e9}), (), id="it was replaced"),
    ],
)
def test_a_process_that_died_and_was_not_replaced_has_ended(rows, ended):
    view = host_view([resident(*rows)], 0.0, 2.0)
    assert view is not None
    assert view.ended == ended
