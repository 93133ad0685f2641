"""A family without metrics: honest, and no more than the host proves."""

from __future__ import annotations

import json

import pytest
from hosts import ENGINE, PID, process, source, write

from kvdoctor.collectors.process import Processes
from kvdoctor.diagnose import diagnose
from kvdoctor.model import Bound, Confidence, State
from kvdoctor.recording import Recording, Source
from kvdoctor.target.family import Member

LOOP = Member(PID, 1, 0, "loop", ENGINE.start_ticks, "python serve.py", PID)
STATUS = """Name:\tpython
State:\t{state}
VmSwap:\t0 kB
Cpus_allowed_list:\t0-1
voluntary_ctxt_switches:\t5
nonvoluntary_ctxt_switches:\t5
"""


def loop(root, *, read: int, state: str, wait: float = 0.0) -> Source:
    """A loop that reads this many bytes a second and is in this state whenever it is looked at."""
    proc = process(root)
    place = Processes((LOOP,), proc=proc, sys=str(root))
    pages = []
    for second in range(11):
        folder = f"proc/{PID}"
        times = f"{int(0.2e9 * second)} {int(wait * 1e9 * second)} 1\n"
        write(
            root,
            {
                f"{folder}/io": f"rchar: 0\nread_bytes: {read * second}\nwrite_bytes: 0\n",
                f"{folder}/task/{PID}/schedstat": times,
                f"{folder}/task/{PID}/status": STATUS.format(state=state),
            },
        )
        pages.append(place.read().text)
    return source(pages, texts={"family": json.dumps({"root": PID, "engine": "transformers", "url": None})})


def recording(*sources: Source) -> Recording:
    return Recording(1, "0", 0.0, list(sources))


def test_a_plain_loop_is_insufficient_evidence_with_what_was_seen(tmp_path):
    found = diagnose(recording(loop(tmp_path, read=0, state="R (running)")))
    assert (found.state, found.primary) == (State.INSUFFICIENT, None)
    (target,) = found.targets
    assert (target.engine, target.pid, target.url) == ("transformers", PID, None)
    assert any("Busiest threads" in note and "loop" in note for note in found.notes)


def test_a_loop_that_waits_for_its_disk_is_offload_with_the_rate(tmp_path):
    found = diagnose(recording(loop(tmp_path, read=300_000_000, state="D (disk sleep)")))
    assert (found.state, found.primary, found.subclass) == (State.BOUND, Bound.OFFLOAD, "slow_tier")
    assert "300 MB/s" in found.summary
    assert "of a request" not in found.summary
    assert found.confidence is Confidence.LOW


@pytest.mark.parametrize(("read", "state"), [(300_000_000, "R (running)"), (0, "D (disk sleep)")])
def test_reads_without_waits_and_waits_without_reads_name_nothing(tmp_path, read, state):
    assert diagnose(recording(loop(tmp_path, read=read, state=state))).state is State.INSUFFICIENT


def test_the_same_recording_gives_the_same_answer(tmp_path):
    seen = recording(loop(tmp_path, read=300_000_000, state="D (disk sleep)"))
    assert diagnose(seen) == diagnose(seen)
