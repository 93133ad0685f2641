"""The same service over batches and contexts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from rooflines import question

from kvdoctor.errors import KvdoctorError
from kvdoctor.roofline.rates import decode_of
from kvdoctor.roofline.sweep import sweep


def test_the_service_itself_is_one_of_the_points() -> None:
    asked = question(batch=24.0)
    points = sweep(asked, "batch")
    mine = [point for point in points if point.is_this]
    assert [point.batch for point in mine] == [24.0]
    assert mine[0].ceiling == decode_of(asked).ceiling
    assert {1.0, 2.0, 512.0} < {point.batch for point in points}


def test_throughput_rises_and_each_sequence_slows_down_with_the_batch() -> None:
    for one, two in pairwise(sweep(question("Mixtral-8x7B", gpus=2), "batch")):
        assert two.ceiling >= one.ceiling
        assert two.ceiling / two.batch <= one.ceiling / one.batch
        assert two.intensity >= one.intensity


def test_what_no_longer_fits_is_marked() -> None:
    fits = [point.fits for point in sweep(question(batch=64.0), "batch")]
    assert fits == sorted(fits, reverse=True)
    assert {True, False} == set(fits)


def test_contexts_end_at_the_models_positions_and_kv_comes_to_rule() -> None:
    points = sweep(question(batch=8.0), "context")
    assert points[-1].context == 131072
    assert (points[0].limit, points[-1].limit) == ("weights", "kv")


def test_a_point_lies_on_the_roof() -> None:
    asked = question()
    machine = asked.machine
    assert machine is not None
    assert machine.peak is not None
    for point in sweep(asked, "batch"):
        roof = min(point.intensity * machine.bandwidth, machine.peak)
        assert point.flops_per_s == pytest.approx(roof)


def test_a_sweep_needs_a_bandwidth_and_one_context() -> None:
    with pytest.raises(KvdoctorError):
        sweep(question(gpu=None), "batch")
    with pytest.raises(KvdoctorError):
        sweep(question(context="1k,2k"), "context")
