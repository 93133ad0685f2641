"""The first run on a card: its judgements over made-up readings, a row just inside and just outside each bar."""

from __future__ import annotations

import pytest

from benchmarks import gpu_judges as judges
from benchmarks.gpu_steps import STEPS

PAYLOAD = 8 * 2**30


@pytest.mark.parametrize(
    ("rise", "agrees"),
    [
        (PAYLOAD * 1.05, True),
        (PAYLOAD * 0.99, False),
        (PAYLOAD * 1.05 - 2**32, True),
        (PAYLOAD * 1.05 - 2 * 2**32, True),
        (0, False),
        (PAYLOAD * 1.13, False),
    ],
)
def test_a_byte_counter_may_wrap(rise, agrees):
    before, after = {198: {"value": 5.0, "type": 1}}, {198: {"value": 5.0 + rise, "type": 1}}
    assert judges.pcie_fields({"before": before, "after": after, "payload": PAYLOAD})["agrees"] is agrees


def test_a_counter_that_is_not_there_agrees_with_nothing():
    assert not judges.pcie_fields({"before": {198: {"code": 3}}, "after": {198: {"code": 3}}, "payload": 1})[
        "agrees"
    ]


@pytest.mark.parametrize(("dram", "agrees"), [(90.0, True), (74.0, False), (98.0, False)])
def test_reading_shows_as_dram_and_not_as_tensor_work(dram, agrees):
    def metric(value):
        return {"code": 0, "value": value}

    reading = {"10": metric(dram), "2": metric(99.0), "5": metric(0.0)}
    seen = {"reading": reading, "idle": {"10": metric(0.0)}, "bytes_per_s": 4e12}
    assert judges.gpm_reads(seen)["agrees"] is agrees


@pytest.mark.parametrize(("mib_per_s", "agrees"), [(50e9 / 2**20, True), (50e9 * 0.85 / 2**20, False)])
def test_gpms_rates_are_mib_and_seen_from_the_card(mib_per_s, agrees):
    h2d = {"gpm": {"21": {"value": mib_per_s}, "20": {"value": 0.0}}, "bytes_per_s": 50e9}
    d2h = {"gpm": {"20": {"value": mib_per_s}, "21": {"value": 0.0}}, "bytes_per_s": 50e9}
    assert judges.gpm_pcie({"h2d": h2d, "d2h": d2h})["agrees"] is agrees


@pytest.mark.parametrize(("during", "agrees"), [([99.0, 95.0], True), ([89.0, 89.0], False), ([], False)])
def test_a_probe_costs_the_service_less_than_a_tenth(during, agrees):
    seen = {"before": [100.0, 100.0], "during": during, "probe": {"rows": []}}
    assert judges.manners(seen)["agrees"] is agrees


def test_all_steps_together_fit_the_time_and_none_is_without_a_limit():
    assert all(0 < step.limit_s <= 90 for step in STEPS.values())
