"""The machine: pressure, CPUs of the family alone, pages swapped in."""

from __future__ import annotations

import errno

import pytest
from hosts import PID, captured, values, write

from kvdoctor.collectors import files
from kvdoctor.collectors.pressure import Machine


def tree(root, **status: str) -> str:
    allowed = status.get("allowed", "0-1")
    write(
        root,
        {
            f"proc/{PID}/status": f"Name:\tx\nCpus_allowed_list:\t{allowed}\n",
            "proc/stat": captured("stat"),
            "proc/vmstat": captured("vmstat"),
            **{f"proc/pressure/{name}": captured(f"pressure_{name}") for name in ("cpu", "io", "memory")},
        },
    )
    return str(root / "proc")


@pytest.mark.parametrize(
    ("allowed", "cpus", "user"), [("0-1", 2, 4514.82), ("1", 1, 2253.60), ("", 2, 4514.82)]
)
def test_only_the_cpus_that_the_family_may_run_on_count(tmp_path, allowed, cpus, user):
    found = values(Machine(PID, proc=tree(tmp_path, allowed=allowed)).read().text)
    assert found["host_machine_cpus"] == cpus
    assert found['host_machine_cpu_seconds_total{state="user"}'] == pytest.approx(user)


def test_pressure_is_written_in_seconds(tmp_path):
    proc = tree(tmp_path)
    some = int(captured("pressure_cpu").split("total=")[1].split()[0])
    found = values(Machine(PID, proc=proc).read().text)
    assert found['host_machine_pressure_seconds_total{resource="cpu",kind="some"}'] == pytest.approx(
        some / 1e6
    )


@pytest.mark.parametrize(
    ("error", "cure"),
    [(FileNotFoundError(errno.ENOENT, "none"), "CONFIG_PSI"), (OSError(errno.EOPNOTSUPP, "off"), "psi=1")],
)
def test_without_pressure_there_is_a_gap_and_the_rest(tmp_path, monkeypatch, error, cure):
    proc, read = tree(tmp_path), files.read

    def without(path: str, limit: int = files.LIMIT) -> str:
        if "/pressure/" in path:
            raise error
        return read(path, limit)

    monkeypatch.setattr(files, "read", without)
    found = values(Machine(PID, proc=proc).read().text)
    assert any(cure in key for key in found if key.startswith("host_gap"))
    assert found["host_machine_cpus"] == 2
