"""The watch over the service while a probe runs, and what `diagnose --probe` does beside it."""

from __future__ import annotations

import pytest

from kvdoctor.commands.allowed import probe_first
from kvdoctor.commands.victim import LEAST_S, WORSE, Watcher, watch


def watcher(*readings):
    left = iter(readings)
    return Watcher(lambda: next(left, None))


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
    assert seen.reason == "stopped: the service's mean ITL rose from 40.0 ms to 100 ms while it ran"


def test_without_a_service_there_is_nothing_to_watch():
    with watch(None, None) as stop:
        assert stop is None


MEMORY = {
    "probe": "hbm",
    "measures": "system memory",
    "device": "CPU",
    "achieved_bytes_per_s": 30e9,
    "rows": [],
    "conditions": {},
}
PCIE = {"probe": "pcie", "refused": {"reason": "there is no GPU", "cure": "elsewhere"}}


def first(told, busy):
    probe_first(told, (), None, run=lambda name, url, pid: ({"hbm": MEMORY, "pcie": PCIE}[name], busy))


def test_a_measured_ceiling_is_told_to_the_diagnosis_and_refusals_are_said(capsys):
    told = {}
    first(told, busy=False)
    assert told == {"bandwidth": "30.0", "bandwidth_basis": "read by the probe of system memory"}
    said = capsys.readouterr().err
    assert "pcie refused: there is no GPU" in said
    for name in ("nvme", "network", "request"):
        assert f"{name} not run: " in said


def test_what_a_busy_service_leaves_over_is_no_ceiling(capsys):
    told = {}
    first(told, busy=True)
    assert told == {}
    assert "not used as the ceiling" in capsys.readouterr().err


def test_what_the_user_told_stays():
    told = {"bandwidth": "3350.0"}
    first(told, busy=False)
    assert told == {"bandwidth": "3350.0"}
