"""Cards: clocks, errors, link and tenants, judged under load and around each threshold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hosts import CARD as HEALTHY
from hosts import view
from loads import case

from kvdoctor.causes import cards, device
from kvdoctor.hostview import Activity, Foreign
from kvdoctor.model import Finding, Verdict

STEADY = case()


def of(subclass: str, **changes: object) -> Finding | None:
    seen = replace(STEADY, host=view(cards=(replace(HEALTHY, **changes),)))
    return next((f for f in device.check(seen) if f.subclass == subclass), None)


def verdict(subclass: str, **changes: object) -> Verdict | None:
    found = of(subclass, **changes)
    return found.verdict if found else None


def test_a_healthy_card_is_ruled_out_with_its_numbers():
    for subclass in ("throttled", "ecc", "link_degraded"):
        found = of(subclass)
        assert found is not None
        assert (found.verdict, bool(found.evidence)) == (Verdict.RULED_OUT, True)
    assert of("shared") is None


@pytest.mark.parametrize(
    ("clock", "reason", "held", "expected"),
    [
        (cards.SM_CLOCK - 0.01, "software_thermal", cards.HELD, Verdict.LIKELY),
        (cards.SM_CLOCK, "software_thermal", 1.0, Verdict.RULED_OUT),
        (cards.SM_CLOCK - 0.01, "software_thermal", cards.HELD - 0.01, Verdict.RULED_OUT),
        (cards.SM_CLOCK - 0.01, "power_cap", 1.0, Verdict.POSSIBLE),
        (cards.SM_CLOCK - 0.01, "idle", 1.0, Verdict.RULED_OUT),
    ],
)
def test_clocks_that_a_fault_holds_down_are_throttled(clock, reason, held, expected):
    assert verdict("throttled", sm_clock=clock, reasons=((reason, held),)) is expected


def test_a_slow_memory_clock_is_throttled_though_the_sms_are_not():
    slow = {"memory_clock": cards.MEMORY_CLOCK - 0.01, "reasons": (("hardware_thermal", 1.0),)}
    assert verdict("throttled", **slow) is Verdict.LIKELY


@pytest.mark.parametrize("subclass", ["throttled", "link_degraded"])
def test_without_load_neither_clocks_nor_link_are_judged(subclass):
    assert of(subclass, loaded=cards.MIN_LOADED - 1, sm_clock=0.1, generation=(1.0, 5.0)) is None


@pytest.mark.parametrize("fault", [{"uncorrected": 1.0}, {"pending_rows": 1.0}, {"xids": ((79, 1),)}])
def test_any_fault_in_the_window_is_named(fault):
    assert verdict("ecc", **fault) is Verdict.LIKELY


@pytest.mark.parametrize(
    ("generation", "width", "rate"), [((4.0, 5.0), (16.0, 16.0), 0.5), ((5.0, 5.0), (8.0, 16.0), 0.5)]
)
def test_a_narrow_link_is_possible_while_no_load_waits_for_it(generation, width, rate):
    found = of("link_degraded", generation=generation, width=width)
    assert found is not None
    assert (found.verdict, found.evidence[0].value) == (Verdict.POSSIBLE, rate)


@pytest.mark.parametrize(
    ("foreign", "expected"),
    [
        (Foreign(7, 2 * cards.BIG, cards.BUSY), Verdict.LIKELY),
        (Foreign(7, cards.BIG, 0.0), Verdict.POSSIBLE),
        (Foreign(7, cards.BIG - 1, cards.BUSY - 0.01), None),
        (Foreign(7, None, 0.0), None),
    ],
)
def test_another_tenant_counts_when_it_computes(foreign, expected):
    assert verdict("shared", foreign=(foreign,)) is expected


def test_without_cards_the_gap_stays():
    unseen = device.check(replace(STEADY, host=view()))
    assert [f.verdict for f in unseen] == [Verdict.NO_DATA]


@pytest.mark.parametrize(("name", "expected"), [("NVIDIA H200", Verdict.LIKELY), ("", Verdict.POSSIBLE)])
def test_a_card_that_does_not_answer_is_the_fault_if_it_was_ever_read(name, expected):
    found = of("ecc", missing="the card fell off the bus", name=name)
    assert found is not None
    assert (found.verdict, bool(found.share_seconds)) == (expected, expected is Verdict.LIKELY)
    assert "Xid 79" in found.advice[0].do


def test_a_lost_card_is_not_judged_by_what_it_told_before():
    assert of("throttled", missing="the card needs a reset") is None


def test_an_instance_is_judged_for_its_tenants_only():
    seen = replace(STEADY, host=view(cards=(replace(HEALTHY, instance="3"),)))
    assert [f.subclass for f in device.check(seen)] == ["throttled"]  # the gap of cards that are not seen


def test_a_narrow_link_shows_what_it_carries_and_who_counted():
    found = of("link_degraded", link=2e10, link_source="GPM PCIe counters", replays=7.0)
    assert found is not None
    told = {e.source: (e.value, e.threshold) for e in found.evidence}
    assert told["GPM PCIe counters"] == (2e10, pytest.approx(63e9))
    assert told["NVML PCIe replay counter"] == (7.0, None)


def test_time_in_context_switches_stands_beside_a_second_tenant():
    busy = Foreign(7, 2 * cards.BIG, cards.BUSY)
    found = of("shared", foreign=(busy,), activity=Activity("GPM", 10.0, switching=0.02))
    assert found is not None
    assert (found.evidence[-1].value, found.evidence[-1].source) == (0.02, "GPM")
