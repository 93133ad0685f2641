"""The times that loggers write, and lines without one."""

from __future__ import annotations

import pytest
from loglines import stats

from kvdoctor.readers import read
from kvdoctor.readers.logs.stamp import stamp

STAMPS = [
    (b"INFO 07-18 09:42:27 [loggers.py:111]", "2025-07-18T09:42:27"),
    (b"[2025-09-03 18:33:18 TP0] Decode batch", "2025-09-03T18:33:18"),
    (b"[2025-07-21 22:01:18,140] LMCache INFO", "2025-07-21T22:01:18.140"),
    (b"2025-05-28T21:32:44.357Z  INFO nixl", "2025-05-28T21:32:44.357"),
    (b"[03/13/2025-08:00:00] [TRT-LLM] [I]", "2025-03-13T08:00:00"),
    (b"I0728 06:40:59.123456 12 master.cpp", "2025-07-28T06:40:59.123456"),
    (b"Jul 28 06:40:59 host vllm[12]: INFO", "2025-07-28T06:40:59"),
    (b"[1753684859.5] [node-a:15:2] UCX", "2025-07-28T06:40:59.5"),
    (b"INFO 12-30 09:42:27 last year's", "2024-12-30T09:42:27"),
]


@pytest.mark.parametrize(("line", "moment"), STAMPS)
def test_a_time_is_read_in_the_forms_that_loggers_write(line, moment):
    from datetime import datetime, timezone

    latest = datetime(2025, 10, 1, tzinfo=timezone.utc).timestamp()
    wanted = datetime.fromisoformat(moment.ljust(26, "0") if "." in moment else moment)
    assert stamp(line, latest) == pytest.approx(wanted.replace(tzinfo=timezone.utc).timestamp())


@pytest.mark.parametrize("line", [b"no time here", b"INFO 02-31 09:42:27 no such day", b"13-45 99:99:99"])
def test_a_line_without_a_sensible_time_has_none(line):
    assert stamp(line, 1.76e9) is None


def test_lines_without_times_lie_a_usual_distance_apart_and_the_report_says_so(tmp_path):
    path = tmp_path / "bare.log"
    path.write_text("".join(stats(0).partition("] ")[2] for _ in range(3)))
    recording = read([str(path)])
    assert list(recording.sources[0].at) == [0.0, 10.0, 20.0]
    assert any("no time" in gap.reason for gap in recording.gaps)
