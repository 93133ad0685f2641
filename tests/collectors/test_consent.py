"""What forbids a probe on a card, over a scripted NVML."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fakenvml import FakeNvml

from kvdoctor.collectors.chosen import Chosen
from kvdoctor.collectors.consent import CONTEXT, MARGIN, open_nvml, refusal
from kvdoctor.collectors.kernel_log import recent_xids
from kvdoctor.collectors.nvml_card import Handle
from kvdoctor.errors import Unavailable

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


def asked(fake, need=GIB, pipes="/nowhere", log="/nowhere"):
    return refusal(need, Chosen(Handle(0, 0), "GPU-0"), nvml=fake, pipes=pipes, log=log)


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


@pytest.mark.parametrize(("code", "text"), [(15, "fell off the bus"), (16, "needs a reset")])
def test_a_card_that_is_lost_meanwhile_forbids_it(code, text):
    fake = nvml()
    fake.codes["nvmlDeviceGetComputeMode"] = code
    found = asked(fake)
    assert found is not None
    assert text in found.reason


XID = "4,801,{at},-;NVRM: Xid (PCI:{bus}): {number}, pid=7, name=python\n"


@pytest.mark.parametrize(
    ("record", "xids"),
    [
        (XID.format(at=7_000_000_000, bus="0000:17:00", number=79), (79,)),
        (XID.format(at=6_399_999_999, bus="0000:17:00", number=79), ()),
        (XID.format(at=7_000_000_000, bus="0000:18:00", number=79), ()),
        (XID.format(at=7_000_000_000, bus="0001:17:00", number=79), ()),
        ("6,802,7000000000,-;usb 1-1: new device\n", ()),
        ("nothing of the kind\n", ()),
    ],
    ids=[
        "of this hour",
        "older than an hour",
        "another card",
        "another domain",
        "not the driver's",
        "no record",
    ],
)
def test_an_xid_of_the_last_hour_is_found_in_the_kernels_log(tmp_path, record, xids):
    log = tmp_path / "kmsg"
    log.write_text(record)
    assert recent_xids("00000000:17:00.0", log, now=10_000.0) == xids


def test_an_xid_of_the_last_hour_forbids_it(tmp_path):
    log = tmp_path / "kmsg"
    log.write_text(XID.format(at=10**15, bus="0000:17:00", number=48))
    found = asked(nvml(), log=str(log))
    assert found is not None
    assert "Xid 48 of the last hour" in found.reason


def test_a_log_that_may_not_be_read_forbids_nothing(tmp_path):
    assert recent_xids("00000000:17:00.0", tmp_path / "absent") == ()


@pytest.mark.parametrize("code", [9, 12])
def test_without_a_driver_there_is_no_card_to_protect(code, tmp_path):
    fake = nvml()
    fake.codes["nvmlInit"] = code
    assert open_nvml(lambda: fake, nodes=(str(tmp_path / "absent"),)) is None


@pytest.mark.parametrize(
    ("code", "text"),
    [(18, "kernel module differ"), (15, "fell off the bus"), (12, "no NVIDIA driver library")],
)
def test_a_card_that_cannot_be_asked_about_is_left_alone(code, text, tmp_path):
    (tmp_path / "nvidiactl").write_text("")
    fake = nvml()
    fake.codes["nvmlInit"] = code
    with pytest.raises(Unavailable, match=text):
        open_nvml(lambda: fake, nodes=(str(tmp_path / "nvidiactl"),))


def absent():
    raise ImportError


def test_a_card_is_not_used_where_nothing_can_ask_about_it(tmp_path):
    assert open_nvml(absent, nodes=(str(tmp_path / "absent"),)) is None
    (tmp_path / "nvidiactl").write_text("")
    with pytest.raises(Unavailable, match="nvidia-ml-py is not installed"):
        open_nvml(absent, nodes=(str(tmp_path / "nvidiactl"),))
