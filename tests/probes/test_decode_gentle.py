"""The decode probe beside a service: bursts that count what they take of the processors, and not what they wait."""

from __future__ import annotations

import importlib.util
import os

import pytest

from kvdoctor.errors import Unavailable
from kvdoctor.probes import decode, manners
from kvdoctor.probes.decode import SMALL, Options
from kvdoctor.probes.decode_plan import CACHES, NoRoom, fewest_layers, plan
from kvdoctor.probes.timing import BURST_S, IDLE_FACTOR, SHARED_REPEATS, Pace
from kvdoctor.reference.config import config_of
from kvdoctor.reference.sizes import layer_bytes, outer_bytes
from kvdoctor.render.probe_decode import body

MIB = 2**20
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch")
TINY = {
    **SMALL,
    "hidden_size": 128,
    "num_hidden_layers": 9,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 128,
    "vocab_size": 300,
}


def quiet(doing, share):
    """Say nothing."""


@pytest.fixture
def small(monkeypatch):
    """A machine without caches and with room, whose environment stays as it was."""
    monkeypatch.setattr(manners, "last_level_cache", lambda root="/": 0)
    monkeypatch.setattr(manners, "MARGIN", 0)
    for name in decode.PATIENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(decode.os, "environ", dict(os.environ))


def rested(monkeypatch):
    """Let nothing really rest; return the rests."""
    slept = []
    monkeypatch.setattr(decode, "Pace", lambda *a, **more: Pace(*a, **more, sleep=slept.append))
    return slept


@needs_torch
def test_beside_a_service_it_rests_after_each_burst_and_says_so(small, monkeypatch):
    slept = rested(monkeypatch)
    found = decode.run(Options(config=TINY, batch=2, context=50, device="cpu", shared=True), quiet)
    about = found["conditions"]
    assert about["shared_with_others"]
    assert sum(slept) == pytest.approx(IDLE_FACTOR * about["active_seconds"])
    assert len(found["step_repeats_seconds"][0]) <= SHARED_REPEATS
    assert found["basis"] == "measured"


