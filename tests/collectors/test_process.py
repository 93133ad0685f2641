"""Processes: what each member's files say, what a hidden or ended one leaves, and what is never read."""

from __future__ import annotations

import builtins
import os

import pytest
from hosts import ENGINE, PID, START, process, source, values, write

from kvdoctor.collectors import files
from kvdoctor.collectors.process import HOT_NS, Processes
from kvdoctor.errors import Refused
from kvdoctor.target.family import Member

LABELS = f'pid="{PID}",role="engine_core"'
MAIN = f'{LABELS},thread="main"'


def test_a_process_is_read_in_base_units(tmp_path):
    page = Processes((ENGINE,), proc=process(tmp_path), sys=str(tmp_path)).read()
    found = values(page.text)
    assert found[f"host_process_resident_bytes{{{LABELS}}}"] == 148267 * os.sysconf("SC_PAGE_SIZE")
    assert found[f"host_process_threads{{{LABELS}}}"] == 15
    assert found[f"host_process_swap_bytes{{{LABELS}}}"] == 0
    assert found[f"host_process_cpus{{{LABELS}}}"] == 2
    assert found[f"host_thread_cpu_seconds_total{{{MAIN}}}"] == 1.0
    assert found[f"host_thread_wait_seconds_total{{{MAIN}}}"] == 0.1


def test_threads_of_one_name_are_added_up_and_an_ended_one_takes_nothing_away(tmp_path):
    proc = process(tmp_path)
    status = "Name:\tZMQbg/IO/{}\nState:\tS (sleeping)\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t2\n"
    for tid in (7, 8):
        write(
            tmp_path,
            {
                f"proc/{PID}/task/{tid}/schedstat": "500000000 0 1\n",
                f"proc/{PID}/task/{tid}/status": status.format(tid),
            },
        )
    place = Processes((ENGINE,), proc=proc, sys=str(tmp_path))
    key = f'host_thread_cpu_seconds_total{{{LABELS},thread="ZMQbg/IO/N"}}'
    assert values(place.read().text)[key] == 1.0
    for name in ("schedstat", "status"):
        (tmp_path / f"proc/{PID}/task/8/{name}").unlink()
    (tmp_path / f"proc/{PID}/task/8").rmdir()
    write(tmp_path, {f"proc/{PID}/task/7/schedstat": "700000000 0 2\n"})
    assert values(place.read().text)[key] == pytest.approx(1.2)


@pytest.mark.parametrize(("more", "read"), [(HOT_NS - 1, False), (HOT_NS, True)])
def test_the_switches_of_a_thread_are_read_again_only_when_it_ran(tmp_path, more, read):
    proc = process(tmp_path)
    status = (
        "Name:\tx\nState:\tD (disk sleep)\nvoluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t0\n"
    )
    folder = f"proc/{PID}/task/7"
    write(tmp_path, {f"{folder}/schedstat": "1000 0 1\n", f"{folder}/status": status.format(1)})
    place = Processes((ENGINE,), proc=proc, sys=str(tmp_path))
    place.read()
    write(tmp_path, {f"{folder}/schedstat": f"{1000 + more} 0 1\n", f"{folder}/status": status.format(9)})
    found = values(place.read().text)
    assert found[f'host_thread_switches_total{{{LABELS},thread="x",kind="voluntary"}}'] == (9 if read else 1)
    assert (f'host_thread_state_samples_total{{{LABELS},thread="x",state="D"}}' in found) is read


def test_without_schedstat_clock_ticks_are_read_and_the_wait_is_a_gap(tmp_path):
    proc = process(tmp_path)
    (tmp_path / f"proc/{PID}/task/{PID}/schedstat").unlink()
    found = values(Processes((ENGINE,), proc=proc, sys=str(tmp_path)).read().text)
    assert found[f"host_thread_cpu_seconds_total{{{MAIN}}}"] == (3977 + 1437) / os.sysconf("SC_CLK_TCK")
    assert any(key.startswith("host_gap") and "wait for a CPU" in key for key in found)


def test_a_denied_io_file_is_a_gap_with_its_cure_and_the_rest_is_read(tmp_path, monkeypatch):
    read = files.read

    def denied(path: str, limit: int = files.LIMIT) -> str:
        if path.endswith("/io"):
            raise PermissionError(13, "Permission denied", path)
        return read(path, limit)

    monkeypatch.setattr(files, "read", denied)
    found = values(Processes((ENGINE,), proc=process(tmp_path), sys=str(tmp_path)).read().text)
    gap = next(key for key in found if key.startswith("host_gap"))
    assert "CAP_SYS_PTRACE" in gap
    assert f"host_process_threads{{{LABELS}}}" in found


@pytest.mark.parametrize("start", [START + 1, START])
def test_a_pid_that_was_given_to_another_process_counts_as_ended(tmp_path, start):
    member = Member(PID, 1, 0, "engine_core", start, "", PID)
    place = Processes((member,), proc=process(tmp_path), sys=str(tmp_path))
    if start == START:
        assert place.read().text
    else:
        with pytest.raises(Refused):
            place.read()


def test_one_member_that_ended_leaves_the_others_and_a_gap(tmp_path):
    gone = Member(5, 1, 0, "worker", 1, "", 5)
    found = values(Processes((ENGINE, gone), proc=process(tmp_path), sys=str(tmp_path)).read().text)
    assert any("process 5 (worker) has ended" in key for key in found)
    assert f"host_process_threads{{{LABELS}}}" in found


def test_nothing_that_holds_the_memory_map_lock_is_opened(tmp_path, monkeypatch):
    opened: list[str] = []
    real = os.open
    monkeypatch.setattr(
        os, "open", lambda path, *rest, **more: opened.append(str(path)) or real(path, *rest, **more)
    )
    monkeypatch.setattr(builtins, "open", lambda path, *rest, **more: opened.append(str(path)))
    Processes((ENGINE,), proc=process(tmp_path), sys=str(tmp_path)).read()
    assert opened
    assert not [
        p for p in opened if p.rsplit("/", 1)[1] in ("maps", "smaps", "smaps_rollup", "numa_maps", "cmdline")
    ]


def test_a_thread_name_with_escapes_and_quotes_stays_one_label(tmp_path):
    proc = process(tmp_path)
    status = 'Name:\ta"}\x1b[31m\\n 1\nState:\tS\n'
    write(tmp_path, {f"proc/{PID}/task/7/schedstat": "1 0 1\n", f"proc/{PID}/task/7/status": status})
    text = Processes((ENGINE,), proc=proc, sys=str(tmp_path)).read().text
    names = {dict(c.labels).get("thread") for c in source([text]).columns}
    assert 'a"}\\n N' in names
