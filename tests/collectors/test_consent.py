"""What forbids a probe on a card, over a scripted NVML."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fakenvml import FakeNvml

from kvdoctor.collectors.consent import CONTEXT, MARGIN, refusal

GIB = 2**30


def nvml(free=100 * GIB, **answers):
    fake = FakeNvml()
    fake.answers |= {
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=0, total=141 * GIB, free=free),
        "nvmlDeviceGetRemappedRows": (0, 0, 0, 0),
        "nvmlDeviceGetComputeMode": 0,
        **answers,
    }
    return fake


def asked(fake, need=GIB, pipes="/nowhere"):
    return refusal(need, nvml=fake, pipes=pipes)


def test_a_free_and_healthy_card_may_be_probed():
    assert asked(nvml()) is None


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ({"nvmlDeviceGetRemappedRows": (0, 0, 1, 0)}, "wait to be remapped"),
        ({"nvmlDeviceGetRemappedRows": (0, 0, 0, 1)}, "wait to be remapped"),
        ({"nvmlDeviceGetComputeMode": 3}, "compute mode"),
        ({"nvmlDeviceGetCurrentClocksEventReasons": 0x40}, "hardware thermal slowdown is active"),
        ({"nvmlDeviceGetCurrentClocksEventReasons": 0x80}, "power brake is active"),
    ],
)
def test_a_card_that_is_not_well_may_not(answers, text):
    found = asked(nvml(**answers))
    assert found is not None
    assert text in found.reason
    assert found.cure


def test_an_idle_card_at_low_clocks_may():
    assert asked(nvml(nvmlDeviceGetCurrentClocksEventReasons=0x1)) is None


@pytest.mark.parametrize(("spare", "allowed"), [(0, True), (-1, False)])
def test_context_buffers_and_margin_must_fit_beside_the_service(spare, allowed):
    found = asked(nvml(free=GIB + CONTEXT + MARGIN + spare))
    assert (found is None) is allowed


def test_an_mps_daemon_forbids_it(tmp_path):
    (tmp_path / "control").write_text("")
    found = asked(nvml(), pipes=str(tmp_path))
    assert found is not None
    assert "MPS" in found.reason


def test_what_a_card_does_not_tell_forbids_nothing():
    fake = nvml()
    fake.codes |= {"nvmlDeviceGetRemappedRows": 3, "nvmlDeviceGetComputeMode": 3}
    assert asked(fake) is None


@pytest.mark.parametrize(("code", "forbids"), [(12, False), (9, False), (18, True), (15, True)])
def test_without_a_driver_there_is_no_card_to_protect(code, forbids):
    fake = nvml()
    fake.codes["nvmlInit"] = code
    assert (asked(fake) is not None) is forbids