@needs_torch
def test_memory_is_filled_in_pieces_of_a_few_milliseconds():
    import torch

    from kvdoctor.probes.decode_gentle import STEP, weights
    from kvdoctor.probes.decode_run import Device
    from kvdoctor.reference.weights import random_weights

    slept = []
    shape = config_of({**TINY, "vocab_size": 20000, "tie_word_embeddings": True})
    made = weights(shape, 1, Device("CPU", "cpu"), Pace(shared=True, sleep=slept.append))
    alone = random_weights(shape)
    assert made.head is made.embedding
    assert made.resident_bytes() == alone.resident_bytes()
    assert len(slept) >= -(-20000 * 128 // STEP) + 9
    assert float(made.embedding.std()) == pytest.approx(float(alone.embedding.std()), rel=0.05)
    assert bool(torch.all(made.norm > 0.8))


@needs_torch
def test_a_step_longer_than_a_burst_is_refused_beside_a_service():
    from kvdoctor.probes.decode_gentle import check_step

    check_step(lambda: BURST_S, Pace(shared=True, sleep=lambda seconds: None))
    with pytest.raises(Unavailable, match="a step takes 60 ms here") as refused:
        check_step(lambda: 0.06, Pace(shared=True, sleep=lambda seconds: None))
    assert "while the service is down" in refused.value.cure


@needs_torch
def test_what_a_burst_cannot_read_is_refused_with_the_reason(small, monkeypatch):
    from kvdoctor.probes import decode_gentle

    rested(monkeypatch)
    monkeypatch.setattr(decode_gentle, "step_bytes", lambda device, pace: MIB)
    with pytest.raises(Unavailable, match="beside a service a step is to end within 50 ms: three layers"):
        decode.run(Options(config=TINY, context=50, device="cpu", shared=True), quiet)


class Clock:
    """Processor time that runs only while the fake work below runs."""

    cpu = 0.0

    def process_time(self):
        return self.cpu


@pytest.fixture
def waited(monkeypatch):
    """A pace on processors, and work of so many seconds of which the rest was waited for one."""
    clock = Clock()
    monkeypatch.setattr("kvdoctor.probes.timing.time.process_time", clock.process_time)
    pace = Pace(shared=True, sleep=lambda seconds: None, on_cpu=True)

    def work(seconds, cpu):
        clock.cpu += cpu
        return seconds

    return pace, work


def test_a_burst_is_what_it_took_of_the_processors(waited):
    pace, work = waited
    assert pace.burst(lambda: work(0.4, 0.007)) == pytest.approx(0.007)
    assert pace.burst(lambda: work(0.01, 0.02)) == pytest.approx(0.01), "two processors at once"
    assert pace.longest_s == pytest.approx(0.01)


@needs_torch
def test_how_much_a_step_may_read_does_not_shrink_with_the_wait_behind_the_service(waited):
    """64 MiB in 7 ms of the processors, 0.7 of a burst of 50 ms: 320 MiB, though each reading took 400 ms."""
    from kvdoctor.probes.decode_gentle import step_bytes

    pace, work = waited

    class Device:
        place, cache = "cpu", 0

        def seconds(self, call):
            call()
            return 0.0

        def read(self, memory):
            return work(0.4, 0.007)

    assert step_bytes(Device(), pace) == pytest.approx(320 * MIB, rel=1e-6)


@needs_torch
def test_one_step_in_time_will_do(waited):
    from kvdoctor.probes.decode_gentle import check_step

    pace, work = waited
    taken = iter([(0.5, 0.09), (0.5, 0.04), (0.5, 0.09)])
    check_step(lambda: work(*next(taken)), pace)
    assert next(taken), "the third was not needed"
    with pytest.raises(Unavailable, match="a step takes 90 ms here"):
        check_step(lambda: work(0.5, 0.09), pace)


@needs_torch
def test_rounds_beside_a_service_count_time_on_the_processors(small, monkeypatch, waited):
    _, work = waited
    from kvdoctor.probes.decode_run import Bench

    rested(monkeypatch)
    monkeypatch.setattr(Bench, "step", lambda self: work(0.4, 0.02))
    monkeypatch.setattr(Bench, "read", lambda self: work(0.3, 0.01))
    found = decode.run(Options(config=TINY, context=50, device="cpu", shared=True), quiet)
    assert found["step_seconds"] == pytest.approx(0.02)
    assert found["step_repeats_seconds"] == [[pytest.approx(0.02)] * 3]
    about = found["conditions"]
    assert (about["rounds"], about["waiting_left_out"]) == (3, True)
    assert any("what was waited for one, behind the service, is left out" in line for line in body(found))
    assert any("a single round" in line for line in body({**found, "conditions": {**about, "rounds": 1}}))


CONFIG = config_of(SMALL)
EACH = layer_bytes(CONFIG, 0)


@pytest.mark.parametrize("cache", [0, 16 * MIB, 32 * MIB, 60 * MIB])
def test_our_own_model_has_the_fewest_layers_that_the_caches_do_not_hold(cache):
    found = fewest_layers(CONFIG, 0, cache)
    assert outer_bytes(CONFIG) + found * EACH >= CACHES * cache
    assert found == 1 or outer_bytes(CONFIG) + (found - 1) * EACH < CACHES * cache
    assert plan(CONFIG.with_layers(found), 0, room=2**40, cache=cache).counts == (found,)


def test_caches_that_hold_all_of_it_take_all_layers():
    assert fewest_layers(CONFIG, 0, 2**40) == CONFIG.layers


def test_a_model_that_the_caches_hold_is_told_to_be_larger_and_not_smaller(monkeypatch):
    """Not the burst refuses it: a smaller one, the cure of that, would be refused all the more."""
    config = config_of(TINY)
    with pytest.raises(Unavailable, match="of which the caches of 64 MiB hold a share") as found:
        decode._fitting(Options(config=TINY, shared=True), config, "fp32", 2**30, 64 * MIB)
    assert found.value.cure == "take a larger model, batch or context"
    with pytest.raises(Unavailable, match="beside a service a step is to end within 50 ms"):
        decode._fitting(Options(config=TINY, shared=True), config, "fp32", MIB, 0)
    with pytest.raises(NoRoom):
        decode._fitting(Options(config=TINY), config, "fp32", MIB, 0)


def test_threads_that_wait_sleep_beside_a_service(small, monkeypatch):
    class Stop(Exception):
        """Raised where torch would be loaded."""

    def shape(options):
        raise Stop

    monkeypatch.setattr(decode, "_shape", shape)
    with pytest.raises(Stop):
        decode.run(Options(device="cpu"), quiet)
    assert "OMP_WAIT_POLICY" not in decode.os.environ
    with pytest.raises(Stop):
        decode.run(Options(device="cpu", shared=True), quiet)
    assert decode.os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
