"""Cards: clocks, errors, link and tenants, judged under load and around each threshold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hosts import view
from loads import case

from kvdoctor.causes import cards, device
from kvdoctor.hostview import CardView, Foreign
from kvdoctor.model import Finding, Verdict

HEALTHY = CardView(
    index=0, name="NVIDIA H200", occupancy=0.98, used=1e11, total=1.5e11, sm_clock=1.0, memory_clock=1.0,
    reasons=(), loaded=10, generation=(5.0, 5.0), width=(16.0, 16.0), uncorrected=0.0, pending_rows=0.0,
    xids=(), foreign=(), node=None,
)  # fmt: skip
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
