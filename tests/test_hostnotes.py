"""Which threads a report speaks of."""

from __future__ import annotations

from kvdoctor.hostnotes import host_notes
from kvdoctor.hostview import HostView, StackMix
from kvdoctor.stackclass import Doing


def mix(thread: str, *counts: tuple[Doing, int]) -> StackMix:
    return StackMix(7, "engine_core", thread, sum(n for _, n in counts), counts)


def told(*mixes: StackMix) -> tuple[str, ...]:
    return host_notes(HostView(7, "vllm", 10.0, ((7, "engine_core"),), stacks=mixes))


def test_a_thread_that_was_only_idle_or_unknown_is_not_spoken_of():
    assert told(mix("watchdog", (Doing.OTHER, 20)), mix("pool", (Doing.IDLE, 12), (Doing.OTHER, 8))) == ()


def test_a_main_thread_is_spoken_of_whatever_it_did():
    assert told(mix("main", (Doing.OTHER, 20))) == (
        "Stacks of engine_core 7, thread main, 20 samples: 100% other.",
    )


def test_most_named_work_comes_first():
    found = told(
        mix("main", (Doing.OTHER, 20)),
        mix("loader", (Doing.DISK, 5), (Doing.IDLE, 15)),
        mix("tokenizer", (Doing.TOKENIZER, 18), (Doing.IDLE, 2)),
    )
    assert [line.split("thread ")[1].split(",")[0] for line in found] == ["tokenizer", "loader", "main"]
    assert found[1].endswith("75% idle, 25% disk.") or found[1].endswith("25% disk, 75% idle.")
