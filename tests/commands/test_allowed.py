"""What `diagnose --probe` measures beside a service, and what becomes the ceiling."""

from __future__ import annotations

from kvdoctor.commands.allowed import NEEDS, probe_first
from kvdoctor.commands.victim_place import Victim

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
    probe_first(told, (), None, run=lambda: iter([("hbm", MEMORY, busy), ("pcie", PCIE, busy)]))


def test_a_measured_ceiling_is_told_to_the_diagnosis_and_refusals_are_said(capsys):
    told = {}
    first(told, busy=False)
    assert told == {"bandwidth": "30.0", "bandwidth_basis": "read by the probe of system memory"}
    said = capsys.readouterr().err
    assert "pcie refused: there is no GPU" in said
    for name, reason in NEEDS.items():
        assert f"{name} not run: {reason}" in " ".join(said.split())


def test_what_a_busy_service_leaves_over_is_no_ceiling(capsys):
    told = {}
    first(told, busy=True)
    assert told == {}
    assert "not used as the ceiling" in capsys.readouterr().err


def test_what_caches_may_have_answered_is_no_ceiling(capsys):
    told = {}
    memory = {**MEMORY, "conditions": {"possible_cache_reading": True, "buffer_bytes": 2**28}}
    probe_first(told, (), None, run=lambda: iter([("hbm", memory, False)]))
    assert told == {}
    assert "not used as the ceiling: caches may have answered" in capsys.readouterr().err


def test_what_the_user_told_stays():
    told = {"bandwidth": "3350.0"}
    first(told, busy=False)
    assert told == {"bandwidth": "3350.0"}


def test_where_the_kv_tier_is_known_its_probe_is_named_and_not_run(capsys):
    beside = Victim(pid=7, kv_folder="/mnt/k v")
    probe_first({}, (), None, run=lambda: iter(()), beside=beside)
    said = " ".join(capsys.readouterr().err.split())
    assert (
        "nvme not run: it writes a file to the KV tier: kvdoctor probe nvme --path '/mnt/k v' --pid 7" in said
    )
